package jobrunner

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// secretKey is the file of the key of account secrets; "" keeps it in memory.
func (c Config) secretKey() string {
	if c.SecretKey != "" || c.DataDir == "" {
		return c.SecretKey
	}
	return filepath.Join(c.DataDir, store.SecretKeyFile)
}

// keys are those of the deployment: its own, and those that were added. A database that
// several jobrunners share has these for all, and takes over those of the folder.
func (j *Jobrunner) keys(ctx context.Context, c Config, clk *clock.Clock) (*apikey.Keys, error) {
	keys, dir := apikey.New(c.APIKey), cmp.Or(c.KeyDir, c.DataDir)
	if !j.db.Shared() {
		if dir == "" {
			return keys, nil
		}
		file := apikey.At(dir)
		if err := file.CheckMoved(); err != nil {
			return nil, err
		}
		return keys.With(file, clk.Now, c.Logger)
	}
	var err error
	if j.added, err = apikey.OpenTable(ctx, j.db); err != nil {
		return nil, err
	}
	if dir != "" {
		taken, conflicts, err := j.added.TakeOver(apikey.At(dir))
		if err != nil {
			return nil, err
		}
		if taken > 0 {
			c.Logger.InfoContext(ctx, "the database took over API keys of the folder", "folder", dir, "keys", taken)
		}
		for _, name := range conflicts {
			c.Logger.WarnContext(ctx, "an API key of the folder is refused: the database has another key of this name; add one under another name", "folder", dir, "key", name)
		}
	}
	return keys.With(j.added, clk.Now, c.Logger)
}

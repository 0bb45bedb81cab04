package apikey

import (
	"context"
	"log/slog"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Open returns the keys of a deployment: its own key, and the added keys in the folder dir, if dir
// isn't empty. A shared database has a table of added keys for all nodes, which takes over the
// folder's keys. If the database isn't shared, table is nil.
func Open(ctx context.Context, own, dir string, db *sqldb.DB, now func() time.Time, log *slog.Logger) (keys *Keys, table *Table, err error) {
	keys = New(own)
	if !db.Shared() {
		if dir == "" {
			return keys, nil, nil
		}
		file := At(dir)
		if err := file.CheckMoved(); err != nil {
			return nil, nil, err
		}
		keys, err = keys.With(file, now, log)
		return keys, nil, err
	}
	if table, err = OpenTable(ctx, db); err != nil {
		return nil, nil, err
	}
	if dir != "" {
		added, conflicts, err := table.TakeOver(At(dir))
		if err != nil {
			return nil, nil, err
		}
		if added > 0 {
			log.InfoContext(ctx, "the database took over API keys of the folder", "folder", dir, "keys", added)
		}
		for _, name := range conflicts {
			log.WarnContext(ctx, "an API key of the folder is rejected: the database has another key of this name; add one under another name", "folder", dir, "key", name)
		}
	}
	keys, err = keys.With(table, now, log)
	return keys, table, err
}

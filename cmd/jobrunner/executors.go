package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/executor"
)

// configFile is looked for in the data folder where no other is named.
const configFile = "jobrunner.yaml"

// executors are what runs the images that aren't built in. Opening them ends
// what a killed run left in the data folder.
func (s *serve) executors(ctx context.Context, dir string, log *slog.Logger) (*executor.Executor, error) {
	file := s.Config
	if file == "" && dir != "" {
		file = filepath.Join(dir, configFile)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			file = ""
		}
	}
	c := executor.Config{File: file, DataDir: dir, Logger: log}
	if s.Ephemeral {
		c.DataDir, c.Optional = registerFolder(), true
	}
	return executor.New(ctx, c)
}

// registerFolder is the folder in which the jobrunners of this user that keep nothing
// tell each other what to end of one that was killed: a container outlives its
// jobrunner. While none runs it has no files. It is "" where there is no place
// for it.
func registerFolder() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "gpucloud", "jobrunner")
}

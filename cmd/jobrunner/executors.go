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
	return executor.New(ctx, executor.Config{File: file, DataDir: dir, Logger: log})
}

package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/kubernetes"
)

// configFile is the default configuration file in the data folder.
const configFile = "jobrunner.yaml"

// openExecutor opens the executor of all images except builtin/…. It ends the processes and
// containers that a killed jobrunner recorded in the data folder.
func (s *serve) openExecutor(ctx context.Context, dir string, log *slog.Logger) (*host.Executor, error) {
	c := host.Config{File: s.configFile(dir), DataDir: dir, OpenCluster: kubernetes.Open, Logger: log}
	if s.Ephemeral {
		c.DataDir, c.OptionalDataDir = containerRecordDir(), true
	}
	return host.New(ctx, c)
}

// configFile returns the file of --config, or else the one in the data folder, or "".
func (s *serve) configFile(dir string) string {
	if s.Config != "" || dir == "" {
		return s.Config
	}
	file := filepath.Join(dir, configFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return file
}

// containerRecordDir returns the folder in which this user's ephemeral jobrunners record their
// containers, so that a later one can remove those of a killed one. It returns "" if the user has
// no cache directory.
func containerRecordDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "gpucloud", "jobrunner")
}

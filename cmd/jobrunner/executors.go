package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu/nvidia"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/kubernetes"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// defaultConfig is the name of the configuration file in the data folder.
const defaultConfig = "jobrunner.yaml"

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
	file := filepath.Join(dir, defaultConfig)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return file
}

// checkFiles rejects invalid files that flags name. It skips pipes, because only their first reader, the
// deployment, gets the content.
func (s *serve) checkFiles() error {
	log := slog.New(slog.DiscardHandler)
	for _, flag := range []struct {
		name, file string
		check      func(file string) error
	}{
		{"--config", s.Config, host.CheckFile},
		{"--catalog", s.Catalog, func(file string) error {
			source, err := catalog.Open(file, new(clock.Clock), log)
			source.Close()
			return err
		}},
		{"--secrets-key-file", s.SecretsKeyFile, func(file string) error { return new(store.Store).UseSecretKey(file, "") }},
		{"--simulate-gpus", s.SimulateGPUs, func(file string) error {
			inventory, err := gpu.Simulate(file, log)
			if err == nil {
				inventory.Close()
			}
			return err
		}},
	} {
		info, err := os.Stat(flag.file)
		if isPipe := err == nil && !info.Mode().IsRegular() && !info.IsDir(); flag.file == "" || isPipe {
			continue
		}
		if err := flag.check(flag.file); err != nil {
			return usageErrorf("invalid %s: %s", flag.name, err)
		}
	}
	return nil
}

// containerRecordDir returns the folder in which this user's ephemeral jobrunners record their containers, so
// that a later one can remove the containers of a killed one. It returns "" if the user has no cache directory.
func containerRecordDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "gpucloud", "jobrunner")
}

// gpus returns the GPUs of the machine, or of the cluster if that runs the workers, and a line that
// describes them or says why there are none.
func (s *serve) gpus(ctx context.Context, programs *host.Executor, log *slog.Logger) (inventory gpu.Inventory, line string, err error) {
	switch {
	case s.GPUs == "off":
		return gpu.NoGPUs(), "off", nil
	case s.SimulateGPUs == "" && programs.Cluster() != nil:
		if inventory, err = programs.Cluster().Inventory(ctx); err != nil {
			return nil, "", err
		}
		return inventory, "of the cluster's nodes: " + gpu.Summary(inventory), nil
	}
	return openInventory(s.SimulateGPUs, log)
}

// openInventory opens the simulated GPUs, or without --simulate-gpus the machine's, which may have none.
func openInventory(simulate string, log *slog.Logger) (inventory gpu.Inventory, line string, err error) {
	if simulate != "" {
		if inventory, err = gpu.Simulate(simulate, log); err != nil {
			return nil, "", usageErrorf("invalid --simulate-gpus: %s", err)
		}
		return inventory, "simulated: " + gpu.Summary(inventory), nil
	}
	if inventory, err = nvidia.Open(log); err != nil {
		return gpu.NoGPUs(), "none: " + err.Error() + "; workers run on the CPU", nil //nolint:nilerr // the line has the error
	}
	return inventory, gpu.Summary(inventory), nil
}

// checkFolder rejects a flag's path that is or contains a file. The folder may be absent.
func checkFolder(flag, path string) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		return usageErrorf("invalid %s %s: expected a folder, got a file", flag, path)
	}
	return nil
}

// dataDir returns the value of the flag, or else a folder in the user's state directory (on Unix as in XDG).
func dataDir(flag string) (string, error) {
	if flag != "" {
		if info, err := os.Stat(flag); err == nil && !info.IsDir() {
			return "", usageErrorf("invalid --data %s: expected a folder, got a file", flag)
		}
		return filepath.Abs(flag)
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "gpucloud", "jobrunner"), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		config, err := os.UserConfigDir()
		return filepath.Join(config, "gpucloud", "jobrunner"), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the folder for the state: %w (set HOME or --data)", err)
	}
	return filepath.Join(home, ".local", "state", "gpucloud", "jobrunner"), nil
}

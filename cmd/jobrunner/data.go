package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// dataDir returns the data folder: the value of the flag, or else a folder in the user's state
// directory (XDG base directories on Unix).
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
		return "", fmt.Errorf("finding the folder for the state: %w (set --data, or use --ephemeral)", err)
	}
	return filepath.Join(home, ".local", "state", "gpucloud", "jobrunner"), nil
}

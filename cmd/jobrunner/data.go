package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// dataDir is where the state is kept: the folder that was asked for, else one of
// the user's (XDG base directories on Unix).
func dataDir(asked string) (string, error) {
	if asked != "" {
		return filepath.Abs(asked)
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
		return "", fmt.Errorf("no folder for the state: %w (--data names one, --ephemeral needs none)", err)
	}
	return filepath.Join(home, ".local", "state", "gpucloud", "jobrunner"), nil
}

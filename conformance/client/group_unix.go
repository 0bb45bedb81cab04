//go:build unix

package client

import (
	"io/fs"
	"os/exec"
	"syscall"
)

// deviceOf returns the file system of a file.
func deviceOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev) //nolint:unconvert // its type depends on the system
	}
	return 0
}

// setProcessGroup gives a command a process group of its own; a cancelled context
// ends the whole group.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killRemaining kills processes that a command left running when it ended.
func killRemaining(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails where the group is empty, as it mostly is
}

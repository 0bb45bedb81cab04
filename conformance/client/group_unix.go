//go:build unix

package client

import (
	"io/fs"
	"os/exec"
	"syscall"
)

// device is the file system that a file is on.
func device(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev) //nolint:unconvert // its type depends on the system
	}
	return 0
}

// group gives a command a process group of its own, which is ended whole.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killLeft kills what a command that has ended left running.
func killLeft(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // mostly there is nobody
}

//go:build unix

package client

import (
	"io/fs"
	"os/exec"
	"syscall"
)

func deviceOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev) //nolint:unconvert // its type depends on the system
	}
	return 0
}

// setProcessGroup makes a command start in its own process group, which gets SIGTERM if the context ends.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killRemaining kills processes that a command left running.
func killRemaining(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if the group is empty, which is usual
}

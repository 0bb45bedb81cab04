//go:build unix

package client

import (
	"os/exec"
	"syscall"
)

// group gives a command a process group of its own, which is ended whole.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killLeft kills what a command that has ended left running.
func killLeft(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // mostly there is nobody
}

//go:build unix

package procgroup

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const canRegister = true

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

// lock takes a file's lock, which is held until the file is closed, by the end
// of the process at the latest.
func lock(f *os.File) bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }

func exitText(s *os.ProcessState, before, after oomKills) string {
	status, ok := s.Sys().(syscall.WaitStatus)
	switch {
	case !ok || !status.Signaled():
		return StatusText(s.ExitCode(), before.group >= 0 && after.group > before.group)
	case status.Signal() == syscall.SIGKILL:
		return killedText(before, after)
	}
	return "killed by " + SignalName(int(status.Signal()))
}

// StatusText says for people what an exit status means: shells and containers
// tell by it which signal ended the program that they ran. With oom a process
// was ended meanwhile because memory ran out.
func StatusText(status int, oom bool) string {
	text := fmt.Sprintf("exit status %d", status)
	signal := status - 128
	switch {
	case signal == int(syscall.SIGKILL) && oom:
		return text + ": killed by SIGKILL, out of memory"
	case signal == int(syscall.SIGKILL):
		text += ": killed by SIGKILL, often because memory is out"
	case signal > 0 && signal <= 64:
		text += ": killed by " + SignalName(signal)
	}
	if oom {
		text += " (meanwhile the kernel ended a process of it or beside it, out of memory)"
	}
	return text
}

// SignalName is the name of a signal, like SIGSEGV.
func SignalName(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}

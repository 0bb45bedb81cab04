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

// lock takes a file's lock, which is held until the file is closed, by the end
// of the process at the latest.
func lock(f *os.File) bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }

func exitText(s *os.ProcessState) string {
	status, ok := s.Sys().(syscall.WaitStatus)
	switch {
	case !ok || !status.Signaled():
		return fmt.Sprintf("exit status %d", s.ExitCode())
	case status.Signal() == syscall.SIGKILL:
		return "killed by SIGKILL, not by the jobrunner: often because the machine is out of memory"
	}
	return "killed by " + SignalName(int(status.Signal()))
}

// SignalName is the name of a signal, like SIGSEGV.
func SignalName(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}

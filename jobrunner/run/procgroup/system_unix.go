//go:build unix

package procgroup

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const canRegister = true // a later run can find and kill the groups in a Register

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

// lock locks a file until it's closed or the process ends.
func lock(f *os.File) bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }

func exitText(s *os.ProcessState, before, after oomKills) string {
	status, ok := s.Sys().(syscall.WaitStatus)
	switch {
	case !ok || !status.Signaled():
		return StatusText(s.ExitCode(), before.cgroup >= 0 && after.cgroup > before.cgroup)
	case status.Signal() == syscall.SIGKILL:
		return killedText(before, after)
	}
	return signalName(int(status.Signal()))
}

// StatusText returns an exit status as human-readable text. Shells and containers use 128 plus the number
// of the signal that ended the program. oom says that the kernel killed a process for lack of memory.
func StatusText(status int, oom bool) string {
	text := fmt.Sprintf("exit status %d", status)
	signal := status - 128
	switch {
	case signal == int(syscall.SIGKILL) && oom:
		return text + ": killed by SIGKILL, out of memory"
	case signal == int(syscall.SIGKILL):
		text += ": killed by SIGKILL, often because the machine is out of memory"
	case signal > 0 && signal <= 64:
		text += ": killed by " + signalName(signal)
	}
	if oom {
		text += " (meanwhile the kernel killed one of its processes or one next to it, out of memory)"
	}
	return text
}

// signalName returns the name of a signal, such as SIGSEGV.
func signalName(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}

package procgroup

import (
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// isolate gives the command a group of its own, and ends it with the thread
// that starts it.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the command has ended, and leaves it unreaped: as long
// as it is, nothing else has its id, and its group can be killed safely.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// A killed process may take a while to be gone, where the kernel is busy with
// it. So long is that waited for.
const (
	sweeping = 5 * time.Second
	sweepMin = time.Millisecond
	sweepMax = 50 * time.Millisecond
)

// sweep ends what is left of a group whose command has ended, wherever it went.
func sweep(pid int, mark string) {
	killed := map[identity]bool{}
	sweepAll(func() int {
		killGroup(pid)
		return killEach(killed, func(p process) bool { return p.group == pid && p.id != pid || p.marked(mark) })
	})
}

func killRun(l Left) int {
	killed := map[identity]bool{}
	sweepAll(func() int {
		return killEach(killed, func(p process) bool { return p.ofRun(l.Run) })
	})
	return len(killed)
}

// sweepAll repeats until none is found: between a look and a kill a process may
// have started another.
func sweepAll(kill func() (found int)) {
	pause := sweepMin
	for end := time.Now().Add(sweeping); kill() > 0 && time.Now().Before(end); pause = min(2*pause, sweepMax) {
		time.Sleep(pause)
	}
}

// add has nothing to do: marks are enough.
func (r *Register) add(int) (forget func()) { return func() {} }

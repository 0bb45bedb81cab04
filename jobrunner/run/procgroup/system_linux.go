package procgroup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// isolate gives the command its own group, and a SIGKILL when the thread that starts it ends. The group is a session
// without a terminal: in another group of the jobrunner's session, a read of the terminal would stop the command.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the command has ended, but doesn't reap it. An unreaped process
// keeps its id, so its group can be killed safely.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

const (
	// sweepTime is how long sweepAll waits for killed processes. A busy kernel needs a while.
	sweepTime = 5 * time.Second
	// minSweepPause is the pause after the first scan. It doubles after each further scan.
	minSweepPause = time.Millisecond
	maxSweepPause = 50 * time.Millisecond
)

// sweep kills the rest of a group whose command has ended, including children that left it.
func sweep(pid int, mark string) {
	killed := map[identity]bool{}
	sweepAll(func() int {
		killGroup(pid)
		return killEach(killed, func(p process) bool {
			return p.group == pid && p.id != pid || p.hasVariable(MarkVariable+"="+mark+"\x00")
		})
	})
}

// Kill kills the processes that the killed jobrunner left, and returns their number.
func (k KilledRun) Kill() int {
	killed := map[identity]bool{}
	sweepAll(func() int {
		return killEach(killed, func(p process) bool { return p.hasVariable(MarkVariable + "=" + k.ID + "/") })
	})
	return len(killed)
}

// sweepAll calls kill until no killed process runs, for sweepTime at most: before its end, a killed
// process may have started another one.
func sweepAll(kill func() (running int)) {
	pause := minSweepPause
	for end := time.Now().Add(sweepTime); kill() > 0 && time.Now().Before(end); pause = min(2*pause, maxSweepPause) {
		time.Sleep(pause)
	}
}

// add starts the guard, which finds processes by their marks.
func (r *Register) add(int) (forget func()) {
	if r != nil {
		r.guardOnce.Do(r.startGuard)
	}
	return func() {}
}

// guardScript kills the processes whose environment has the text $0, once its stdin ends.
const guardScript = `read -r end
for try in $(seq 50); do
	files=$(grep -lsF "$0" /proc/[0-9]*/environ)
	[ "$files" ] || break
	for file in $files; do file=${file#/proc/}; kill -9 "${file%/environ}"; done
	sleep 0.1
done`

// startGuard starts a shell that ends the run's processes if the jobrunner is killed. The kernel ends
// only the commands themselves, and a child of a worker may hold the memory of a GPU. Without a shell,
// the next run ends them.
func (r *Register) startGuard() {
	cmd := exec.CommandContext(context.Background(), "sh", "-c", guardScript, MarkVariable+"="+r.run+"/")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals to the jobrunner's group don't reach it
	stdin, err := cmd.StdinPipe()
	if err == nil && cmd.Start() == nil {
		r.guard = stdin
		go func() { _ = cmd.Wait() }()
	}
}

//go:build unix && !linux

package procgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitExit waits for the command. Its id is then free; the group keeps it from
// others as long as it has members.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

// sweep ends what is left of a group whose command has ended.
func sweep(pid int, _ string) { killGroup(pid) }

// UsageOf is not told by this system.
func UsageOf(int) Usage { return Usage{} }

// add keeps a group's id and when its command started, which together name it.
func (r *Register) add(pid int) (forget func()) {
	if r == nil || r.file == nil {
		return func() {}
	}
	path := filepath.Join(r.pids(), strconv.Itoa(pid))
	if os.MkdirAll(r.pids(), 0o700) == nil {
		_ = os.WriteFile(path, []byte(started(pid)), 0o600)
	}
	return func() { _ = os.Remove(path) }
}

// started is when a process started, as ps writes it; "" for one that is gone.
func started(pid int) string {
	ps := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid))
	ps.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH")}
	text, _ := ps.Output()
	return strings.TrimSpace(string(text))
}

func killRun(l Left) (killed int) {
	folder := strings.TrimSuffix(l.path, runFile) + pidFolder
	files, _ := os.ReadDir(folder) // none: it had no groups
	for _, f := range files {
		pid, err := strconv.Atoi(f.Name())
		then, readErr := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil || readErr != nil || len(then) == 0 || started(pid) != string(then) {
			continue
		}
		killGroup(pid)
		killed++
	}
	return killed
}

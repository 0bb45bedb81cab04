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

func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} } // as on Linux

// sweep kills the rest of a group whose command has ended.
func sweep(pid int, _ string) { killGroup(pid) }

// add stores a group's id and the start of its command. Together they are unique.
func (r *Register) add(pid int) (forget func()) {
	if r == nil || r.file == nil {
		return func() {}
	}
	path := filepath.Join(r.pidFolder(), strconv.Itoa(pid))
	if os.MkdirAll(r.pidFolder(), 0o700) == nil {
		_ = os.WriteFile(path, []byte(startTime(pid)), 0o600)
	}
	return func() { _ = os.Remove(path) }
}

// startTime returns when a process started, in the format of ps; "" if it's gone.
func startTime(pid int) string {
	ps := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid))
	ps.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH")}
	text, _ := ps.Output()
	return strings.TrimSpace(string(text))
}

// Kill kills the processes that the run left, and returns the number of their groups.
func (k KilledRun) Kill() (killed int) {
	folder := strings.TrimSuffix(k.path, runFile) + pidSuffix
	files, _ := os.ReadDir(folder) // no folder: it had no groups
	for _, f := range files {
		pid, err := strconv.Atoi(f.Name())
		startedAt, readErr := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil || readErr != nil || len(startedAt) == 0 || startTime(pid) != string(startedAt) {
			continue
		}
		killGroup(pid)
		killed++
	}
	return killed
}

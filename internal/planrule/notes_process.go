package planrule

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// identity names a process: its id alone may be given to another process later.
func identity(pid int) string {
	id := strconv.Itoa(pid)
	return strings.TrimSuffix(id+"-"+startTime(id), "-")
}

// startTime is when a process started, where the system tells it.
func startTime(pid string) string {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return ""
	}
	// The fields are counted behind the program's name, which may hold blanks.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const field = 19
	if len(fields) <= field {
		return ""
	}
	return fields[field]
}

// running tells whether the process of an identity has not ended. What is no
// identity has ended.
func running(name string) bool {
	id, _, _ := strings.Cut(name, "-")
	pid, err := strconv.Atoi(id)
	if err != nil || identity(pid) != name {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }() // it holds nothing that matters
	return runtime.GOOS == "windows" || p.Signal(syscall.Signal(0)) == nil
}

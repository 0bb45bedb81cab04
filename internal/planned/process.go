package planned

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// process names a process for good: its identity may come again.
func process(pid int) string {
	id := strconv.Itoa(pid)
	return strings.TrimSuffix(id+"-"+beginning(id), "-")
}

// beginning is when a process began, where the system tells.
func beginning(pid string) string {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return ""
	}
	// The fields are counted behind the program's name, which may hold blanks.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const startTime = 19
	if len(fields) <= startTime {
		return ""
	}
	return fields[startTime]
}

// running tells whether a process that was named has not ended. What names no
// process has.
func running(name string) bool {
	id, _, _ := strings.Cut(name, "-")
	pid, err := strconv.Atoi(id)
	if err != nil || process(pid) != name {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }() // it holds nothing that matters
	return runtime.GOOS == "windows" || p.Signal(syscall.Signal(0)) == nil
}

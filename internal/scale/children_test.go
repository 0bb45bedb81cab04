//go:build linux

package scale_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// kill9 kills the children of the process that run a program.
func (p *process) kill9(program string) {
	p.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	killed := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				p.t.Fatal(err)
			}
			exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			if err != nil || filepath.Base(exe) != program {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				p.t.Fatal(err)
			}
			killed++
		}
	}
	if killed == 0 {
		p.t.Fatalf("terraform %s runs no %s", p.args, program)
	}
}

package procgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// oomKillsOf counts the OOM kills in a process's cgroup and on its machine.
func oomKillsOf(pid int) oomKills { return oomKillsUnder("/", pid) }

// oomKillsUnder is oomKillsOf with /proc and /sys below a root folder.
func oomKillsUnder(root string, pid int) oomKills {
	k := oomKills{machine: -1, cgroup: -1}
	k.machine = counter(filepath.Join(root, "proc/vmstat"), "oom_kill")
	text, err := os.ReadFile(filepath.Join(root, "proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return k
	}
	for line := range strings.Lines(string(text)) {
		// Number, controllers and path. In cgroup v2 the first two are 0 and "".
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.events"
		switch {
		case fields[1] == "memory":
			mount, file = "sys/fs/cgroup/memory", "memory.oom_control"
		case fields[0] != "0":
			continue
		}
		// In a container the path may be the host's while the mount is the container's.
		for _, path := range []string{fields[2], ""} {
			if n := counter(filepath.Join(root, mount, path, file), "oom_kill"); n >= 0 {
				k.cgroup = max(k.cgroup, n)
				break
			}
		}
	}
	return k
}

// counter returns a number from a file of names and numbers, or -1.
func counter(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

package httplimit

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// MachineMemory returns the memory available to this process in bytes: the machine's, or its control
// group's lower limit. 0 means unknown.
func MachineMemory() int64 {
	all := totalMemory()
	if limit := cgroupMemory(); limit > 0 && (all == 0 || limit < all) {
		return limit
	}
	return all
}

func totalMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "MemTotal:" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

// cgroupMemory returns the lowest memory limit, in bytes, of the process's control group and its
// ancestors, or 0 if they are unlimited. It reads cgroup v1 and v2.
func cgroupMemory() (lowest int64) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	applyLimit := func(file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			return
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" means no limit
		if err == nil && limit > 0 && (lowest == 0 || limit < lowest) {
			lowest = limit
		}
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			switch {
			case parts[1] == "":
				applyLimit("/sys/fs/cgroup" + group + "/memory.max")
			case strings.Contains(parts[1], "memory"):
				applyLimit("/sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes")
			}
			if group == "/" {
				break
			}
		}
	}
	return lowest
}

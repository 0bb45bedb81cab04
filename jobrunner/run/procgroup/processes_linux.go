package procgroup

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"
)

// process is a running process, according to /proc.
type process struct {
	id, parent, group int
	started           int64         // in ticks since the machine booted
	cpu               time.Duration // includes reaped children
	memory            int64         // bytes
}

// ticks is the unit of times in /proc on every Linux architecture that Go supports.
const ticks = time.Second / 100

// processes returns all processes of the machine except zombies.
func processes() (all []process) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1) // processes that disappear are skipped
	for _, name := range names {
		if id, err := strconv.Atoi(name); err == nil {
			if p, ok := readProcess(id); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

func readProcess(id int) (p process, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/stat")
	if err != nil {
		return p, false
	}
	// The second field is the program's name in brackets, which may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 22 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return p, false
	}
	number := func(field int) int64 { // numbered as in proc(5)
		n, _ := strconv.ParseInt(string(fields[field-3]), 10, 64)
		return n
	}
	return process{
		id: id, parent: int(number(4)), group: int(number(5)),
		started: number(22),
		cpu:     time.Duration(number(14)+number(15)+number(16)+number(17)) * ticks,
		memory:  number(24) * int64(os.Getpagesize()),
	}, true
}

// hasVariable reports whether the process was started with a variable that begins with start. Processes of
// other users can't be read, and aren't ours.
func (p process) hasVariable(start string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(p.id) + "/environ")
	if err != nil {
		return false
	}
	return bytes.HasPrefix(env, []byte(start)) || bytes.Contains(env, []byte("\x00"+start))
}

// identity is unique until the machine reboots. The process id alone isn't.
type identity struct {
	id      int
	started int64
}

// killEach kills the processes that match, adds them to killed, and returns how many of killed still run.
// It finds those by identity, because match may need the environment, which an ending process loses
// before it closes its files.
func killEach(killed map[identity]bool, match func(process) bool) (running int) {
	for _, p := range processes() {
		if killed[identity{p.id, p.started}] {
			running++
		}
		if p.id == os.Getpid() || !match(p) {
			continue
		}
		// The handle stays with the process. The process is read again, because its id may
		// have been reused before the handle was opened.
		handle, err := os.FindProcess(p.id)
		if err != nil {
			continue
		}
		if current, ok := readProcess(p.id); ok && match(current) {
			if key := (identity{current.id, current.started}); !killed[key] {
				killed[key] = true
				running++
			}
			_ = handle.Kill() // it may be gone
		}
		_ = handle.Release()
	}
	return running
}

// processCache shares one scan of all processes between groups that ask at about the same time.
var processCache struct {
	sync.Mutex
	scannedAt time.Time
	processes []process
}

const processCacheTime = 500 * time.Millisecond

func recentProcesses() []process {
	processCache.Lock()
	defer processCache.Unlock()
	if now := time.Now(); now.Sub(processCache.scannedAt) > processCacheTime || now.Before(processCache.scannedAt) {
		processCache.processes, processCache.scannedAt = processes(), now
	}
	return processCache.processes
}

// usageOf returns the usage of a process, its group and their descendants, at most half a second old.
func usageOf(pid int) (u Usage) {
	all := recentProcesses()
	members := map[int]bool{pid: true}
	for changed := true; changed; {
		changed = false
		for _, p := range all {
			if !members[p.id] && (p.group == pid || members[p.parent]) {
				members[p.id], changed = true, true
			}
		}
	}
	for _, p := range all {
		if members[p.id] {
			u.CPU += p.cpu
			u.Memory += p.memory
		}
	}
	return u
}

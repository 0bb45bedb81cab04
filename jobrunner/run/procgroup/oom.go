package procgroup

// oomKills counts the processes that the kernel killed because memory ran out; -1 is
// unknown.
type oomKills struct {
	group   int64 // in the process's control group
	machine int64
}

// killedText explains, for people, a SIGKILL that the jobrunner didn't send. It compares the
// kernel's counters before the start and after the end.
func killedText(before, after oomKills) string {
	switch {
	case before.group >= 0 && after.group > before.group:
		return "killed by SIGKILL: the kernel ended it, out of memory (its memory limit or the machine's)"
	case before.machine >= 0 && after.machine > before.machine:
		return "killed by SIGKILL, probably by the kernel: it killed processes for lack of memory meanwhile"
	case before.machine >= 0 && after.machine >= 0:
		return "killed by SIGKILL, neither by the jobrunner nor for lack of memory"
	}
	return "killed by SIGKILL, not by the jobrunner: often because the machine is out of memory"
}

package procgroup

import (
	"fmt"
	"os"
	"os/exec"
)

// canRegister is false: a later run couldn't find any process.
const canRegister = false

func isolate(*exec.Cmd) {}

func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

func killGroup(int) {}

func terminateGroup(int) {}

func sweep(int, string) {}

func killRun(KilledRun) int { return 0 }

func lock(*os.File) bool { return false }

func (r *Register) add(int) (forget func()) { return func() {} }

// UsageOf is unknown on this system.
func UsageOf(int) Usage { return Usage{} }

func exitText(s *os.ProcessState, _, _ oomKills) string { return StatusText(s.ExitCode(), false) }

// StatusText explains an exit status, for people.
func StatusText(status int, _ bool) string { return fmt.Sprintf("exit status %d", status) }

// SignalName returns the name of a signal.
func SignalName(n int) string { return fmt.Sprintf("signal %d", n) }

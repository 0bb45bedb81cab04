package procgroup

import (
	"fmt"
	"os"
	"os/exec"
)

// canRegister: nothing could be found by it.
const canRegister = false

func isolate(*exec.Cmd) {}

func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

func killGroup(int) {}

func terminateGroup(int) {}

func sweep(int, string) {}

func killRun(Left) int { return 0 }

func lock(*os.File) bool { return false }

func (r *Register) add(int) (forget func()) { return func() {} }

// UsageOf is not told by this system.
func UsageOf(int) Usage { return Usage{} }

func exitText(s *os.ProcessState, _, _ oomKills) string { return StatusText(s.ExitCode(), false) }

// StatusText says for people what an exit status means.
func StatusText(status int, _ bool) string { return fmt.Sprintf("exit status %d", status) }

// SignalName is the name of a signal.
func SignalName(n int) string { return fmt.Sprintf("signal %d", n) }

//go:build !linux

package procgroup

import "os/exec"

// awaitExit waits for the command and reaps it. Its group can still be killed: a Unix doesn't reuse a
// process id while a group with that id has members.
func awaitExit(cmd *exec.Cmd) { cmd.ProcessState, _ = cmd.Process.Wait() }

// oomKillsOf is unknown on these systems.
func oomKillsOf(int) oomKills { return oomKills{-1, -1} }

// usageOf is unknown on these systems.
func usageOf(int) Usage { return Usage{} }

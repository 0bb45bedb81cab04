//go:build !linux

package procgroup

import "os/exec"

// awaitExit waits for the command. On Unix its id isn't reused as long as its group has members.
func awaitExit(cmd *exec.Cmd) { cmd.ProcessState, _ = cmd.Process.Wait() }

// oomKillsOf is unknown on these systems.
func oomKillsOf(int) oomKills { return oomKills{-1, -1} }

// UsageOf is unknown on these systems.
func UsageOf(int) Usage { return Usage{} }

//go:build !linux

package procgroup

// oomKillsOf is unknown on this system.
func oomKillsOf(int) oomKills { return oomKills{-1, -1} }

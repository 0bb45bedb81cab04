//go:build !linux

package httplimit

// MachineMemory is unknown on this system.
func MachineMemory() int64 { return 0 }

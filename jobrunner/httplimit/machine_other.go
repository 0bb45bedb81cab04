//go:build !linux

package httplimit

// MachineMemory is not known on this system.
func MachineMemory() int64 { return 0 }

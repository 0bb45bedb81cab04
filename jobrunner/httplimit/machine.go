package httplimit

// bodyShare: bodies in flight may take one part in so many of the machine's memory.
const bodyShare = 16

// Bounds of the default budget, and its value where the machine's memory is
// unknown.
const (
	minBodyMemory     = 64 << 20
	maxBodyMemory     = 4 << 30
	unknownBodyMemory = 256 << 20
)

// DefaultMemory is the default budget of bodies: a sixteenth of
// the memory that the machine, or the container, has.
func DefaultMemory() int64 {
	all := MachineMemory()
	if all == 0 {
		return unknownBodyMemory
	}
	return min(max(all/bodyShare, minBodyMemory), maxBodyMemory)
}

package httplimit

// bodyShare is the part of the machine's memory that bodies under way may take,
// and answers likewise.
const bodyShare = 16

// Bounds of the default budget, and what it is where the machine does not tell
// its memory.
const (
	minBodyMemory     = 64 << 20
	maxBodyMemory     = 4 << 30
	unknownBodyMemory = 256 << 20
)

// DefaultMemory is the budget of bodies where nobody sets one: a sixteenth of
// the memory that the machine, or the container, has.
func DefaultMemory() int64 {
	all := MachineMemory()
	if all == 0 {
		return unknownBodyMemory
	}
	return min(max(all/bodyShare, minBodyMemory), maxBodyMemory)
}

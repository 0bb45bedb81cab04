package httplimit

// bodyShare divides the machine's memory to get the budget of bodies in flight.
const bodyShare = 16

// Limits of the default budget, and its value if the machine's memory is unknown.
const (
	minBodyMemory     = 64 << 20
	maxBodyMemory     = 4 << 30
	unknownBodyMemory = 256 << 20
)

// DefaultMemory returns the default budget of bodies: a sixteenth of the memory of the machine or
// container.
func DefaultMemory() int64 {
	all := MachineMemory()
	if all == 0 {
		return unknownBodyMemory
	}
	return min(max(all/bodyShare, minBodyMemory), maxBodyMemory)
}

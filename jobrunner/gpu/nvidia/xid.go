package nvidia

import "fmt"

// xid describes an error number of the driver. Only the text of a fault is shown.
type xid struct {
	text string
	// harmless means that the GPU stays healthy: a program caused the error, or it is informational.
	harmless bool
}

// xids describes all harmless errors and the common faults. Any other number is a fault.
var xids = map[uint64]xid{
	13:  {"a program's graphics engine exception", true},
	31:  {"a program's page fault", true},
	43:  {"a program's fault stopped it", true},
	45:  {"the cleanup after a program's fault", true},
	48:  {"a double-bit error in its memory", false},
	63:  {"a pending remapping of a bad memory row", true},
	64:  {"a bad row of memory could not be remapped", false},
	68:  {"a program's video processor exception", true},
	74:  {"an NVLink error", false},
	79:  {"it has fallen off the bus", false},
	92:  {"many single-bit errors in its memory", true},
	94:  {"a contained error in its memory", true},
	95:  {"an uncontained error in its memory", false},
	109: {"a program's context switch took too long", true},
	119: {"its system processor doesn't answer", false},
	120: {"an error of its system processor", false},
	154: {"a change of its recovery action", true},
}

// xidFault returns the fault of a GPU after an XID, or "" for a harmless XID.
func xidFault(number uint64) string {
	switch x, known := xids[number]; {
	case x.harmless:
		return ""
	case known:
		return fmt.Sprintf("XID %d: %s", number, x.text)
	default:
		return fmt.Sprintf("XID %d", number)
	}
}

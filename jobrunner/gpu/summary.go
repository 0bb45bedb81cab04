package gpu

import (
	"fmt"
	"slices"
)

// Summary describes an inventory in one line.
func Summary(inventory Inventory) string {
	devices := inventory.Devices()
	if len(devices) == 0 {
		return "none"
	}
	summary := describeDevices(devices)
	if d := inventory.Driver(); d.Version != "" {
		summary += fmt.Sprintf(" (driver %s, CUDA %s)", d.Version, d.CUDA)
	}
	if slices.ContainsFunc(devices, func(d Device) bool { return d.Fault != "" }) {
		summary += "; " + describeFaults(devices)
	}
	return summary
}

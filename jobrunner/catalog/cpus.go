package catalog

import "math"

// CPU is a CPU flavour.
type CPU struct {
	ID           string
	Name         string
	Group        string // generation
	MinVCPU      int64
	MaxVCPU      int64
	RAMGBPerVCPU float64
}

// CPUs are the flavours that are built in.
var CPUs = []CPU{
	{"cpu3c", "Compute-Optimized", "Gen 3", 2, 32, 2},
	{"cpu3g", "General Purpose", "Gen 3", 2, 32, 4},
	{"cpu5c", "Compute-Optimized", "Gen 5", 2, 32, 2},
	{"cpu5g", "General Purpose", "Gen 5", 2, 32, 4},
}

// unknownRAM is the memory assumed for an unknown flavour.
const unknownRAM = 2 // GB per vCPU

// CPUMemory is the memory in GB of a configuration, at least 1.
func (c *Catalog) CPUMemory(flavorID string, vcpus int64) int64 {
	perVCPU := float64(unknownRAM)
	if f, ok := c.CPUByID(flavorID); ok {
		perVCPU = f.RAMGBPerVCPU
	}
	return int64(min(max(1, math.Round(perVCPU*float64(vcpus))), 1<<53))
}

package catalog

import (
	"math"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// CPU is a CPU flavor.
type CPU = contract.CPUFlavor

// unknownRAM is the assumed memory of an unknown flavor.
const unknownRAM = 2 // GB per vCPU

// CPUMemory returns the memory of a configuration in GB, at least 1.
func (c *Catalog) CPUMemory(flavorID string, vcpus int64) int64 {
	perVCPU := float64(unknownRAM)
	if f, ok := c.CPUByID(flavorID); ok {
		perVCPU = f.RAMGBPerVCPU
	}
	return int64(min(max(1, math.Round(perVCPU*float64(vcpus))), 1<<53))
}

package kubernetes

import (
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resources are what a workload may use, and what its node has to have free for it: the
// same, unless the cluster is overcommitted. GPUs are always reserved.
func (c *Cluster) resources(w Workload) core.ResourceRequirements {
	limits := core.ResourceList{}
	limit := func(name core.ResourceName, value, unit int64) {
		if value > 0 {
			limits[name] = *resource.NewQuantity(value*unit, resource.DecimalSI)
		}
	}
	limit(core.ResourceCPU, w.VCPUs, 1)
	limit(core.ResourceMemory, w.Memory, gigabyte)
	limit(core.ResourceEphemeralStorage, w.Disk, gigabyte)
	requests := core.ResourceList{}
	for name, quantity := range limits {
		if c.Overcommit {
			quantity = resource.Quantity{}
		}
		requests[name] = quantity
	}
	limit(gpuResource, int64(len(w.Devices)), 1)
	return core.ResourceRequirements{Limits: limits, Requests: requests}
}

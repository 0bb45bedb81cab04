package kubernetes

import (
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// resources returns the limits of a worker or pod, and what a node reserves for it. Both are the same
// unless the cluster is overcommitted. GPUs are always reserved: Kubernetes copies their limit.
func (c *Cluster) resources(s run.Spec) core.ResourceRequirements {
	limits := core.ResourceList{}
	limit := func(name core.ResourceName, value, unit int64) {
		if value > 0 {
			limits[name] = *resource.NewQuantity(value*unit, resource.DecimalSI)
		}
	}
	limit(core.ResourceCPU, s.VCPUs, 1)
	limit(core.ResourceMemory, s.Memory, gigabyte)
	limit(core.ResourceEphemeralStorage, s.Disk, gigabyte)
	requests := core.ResourceList{}
	for name, quantity := range limits {
		if c.Overcommit {
			quantity = resource.Quantity{}
		}
		requests[name] = quantity
	}
	limit(gpuResource, int64(len(s.Devices)), 1)
	return core.ResourceRequirements{Limits: limits, Requests: requests}
}

package gpu

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"

// Stock returns the machine's stock of GPUs by type id. The count of a type is 0 if all its GPUs are
// in use or faulty.
func (a *Allocator) Stock() map[string]catalog.Stock {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]catalog.Stock{}
	driver := a.inventory.Driver()
	for _, d := range a.inventory.Devices() {
		s := out[d.TypeID]
		s.Memory = max(s.Memory, gigabytes(d.Memory))
		if driver.CUDA != "" {
			s.CUDAVersions = []string{driver.CUDA}
		}
		if d.Fault == "" && !a.inUse(d) {
			s.Count++
		}
		out[d.TypeID] = s
	}
	return out
}

// gigabytes rounds up to the nominal size in the catalog, because the driver reports a little less.
func gigabytes(bytes int64) int64 { return (bytes + 1<<30 - 1) >> 30 }

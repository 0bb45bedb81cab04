package gpu

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"

// Stock is the machine's stock of GPUs by type id. Types whose GPUs are all in use
// or faulty have a count of 0.
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

// gigabytes rounds up to the nominal size of the catalog: the driver reports a
// little less.
func gigabytes(bytes int64) int64 { return (bytes + 1<<30 - 1) >> 30 }

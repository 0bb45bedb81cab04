package gpu

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"

// Stock is what the machine has of each GPU type, by type id: of those in use
// or faulty, that it has them and nothing more.
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
		if d.Fault == "" && !a.taken(d) {
			s.Count++
		}
		out[d.TypeID] = s
	}
	return out
}

// gigabytes is a memory as the catalog tells it: the size that the card is sold
// with, of which the driver shows a little less.
func gigabytes(bytes int64) int64 { return (bytes + 1<<30 - 1) >> 30 }

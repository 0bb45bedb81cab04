// Package gpu is the inventory of the machine's GPUs, their health and load, and
// their allocation to workers. An inventory is read through NVML, or simulated.
package gpu

// Device is a GPU, or a MIG instance of one: what is allocated to a worker.
type Device struct {
	UUID   string `json:"uuid"`   // GPU-… or MIG-…, as CUDA_VISIBLE_DEVICES takes it
	Index  int    `json:"index"`  // of the GPU on this machine
	TypeID string `json:"type"`   // the catalog's id of the type: the product name, with the profile of a MIG instance
	MIG    string `json:"mig"`    // the profile of a MIG instance, like 1g.18gb; "" for a whole GPU
	Memory int64  `json:"memory"` // bytes
	Fault  string `json:"fault"`  // why it can't be used, for people; "" for a healthy one
}

// Driver is the machine's driver.
type Driver struct {
	Version string `json:"driver"` // like 570.86.15
	CUDA    string `json:"cuda"`   // the newest CUDA version that it supports, like 12.8
}

// Sample is a device's current load. A value that the device does not report is -1.
type Sample struct {
	Utilization int   `json:"utilization"` // %
	MemoryUsed  int64 `json:"memoryUsed"`  // bytes
	Power       int   `json:"power"`       // mW
	Temperature int   `json:"temperature"` // °C
}

// Inventory is a machine's GPUs. Its methods may be called from many goroutines.
type Inventory interface {
	Driver() Driver
	Devices() []Device // the current ones, in a stable order
	Sample(uuid string) (Sample, error)
	// Changed signals that devices failed, recovered, were added or removed. It has
	// one receiver.
	Changed() <-chan struct{}
	Close()
}

// Request is what one worker of an endpoint requires.
type Request struct {
	Types       []string // accepted type ids, the best first; empty: any
	Count       int      // below 1 is 1
	CUDA        []string // allowed CUDA versions, matched exactly; empty: any
	MinimumCUDA string   // "": no floor
	Pod         bool     // a pod asks, and no worker: for the texts of refusals
	Members     int      // so many members of a cluster get Count each, all or none; 0: no cluster asks
	Background  bool     // it gets what nobody else waits for, and is never queued
	// Accept tells whether a type may be given now; nil: each may.
	Accept func(typeID string) bool
}

// holder is what the devices would be for.
func (want Request) holder() string {
	switch {
	case want.Members > 0:
		return "cluster"
	case want.Pod:
		return "pod"
	}
	return "worker"
}

// asker is whose settings the request comes from.
func (want Request) asker() string {
	switch {
	case want.Members > 0:
		return "the cluster"
	case want.Pod:
		return "the pod"
	}
	return "the endpoint"
}

// Package gpu knows the machine's GPUs: what they are, how they do, and which
// worker has which. An inventory is read through NVML, or simulated.
package gpu

// Device is a GPU, or a MIG instance of one: what a worker can have for itself.
type Device struct {
	UUID   string // GPU-… or MIG-…, as CUDA_VISIBLE_DEVICES takes it
	Index  int    // of the GPU on this machine
	TypeID string // the catalog's id of the type: the product name, with the profile of a MIG instance
	MIG    string // the profile of a MIG instance, like 1g.18gb; "" for a whole GPU
	Memory int64  // bytes
	Fault  string // why it can't be used, for people; "" for a healthy one
}

// Driver is what the machine's driver can do.
type Driver struct {
	Version string // like 570.86.15
	CUDA    string // the newest CUDA version that it supports, like 12.8
}

// Sample is how a device does now. A value that the device does not tell is -1.
type Sample struct {
	Utilization int   // %
	MemoryUsed  int64 // bytes
	Power       int   // mW
	Temperature int   // °C
}

// Inventory is a machine's GPUs. Its methods may be called from many goroutines.
type Inventory interface {
	Driver() Driver
	Devices() []Device // as they are now, in a stable order
	Sample(uuid string) (Sample, error)
	// Changed is a hint to the one who listens that devices failed, came back,
	// were added or removed.
	Changed() <-chan struct{}
	Close()
}

// Request is what an endpoint asks of the devices of one worker.
type Request struct {
	Types       []string // type ids that will do, the best first; empty: any
	Count       int      // below 1 is 1
	CUDA        []string // allowed CUDA versions, matched exactly; empty: any
	MinimumCUDA string   // "": no floor
}

// Package gpu is the inventory of the machine's GPUs, their health and load, and
// their allocation to workers and pods. An inventory is read through NVML or from a Kubernetes cluster, or simulated.
package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// Device is a GPU, or a MIG instance of a GPU. It is the unit of allocation.
type Device struct {
	UUID   string `json:"uuid"`   // GPU-… or MIG-…, as in CUDA_VISIBLE_DEVICES
	Index  int    `json:"index"`  // of the GPU on this machine
	TypeID string `json:"type"`   // the type's id in the catalog: the product name, with the profile of a MIG instance
	MIG    string `json:"mig"`    // the profile of a MIG instance, like 1g.18gb; "" for a whole GPU
	Memory int64  `json:"memory"` // bytes
	Node   string `json:"-"`      // of a Kubernetes cluster; "" for this machine
	Fault  string `json:"fault"`  // human-readable reason why it can't be used; "" if healthy
}

type Driver struct {
	Version string `json:"driver"` // like 570.86.15
	CUDA    string `json:"cuda"`   // the newest CUDA version that it supports, like 12.8
}

// Sample is a device's current load; -1 if the device doesn't report a value.
type Sample struct {
	Utilization int   `json:"utilization"` // %
	MemoryUsed  int64 `json:"memoryUsed"`  // bytes
	Power       int   `json:"power"`       // mW
	Temperature int   `json:"temperature"` // °C
}

// UnknownSample is the sample of a device that reports nothing.
var UnknownSample = Sample{Utilization: -1, MemoryUsed: -1, Power: -1, Temperature: -1}

// Inventory is a machine's GPUs. Its methods may be called from many goroutines.
type Inventory interface {
	Driver() Driver
	Devices() []Device // the current ones, in a stable order
	Sample(uuid string) (Sample, error)
	// Changed signals that devices failed, recovered, were added or removed. It has one receiver.
	Changed() <-chan struct{}
	Close()
}

// Request is a request for the devices of a worker, a pod or a cluster.
type Request struct {
	Types       []string // accepted type ids, the best first; empty means any
	OrAny       bool     // accepts any other type after Types
	Count       int      // 0 means 1
	CUDA        []string // allowed CUDA versions, matched exactly; empty means any
	MinimumCUDA string   // "" means no minimum
	Pod         bool     // for a pod instead of a worker; used in errors
	Members     int      // members of a cluster: either each gets Count devices, or none does; 0 if not for a cluster
	Background  bool     // gets only devices that no other request waits for, and is never queued
	// Accept reports whether the catalog has stock of a type now. Nil accepts all.
	Accept func(typeID string) bool
}

// ownerKind returns the kind of the owner of the devices, for errors.
func (request Request) ownerKind() string {
	switch {
	case request.Members > 0:
		return "cluster"
	case request.Pod:
		return "pod"
	}
	return "worker"
}

// requester names, in errors, the object whose settings request the devices.
func (request Request) requester() string {
	if request.Members > 0 || request.Pod {
		return "the " + request.ownerKind()
	}
	return "the endpoint"
}

func NoGPUs() Inventory { return &simulated{stop: func() {}} }

func UnknownDevice(uuid string) error { return fmt.Errorf("this machine has no GPU %s", uuid) }

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

// CanonicalType maps a product name to the catalog's type id. It ignores repeated spaces, case, and a missing
// manufacturer (older drivers). If the catalog has several types for a card, it returns the first.
// A name that isn't in the catalog is a type of its own.
func CanonicalType(product string) string {
	product = strings.Join(strings.Fields(product), " ")
	shortName := strings.TrimPrefix(product, "NVIDIA ")
	for _, name := range []string{product, "NVIDIA " + shortName, shortName} {
		for _, g := range contract.GPUTypes {
			if strings.EqualFold(strings.Join(strings.Fields(g.ID), " "), name) {
				i := slices.IndexFunc(contract.GPUTypes, func(first catalog.GPU) bool { return first.Name == g.Name })
				return contract.GPUTypes[i].ID
			}
		}
	}
	return product
}

// InstanceType returns the type of a MIG instance, named as the driver names it.
func InstanceType(typeID, profile string) string { return typeID + " MIG " + profile }

// acceptedTypes returns the types that a request accepts, the best first. Without a list, the
// smallest comes first, so that large GPUs stay free for requests that name their type.
func acceptedTypes(request Request, devices []Device) (types []string) {
	for _, t := range request.Types {
		if t = CanonicalType(t); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	if len(types) > 0 && !request.OrAny {
		return request.inStock(types)
	}
	bySize := slices.Clone(devices)
	slices.SortStableFunc(bySize, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.TypeID, b.TypeID))
	})
	for _, d := range bySize {
		if !slices.Contains(types, d.TypeID) {
			types = append(types, d.TypeID)
		}
	}
	return request.inStock(types)
}

func (request Request) inStock(types []string) []string {
	if request.Accept == nil {
		return types
	}
	return slices.DeleteFunc(types, func(t string) bool { return !request.Accept(t) })
}

// fits reports whether a device can be allocated to a request. A process can use at most one MIG instance.
func (request Request) fits(d Device) bool { return d.MIG == "" || request.count() == 1 }

// count is the number of devices of one worker, pod or member; total is the number for all members.
func (request Request) count() int { return max(1, request.Count) }
func (request Request) total() int { return request.count() * max(1, request.Members) }

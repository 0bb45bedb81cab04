// Package gpu is the inventory of the machine's GPUs, their health and load, and
// their allocation to workers. An inventory is read through NVML, or simulated.
package gpu

import (
	"fmt"
	"slices"
)

// Device is a GPU, or a MIG instance of a GPU. It is the unit of allocation.
type Device struct {
	UUID   string `json:"uuid"`   // GPU-… or MIG-…, as in CUDA_VISIBLE_DEVICES
	Index  int    `json:"index"`  // of the GPU on this machine
	TypeID string `json:"type"`   // the type's id in the catalog: the product name, with the profile of a MIG instance
	MIG    string `json:"mig"`    // the profile of a MIG instance, like 1g.18gb; "" for a whole GPU
	Memory int64  `json:"memory"` // bytes
	Fault  string `json:"fault"`  // why it can't be used, for people; "" if healthy
}

// Driver is the machine's driver.
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
	Count       int      // 0 means 1
	CUDA        []string // allowed CUDA versions, matched exactly; empty means any
	MinimumCUDA string   // "" means no minimum
	Pod         bool     // for a pod instead of a worker; used in errors
	Members     int      // members of a cluster: either each gets Count devices, or none does; 0 if not for a cluster
	Background  bool     // gets only devices that no other request waits for, and is never queued
	// Accept reports whether a type may be assigned now. Nil accepts all.
	Accept func(typeID string) bool
}

// holder names, in errors, what gets the devices.
func (want Request) holder() string {
	switch {
	case want.Members > 0:
		return "cluster"
	case want.Pod:
		return "pod"
	}
	return "worker"
}

// asker names, in errors, the object whose settings request the devices.
func (want Request) asker() string {
	switch {
	case want.Members > 0:
		return "the cluster"
	case want.Pod:
		return "the pod"
	}
	return "the endpoint"
}

// None is the inventory of a machine without GPUs.
func None() Inventory { return noGPUs{} }

type noGPUs struct{}

func (noGPUs) Driver() Driver           { return Driver{} }
func (noGPUs) Devices() []Device        { return nil }
func (noGPUs) Changed() <-chan struct{} { return nil }
func (noGPUs) Close()                   {}

func (noGPUs) Sample(uuid string) (Sample, error) { return Sample{}, UnknownDevice(uuid) }

func UnknownDevice(uuid string) error { return fmt.Errorf("this machine has no GPU %s", uuid) }

// Summary describes an inventory in one line.
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

package gpu

import "fmt"

// None is the inventory of a machine without GPUs.
func None() Inventory { return noGPUs{} }

type noGPUs struct{}

func (noGPUs) Driver() Driver           { return Driver{} }
func (noGPUs) Devices() []Device        { return nil }
func (noGPUs) Changed() <-chan struct{} { return nil }
func (noGPUs) Close()                   {}

func (noGPUs) Sample(uuid string) (Sample, error) { return Sample{}, UnknownDevice(uuid) }

func UnknownDevice(uuid string) error { return fmt.Errorf("this machine has no GPU %s", uuid) }

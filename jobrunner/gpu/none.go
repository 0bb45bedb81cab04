package gpu

import "fmt"

// None is the inventory of a machine without GPUs.
func None() Inventory { return none{} }

type none struct{}

func (none) Driver() Driver           { return Driver{} }
func (none) Devices() []Device        { return nil }
func (none) Changed() <-chan struct{} { return nil }
func (none) Close()                   {}

func (none) Sample(uuid string) (Sample, error) { return Sample{}, noDevice(uuid) }

func noDevice(uuid string) error { return fmt.Errorf("this machine has no GPU %s", uuid) }

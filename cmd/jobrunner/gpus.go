package main

import (
	"errors"
	"log/slog"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// gpus finds the GPUs that workers get, and says in a line what they are, or
// why there are none: then there are CPUs.
func (s *serve) gpus(log *slog.Logger) (inventory gpu.Inventory, line string, err error) {
	switch {
	case s.SimulateGPUs != "" && s.GPUs == "off":
		return nil, "", errors.New("--gpus=off looks for no GPUs, and --simulate-gpus says which to show: choose one")
	case s.GPUs == "off":
		return gpu.None(), "off", nil
	}
	return inventoryOf(s.SimulateGPUs, log)
}

// inventoryOf is what --simulate-gpus says, or, where it says nothing, what the
// machine has.
func inventoryOf(simulate string, log *slog.Logger) (inventory gpu.Inventory, line string, err error) {
	if simulate != "" {
		if inventory, err = gpu.Simulate(simulate, log); err != nil {
			return nil, "", err
		}
		return inventory, "simulated: " + gpu.Summary(inventory), nil
	}
	inventory, line = machineInventory(log)
	return inventory, line, nil
}

// machineInventory is what the machine has. Like many, it may have none.
func machineInventory(log *slog.Logger) (gpu.Inventory, string) {
	inventory, err := gpu.Open(log)
	if err != nil {
		return gpu.None(), "none: " + err.Error() + "; workers run on the CPU"
	}
	return inventory, gpu.Summary(inventory)
}

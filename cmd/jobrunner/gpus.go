package main

import (
	"context"
	"log/slog"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu/nvidia"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/host"
)

// gpus returns the GPUs of the machine, or of the cluster if that runs the workers, and a line that
// describes them or says why there are none.
func (s *serve) gpus(ctx context.Context, programs *host.Executor, log *slog.Logger) (inventory gpu.Inventory, line string, err error) {
	switch {
	case s.SimulateGPUs != "" && s.GPUs == "off":
		return nil, "", usageErrorf("--gpus=off and --simulate-gpus exclude each other: choose one")
	case s.GPUs == "off":
		return gpu.None(), "off", nil
	case s.SimulateGPUs == "":
		if inventory, err = programs.Inventory(ctx); inventory != nil || err != nil {
			return inventory, "of the cluster's nodes", err
		}
	}
	return openInventory(s.SimulateGPUs, log)
}

// openInventory opens the simulated GPUs, or without --simulate-gpus those of the
// machine.
func openInventory(simulate string, log *slog.Logger) (inventory gpu.Inventory, line string, err error) {
	if simulate != "" {
		if inventory, err = gpu.Simulate(simulate, log); err != nil {
			return nil, "", err
		}
		return inventory, "simulated: " + gpu.Summary(inventory), nil
	}
	inventory, line = machineInventory(log)
	return inventory, line, nil
}

// machineInventory opens the GPUs of the machine, which may have none.
func machineInventory(log *slog.Logger) (gpu.Inventory, string) {
	inventory, err := nvidia.Open(log)
	if err != nil {
		return gpu.None(), "none: " + err.Error() + "; workers run on the CPU"
	}
	return inventory, gpu.Summary(inventory)
}

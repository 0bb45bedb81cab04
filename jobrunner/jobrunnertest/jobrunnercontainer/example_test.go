package jobrunnercontainer_test

import (
	"context"
	"fmt"
	"log"

	"github.com/testcontainers/testcontainers-go"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobrunnertest/jobrunnercontainer"
)

// Start a container with eight simulated GPUs and print the variables for a process that uses it.
func ExampleRun() {
	ctx := context.Background()
	c, err := jobrunnercontainer.Run(ctx, "registry.example.com/team/jobrunner:1.0.0", jobrunnercontainer.WithSimulatedGPUs("h200x8"))
	defer func() {
		if err := testcontainers.TerminateContainer(c); err != nil {
			log.Print(err)
		}
	}()
	if err != nil {
		log.Print(err)
		return
	}
	env, err := c.Environ(ctx)
	fmt.Println(env, err)
}

// Package jobrunnercontainer is a Testcontainers module: it runs the jobrunner's image as a
// container, on this machine or on a remote Docker host. For a Go test on this machine, the
// parent package jobrunnertest starts faster and needs no Docker.
package jobrunnercontainer

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	port        = "8420/tcp"
	keyVariable = "GPUCLOUD_API_KEY"
	configFile  = "/etc/jobrunner.yaml"
)

// Container is a deployment in a container.
type Container struct {
	testcontainers.Container
	// Key is the deployment's API key.
	Key string
}

// Run starts a container of the jobrunner's image, which `make image` builds, and waits until the
// deployment serves requests. Its state is lost with the container. If Run returns an error and a
// container, terminate the container.
//
// The image has no container engine. It runs the programs that [WithConfig] maps images to, and
// the built-in images builtin/echo and builtin/conformance.
func Run(ctx context.Context, image string, options ...testcontainers.ContainerCustomizer) (*Container, error) {
	key := rand.Text()
	all := append([]testcontainers.ContainerCustomizer{
		testcontainers.WithExposedPorts(port),
		testcontainers.WithEnv(map[string]string{keyVariable: key}),
		testcontainers.WithCmd("serve", "--ephemeral", "--allow-remote", "--listen=0.0.0.0:8420"),
		testcontainers.WithWaitStrategy(wait.ForHTTP("/readyz").WithPort(port)),
	}, options...)
	c, err := testcontainers.Run(ctx, image, all...)
	if c == nil {
		return nil, fmt.Errorf("starting a jobrunner with the image %s: %w", image, err)
	}
	container := &Container{Container: c, Key: key}
	if err != nil {
		return container, fmt.Errorf("starting a jobrunner with the image %s: %w", image, err)
	}
	return container, nil
}

// URL returns the base address of the management and job APIs, such as http://localhost:32768.
func (c *Container) URL(ctx context.Context) (string, error) {
	return c.PortEndpoint(ctx, port, "http")
}

// Environ returns the environment variables with which the provider, the conformance suite and the
// public Python SDK use the deployment, for [os/exec.Cmd].
func (c *Container) Environ(ctx context.Context) ([]string, error) {
	url, err := c.URL(ctx)
	if err != nil {
		return nil, err
	}
	return []string{
		"GPUCLOUD_BASE_URL=" + url, "GPUCLOUD_BASE_URL_V1=", "GPUCLOUD_QUEUE_URL=", "GPUCLOUD_API_KEY=" + c.Key,
		"RUNPOD_ENDPOINT_BASE_URL=" + url + "/live/v2", "RUNPOD_API_KEY=" + c.Key,
	}, nil
}

// WithConfig copies a jobrunner.yaml into the container. The image must contain its programs.
func WithConfig(file string) testcontainers.CustomizeRequestOption {
	return func(r *testcontainers.GenericContainerRequest) error {
		r.Files = append(r.Files, testcontainers.ContainerFile{HostFilePath: file, ContainerFilePath: configFile, FileMode: 0o444})
		r.Cmd = append(r.Cmd, "--config="+configFile)
		return nil
	}
}

// WithSimulatedGPUs gives workers simulated GPUs of a preset, such as h200x8.
func WithSimulatedGPUs(preset string) testcontainers.CustomizeRequestOption {
	return testcontainers.WithCmdArgs("--simulate-gpus=" + preset)
}

// WithFlags adds flags of jobrunner serve.
func WithFlags(flags ...string) testcontainers.CustomizeRequestOption {
	return testcontainers.WithCmdArgs(flags...)
}

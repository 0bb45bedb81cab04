package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// volumePath is where workers mount their network volume.
const volumePath = "/runpod-volume"

// spec returns the parameters for the worker's start.
func (w *worker) spec(ctx context.Context, program run.Program) (_ *run.Spec, err error) {
	c := w.pool.config
	s := &run.Spec{ID: w.id, Endpoint: w.settings.ID, Container: w.settings.Container, Devices: w.devices, Log: w.log}
	if p := w.placement; p.CPU != "" && len(w.settings.CPU) > 0 {
		s.VCPUs, s.Memory = p.VCPUs, c.Catalog.Now().CPUMemory(p.CPU, p.VCPUs)
	}
	switch {
	case w.settings.Balanced && program.Start == nil:
		return nil, fmt.Errorf("the image %s runs jobs, and workers behind a load balancer serve HTTP: choose another image", w.settings.Image)
	case program.Start != nil && c.URL == "":
		return nil, errors.New("workers that are processes need the deployment's URL, which isn't configured")
	case w.settings.Balanced && program.OwnAddress:
		s.Port = httpPort(s.Container)
	case w.settings.Balanced:
		if s.Port, err = run.FreePort(ctx); err != nil {
			return nil, fmt.Errorf("no port for the worker to listen on: %w", err)
		}
	}
	if len(w.settings.Volumes) > 0 && c.Volume != nil && !program.Bare {
		volume, err := c.Volume(ctx, w.settings.Volumes[0])
		if err != nil {
			return nil, fmt.Errorf("its network volume %s: %w", w.settings.Volumes[0], err)
		}
		volume.Path = volumePath
		s.Mounts = []run.Mount{volume}
	}
	if w.settings.Registry != "" && c.Credentials != nil && program.Start != nil {
		login, err := c.Credentials(ctx, w.settings.Registry)
		if err != nil {
			return nil, fmt.Errorf("its registry auth %s: %w", w.settings.Registry, err)
		}
		w.log.Hide(login.Password)
		s.Login = &run.Login{Username: login.Username, Password: login.Password}
	}
	env, err := c.Secrets.Env(ctx, w.environment(*s, program.Start != nil), w.log)
	s.Env = env
	return s, err
}

// defaultPort is the port of a worker with its own address if its template names no HTTP
// port.
const defaultPort = 8000

// httpPort returns the port where a worker with its own address serves HTTP.
func httpPort(c store.Container) int {
	for _, port := range c.Ports {
		number, protocol, _ := strings.Cut(port, "/")
		if n, err := strconv.Atoi(number); err == nil && protocol == "http" {
			return n
		}
	}
	return defaultPort
}

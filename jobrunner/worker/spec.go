package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// volumePath is where a worker sees its network volume.
const volumePath = "/runpod-volume"

// spec is what the worker is started with.
func (w *worker) spec(ctx context.Context, program Program) (*Spec, error) {
	c := w.pool.config
	s := &Spec{Endpoint: w.settings.ID, Worker: w.id, Container: w.settings.Container, Devices: w.devices, Log: w.log}
	if p := w.placement; p.CPU != "" && len(w.settings.CPU) > 0 {
		s.VCPUs, s.Memory = p.VCPUs, c.Catalog.Now().CPUMemory(p.CPU, p.VCPUs)
	}
	switch {
	case w.settings.Balanced && program.Start == nil:
		return nil, fmt.Errorf("the image %s runs jobs, and workers behind a load balancer serve HTTP: choose another image", w.settings.Image)
	case program.Start != nil && c.URL == "":
		return nil, errors.New("workers that are processes need the deployment's URL, which it was not told")
	case w.settings.Balanced && program.Port != nil:
		s.Port = program.Port(s.Container)
	case w.settings.Balanced:
		port, err := FreePort(ctx)
		if err != nil {
			return nil, fmt.Errorf("no port for the worker to listen on: %w", err)
		}
		s.Port = port
	}
	if len(w.settings.Volumes) > 0 && c.Volume != nil && !program.Bare {
		volume, err := c.Volume(ctx, w.settings.Volumes[0])
		if err != nil {
			return nil, fmt.Errorf("its network volume %s: %w", w.settings.Volumes[0], err)
		}
		volume.Path = volumePath
		s.Mounts = []Mount{volume}
	}
	if w.settings.Registry != "" && c.Credentials != nil && program.Start != nil {
		login, err := c.Credentials(ctx, w.settings.Registry)
		if err != nil {
			return nil, fmt.Errorf("its registry auth %s: %w", w.settings.Registry, err)
		}
		w.log.Hide(login.Password)
		s.Login = &Login{Username: login.Username, Password: login.Password}
	}
	env, err := c.Secrets.Env(ctx, w.environment(*s, program.Start != nil), w.log)
	s.Env = env
	return s, err
}

// FreePort finds a port on which nobody listens now.
func FreePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }() // it was there to be asked its number
	return l.Addr().(*net.TCPAddr).Port, nil
}

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
	switch {
	case w.settings.Balanced && program.Start == nil:
		return nil, fmt.Errorf("the image %s runs jobs, and workers behind a load balancer serve HTTP: choose another image", w.settings.Image)
	case program.Start != nil && c.URL == "":
		return nil, errors.New("workers that are processes need the deployment's URL, which it was not told")
	case w.settings.Balanced:
		port, err := freePort(ctx)
		if err != nil {
			return nil, fmt.Errorf("no port for the worker to listen on: %w", err)
		}
		s.Port = port
	}
	if len(w.settings.Volumes) > 0 && c.Volume != nil && !program.FollowsClock {
		dir, err := c.Volume(w.settings.Volumes[0])
		if err != nil {
			return nil, fmt.Errorf("its network volume %s: %w", w.settings.Volumes[0], err)
		}
		s.Mounts = []Mount{{Dir: dir, Path: volumePath}}
	}
	if w.settings.Registry != "" && c.Credentials != nil && program.Start != nil {
		login, err := c.Credentials(ctx, w.settings.Registry)
		if err != nil {
			return nil, fmt.Errorf("its registry auth %s: %w", w.settings.Registry, err)
		}
		w.log.hide(login.Password)
		s.Login = &Login{Username: login.Username, Password: login.Password}
	}
	s.Env = w.environment(*s, program.Start != nil)
	return s, nil
}

// freePort finds a port on which nobody listens now.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }() // it was there to be asked its number
	return l.Addr().(*net.TCPAddr).Port, nil
}

package host

import (
	"context"
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Pods are the pod.Programs of this machine, without those that are built in.
func (e *Executor) Pods() pod.Programs { return podPrograms{e} }

type podPrograms struct{ *Executor }

// Program finds the first rule that an image matches; without one it is a container.
func (p podPrograms) Program(image string) (pod.Program, error) {
	for _, r := range p.rules {
		switch {
		case !r.matches(image):
			continue
		case r.Command != nil:
			return pod.Program{}, fmt.Errorf("the rule for the image %s is a command, which runs a job: a pod needs a process or a container", image)
		case r.Process != nil:
			return pod.Program{Start: p.startPodProcess(r.Process), Publish: anyPort}, nil
		}
		return p.podContainer(image, r.Container)
	}
	program, err := p.podContainer(image, &containerSettings{})
	if err == nil {
		return program, nil
	}
	return program, p.nothingRuns(image, err)
}

// anyPort is a free port of this machine.
func anyPort(ctx context.Context, _ int) (int, error) { return worker.FreePort(ctx) }

// samePort is that of a container in this machine's own network.
func samePort(_ context.Context, private int) (int, error) { return private, nil }

// startPodProcess makes a pod of a command.
func (e *Executor) startPodProcess(l *localSettings) func(context.Context, pod.Spec) (pod.Process, error) {
	return func(_ context.Context, s pod.Spec) (pod.Process, error) {
		c, err := l.command(s.Spec)
		if err != nil {
			return nil, err
		}
		c.Register, c.Output = e.register, s.Log
		group, err := procgroup.Start(c)
		if err != nil {
			return nil, err
		}
		return podProcess{process{group}}, nil
	}
}

// podProcess is a pod that is a process of this machine, and in no network of its own.
type podProcess struct{ process }

func (p podProcess) Address() string { return "" }

func (p podProcess) Stop(grace time.Duration) {
	p.Terminate()
	select {
	case <-p.Done():
	case <-time.After(grace): // a process lives in real time
	}
	p.Kill()
}

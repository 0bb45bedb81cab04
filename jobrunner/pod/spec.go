package pod

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const globalNetwork = "gpucloud-global"

// spec returns the parameters for the pod's start.
func (r *runner) spec(ctx context.Context, p store.Pod, program run.Program) (run.Spec, error) {
	s := run.Spec{ID: r.id, Container: p.Container, Devices: r.heldDevices(), Log: r.log, Pod: &run.Pod{Run: p.Run}}
	if r.pods.Persistent {
		s.Pod.FolderID = r.pods.FolderID
	}
	if p.CPU != nil {
		s.VCPUs, s.Memory = p.CPU.VCPUCount, r.pods.Catalog.Current().CPUMemory(p.CPU.FlavorIDs[0], p.CPU.VCPUCount)
	}
	switch {
	case p.Cluster != nil && p.Cluster.Network != "":
		s.Pod.Network, s.Pod.IP = p.Cluster.Network, p.Cluster.IP
	case p.Cluster != nil && program.OwnAddress:
		s.Pod.AddressVariables = addressVariables(p)
	case p.GlobalNetworking:
		s.Pod.Network = globalNetwork
	}
	if p.NetworkVolume != "" {
		volume, err := r.pods.Volume(ctx, p.NetworkVolume)
		if err != nil {
			return s, fmt.Errorf("can't mount the network volume %s: %w", p.NetworkVolume, err)
		}
		volume.Path = p.Volume.Path
		s.Mounts = []run.Mount{volume}
	} else if p.Volume.Size > 0 {
		s.Mounts = []run.Mount{{Dir: r.volumeFolder(), Path: p.Volume.Path, Name: run.PodVolumePrefix + r.id, Size: p.Volume.Size}}
	}
	if p.Registry != "" {
		login, err := r.pods.Credentials(ctx, p.Registry)
		if err != nil {
			return s, fmt.Errorf("can't use the registry auth %s: %w", p.Registry, err)
		}
		r.log.Hide(login.Password)
		s.Login = &login
	}
	for _, text := range p.Ports {
		port, err := publishPort(ctx, text, program)
		if err != nil {
			return s, err
		}
		s.Pod.Ports = append(s.Pod.Ports, port)
	}
	env, err := r.pods.Secrets.Resolve(ctx, environment(p, s), r.log.Log)
	s.Env = env
	return s, err
}

// publishPort chooses the public port of a port like 8080/http.
func publishPort(ctx context.Context, text string, program run.Program) (port store.PodPort, err error) {
	number, protocol, _ := strings.Cut(text, "/")
	port.Protocol = protocol
	port.Private, _ = strconv.Atoi(number) // never fails: the API rejects other ports
	if program.Publish != nil {
		if port.Public, err = program.Publish(ctx, port.Private); err != nil {
			return port, fmt.Errorf("no port of this machine is free for the pod's port %s: %w", text, err)
		}
	}
	return port, nil
}

// environment returns the pod's variables, and the variables that describe the pod.
func environment(p store.Pod, s run.Spec) map[string]string {
	env := maps.Collect(maps.All(p.Env))
	maps.Copy(env, p.HiddenEnv)
	env["RUNPOD_POD_ID"] = p.ID
	env["RUNPOD_GPU_COUNT"] = strconv.Itoa(len(s.Devices))
	env["RUNPOD_PUBLIC_IP"] = run.PublishIP
	if p.CPU != nil {
		env["RUNPOD_CPU_COUNT"] = strconv.FormatInt(p.CPU.VCPUCount, 10)
	}
	if p.DataCenterID != "" {
		env["RUNPOD_DC_ID"] = p.DataCenterID
	}
	for _, port := range s.Pod.Ports {
		if port.Public != 0 {
			env["RUNPOD_TCP_PORT_"+strconv.Itoa(port.Private)] = strconv.Itoa(port.Public)
		}
	}
	return env
}

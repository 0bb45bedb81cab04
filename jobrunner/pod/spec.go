package pod

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// globalNetwork is the network of the pods that ask for global networking.
const globalNetwork = "gpucloud-global"

// spec is what the pod is started with.
func (r *runner) spec(ctx context.Context, p store.Pod, program Program) (Spec, error) {
	r.mu.Lock()
	devices := r.devices
	r.mu.Unlock()
	s := Spec{Spec: worker.Spec{Worker: r.id, Container: p.Container, Devices: devices, Log: r.log}, Run: p.Run, Line: r.log.line}
	if r.pods.Lasting {
		s.Deployment = r.pods.Machine
	}
	if p.CPU != nil {
		s.VCPUs, s.Memory = p.CPU.VCPUCount, r.pods.Catalog.Now().CPUMemory(p.CPU.FlavorIDs[0], p.CPU.VCPUCount)
	}
	switch {
	case p.Cluster != nil && p.Cluster.Network != "":
		s.Network, s.IP = p.Cluster.Network, p.Cluster.IP
	case p.Cluster != nil && program.OwnAddress:
		s.OwnAddress = ownAddress(p)
	case p.GlobalNetworking:
		s.Network = globalNetwork
	}
	if p.NetworkVolume != "" && r.pods.Volume != nil {
		volume, err := r.pods.Volume(ctx, p.NetworkVolume)
		if err != nil {
			return s, fmt.Errorf("its network volume %s: %w", p.NetworkVolume, err)
		}
		volume.Path = p.Volume.Path
		s.Mounts = []worker.Mount{volume}
	} else if p.Volume.Size > 0 {
		s.Mounts = []worker.Mount{{Dir: r.volume(), Path: p.Volume.Path, Name: worker.PodVolumeName + r.id, Size: p.Volume.Size}}
	}
	if p.Registry != "" && r.pods.Credentials != nil {
		login, err := r.pods.Credentials(ctx, p.Registry)
		if err != nil {
			return s, fmt.Errorf("its registry auth %s: %w", p.Registry, err)
		}
		r.log.Hide(login.Password)
		s.Login = &worker.Login{Username: login.Username, Password: login.Password}
	}
	for _, text := range p.Ports {
		number, protocol, _ := strings.Cut(text, "/")
		private, err := strconv.Atoi(number)
		if err != nil {
			return s, fmt.Errorf("invalid port %s", text) // the API takes none
		}
		port := store.PodPort{Private: private, Protocol: protocol}
		if program.Publish != nil {
			if port.Public, err = program.Publish(ctx, private); err != nil {
				return s, fmt.Errorf("no port of this machine is free for the pod's port %s: %w", text, err)
			}
		}
		s.Ports = append(s.Ports, port)
	}
	env, err := r.pods.Secrets.Env(ctx, environment(p, s), r.log.Log)
	s.Env = env
	return s, err
}

// environment is the pod's variables, and those that tell it what it is.
func environment(p store.Pod, s Spec) map[string]string {
	env := maps.Clone(p.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, p.HiddenEnv)
	env["RUNPOD_POD_ID"] = p.ID
	env["RUNPOD_GPU_COUNT"] = strconv.Itoa(len(s.Devices))
	env["RUNPOD_PUBLIC_IP"] = PublicIP
	if p.CPU != nil {
		env["RUNPOD_CPU_COUNT"] = strconv.FormatInt(p.CPU.VCPUCount, 10)
	}
	if p.DataCenterID != "" {
		env["RUNPOD_DC_ID"] = p.DataCenterID
	}
	for _, port := range s.Ports {
		if port.Public != 0 {
			env["RUNPOD_TCP_PORT_"+strconv.Itoa(port.Private)] = strconv.Itoa(port.Public)
		}
	}
	return env
}

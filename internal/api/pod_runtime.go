package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// API v1 returns the public ports and the start time of a running pod. Before that it returns
// only a desired status.

// runtime returns nil if the pod doesn't run.
func (w podV1) runtime() *PodRuntime {
	if w.DesiredStatus != PodRunning || deref(w.LastStartedAt) == "" {
		return nil
	}
	published := &PodRuntime{}
	for _, port := range deref(w.Ports) {
		number, protocol, _ := strings.Cut(port, "/")
		private, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			continue
		}
		open := PodPort{Private: private, Type: protocol}
		if public, ok := w.PortMappings[number]; ok {
			open.Public, open.IP = &public, w.PublicIP
		}
		published.Ports = append(published.Ports, open)
	}
	return published
}

const sshPort = 22

// ssh returns the address of the SSH server, if port 22 is public.
func (r PodRuntime) ssh() *SSHEndpoint {
	i := slices.IndexFunc(r.Ports, func(p PodPort) bool { return p.Private == sshPort && p.Type == "tcp" && p.Public != nil && p.IP != nil })
	if i < 0 {
		return nil
	}
	host, port := *r.Ports[i].IP, *r.Ports[i].Public
	return &SSHEndpoint{Host: host, Port: port, Username: "root", Command: fmt.Sprintf("ssh root@%s -p %d", host, port)}
}

package main

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"os"
	"runtime/debug"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// httpLimits limits the resources that clients can use.
type httpLimits struct {
	MaxConnections           int      `default:"4096" help:"Maximum number of open connections; fewer if the limit of descriptors is lower."`
	MaxConnectionsPerAddress int      `default:"1024" help:"Maximum number of open connections of one client address, except this machine's."`
	BodyMemory               int      `placeholder:"MIB" help:"Memory for request bodies, results of workers, job outputs and webhook calls in flight, a quarter each; requests beyond it get 503. Default: a sixteenth of the memory, at least 128 and at most 4096."`
	EphemeralMemory          int      `default:"1024" placeholder:"MIB" help:"Memory for the state with --ephemeral: jobs are rejected when half of it is used, results at three quarters; objects have the last quarter."`
	LoadBalancer             []string `placeholder:"ADDRESS" sep:"none" help:"Address or network (10.0.0.0/8) of a load balancer or proxy, which may open more connections. May be repeated."`
}

func (l *httpLimits) connections() (c httplimit.Config, err error) {
	if min(l.MaxConnections, l.MaxConnectionsPerAddress) < 1 {
		return c, usageErrorf("invalid --max-connections or --max-connections-per-address: expected at least 1, got %d", min(l.MaxConnections, l.MaxConnectionsPerAddress))
	}
	if n := httplimit.Descriptors(); n < minDescriptors {
		return c, fmt.Errorf("the process may have only %d open files, and needs %d: %s", n, minDescriptors, raiseDescriptors)
	}
	if l.BodyMemory < 0 || l.BodyMemory > math.MaxInt32 {
		return c, usageErrorf("invalid --body-memory: expected from 1 to %d MiB, got %d", math.MaxInt32, l.BodyMemory)
	}
	if maxMemory := sqldb.MaxMemory >> 20; l.EphemeralMemory < 16 || l.EphemeralMemory > maxMemory {
		return c, usageErrorf("invalid --ephemeral-memory: expected from 16 to %d MiB, got %d: --data keeps more, on disk", maxMemory, l.EphemeralMemory)
	}
	c.Max, c.PerAddress = l.MaxConnections, l.MaxConnectionsPerAddress
	for _, text := range l.LoadBalancer {
		network, err := parseNetwork(text)
		if err != nil {
			return c, usageErrorf("invalid --load-balancer %s: expected an address or a network such as 10.0.0.0/8", text)
		}
		c.Proxies = append(c.Proxies, network)
	}
	return c, nil
}

// minDescriptors is enough for the database, the listener and some connections.
const minDescriptors = 64

func parseNetwork(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Unmap().Prefix(address.Unmap().BitLen())
	}
	network, err := netip.ParsePrefix(text)
	return network.Masked(), err
}

const (
	// baseHeap is the limit of the heap without bodies in flight and jobs in memory, in bytes.
	baseHeap = 128 << 20
	// gcPercent lets the heap grow to several times the live heap, which is small without jobs in memory: SQLite's memory isn't in it.
	gcPercent = 400
)

// limitHeap limits the heap to baseHeap plus the budgets of the bodies in flight and of the state in memory, but at
// most to three quarters of the machine's memory. GOGC and GOMEMLIMIT take precedence.
func limitHeap(bodies, state int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimit(bodies, state, httplimit.MachineMemory()))
	}
}

func heapLimit(bodies, state, machine int64) int64 {
	return min(bodies+state+baseHeap, max(cmp.Or(machine, math.MaxInt64)/4*3, baseHeap))
}

package pod

import (
	"context"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// primary is the address of a cluster's primary. If pods get their address when they start, the
// primary starts first. The other members get its address as a variable, and restart if it
// changes.
type primary struct {
	address string        // "" if unknown
	changed chan struct{} // closed at the next change
}

// announce sets the address of the primary; "" while it starts.
func (c *cluster) announce(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.primary.address == address {
		return
	}
	if c.primary.changed != nil {
		close(c.primary.changed)
	}
	c.primary = primary{address: address, changed: make(chan struct{})}
}

// primaryNow returns the address. changed is closed at its next change.
func (c *cluster) primaryNow() (address string, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.primary.changed == nil {
		c.primary.changed = make(chan struct{})
	}
	return c.primary.address, c.primary.changed
}

// isPrimary reports whether a pod is the primary of a cluster whose members have their own
// addresses.
func isPrimary(p store.Pod, program run.Program) bool {
	return program.OwnAddress && p.Cluster != nil && *p.Cluster.Rank == 0
}

// joinPrimary waits for the primary's address and sets a member's variables. The primary itself
// doesn't wait.
func (r *runner) joinPrimary(ctx context.Context, c *cluster, p store.Pod) error {
	address := ""
	if *p.Cluster.Rank == 0 {
		c.announce("")
	} else {
		var changed <-chan struct{}
		for logged := false; ; logged = true {
			if address, changed = c.primaryNow(); address != "" {
				break
			}
			if !logged {
				r.log.Note("the pod waits for the cluster's primary to start")
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	_, err := r.report(ctx, p.Run, placed, func(p *store.Pod) {
		p.Cluster.Network, p.Cluster.IP = "", ""
		p.HiddenEnv = rankEnvironment(*p, address, "", primaryPort)
		for name := range ownAddress(*p) {
			delete(p.HiddenEnv, name)
		}
	})
	return err
}

// ownAddress maps the variables with a member's own address to their suffix.
func ownAddress(p store.Pod) map[string]string {
	own := map[string]string{"NODE_ADDR": ""}
	if *p.Cluster.Rank == 0 {
		own["PRIMARY_ADDR"], own["MASTER_ADDR"], own["HOST_NODE_ADDR"] = "", "", ":"+strconv.Itoa(primaryPort)
	}
	return own
}

// primaryMoved waits until the primary has another address than a member knows. It returns false
// if the process or ctx ends before.
func (r *runner) primaryMoved(ctx context.Context, p store.Pod, process run.Process) bool {
	for {
		address, changed := r.clusterOf().primaryNow()
		if address != "" && address != p.HiddenEnv["PRIMARY_ADDR"] {
			return true
		}
		select {
		case <-changed:
		case <-process.Done():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

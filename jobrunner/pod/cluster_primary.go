package pod

import (
	"context"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Where a pod gets its address as it starts, the primary of a cluster starts first: the
// others are told of its address, and start anew should it get another one.

// primary is the address of a cluster's primary; its zero value is not known yet.
type primary struct {
	address string
	changed chan struct{} // closed with the next change
}

// announce notes the address of the primary; "": it is to get one.
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

// primaryNow is the address, and what tells of its next change.
func (c *cluster) primaryNow() (address string, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.primary.changed == nil {
		c.primary.changed = make(chan struct{})
	}
	return c.primary.address, c.primary.changed
}

// isPrimary tells whether a pod is the primary of a cluster whose pods have addresses of
// their own.
func isPrimary(p store.Pod, program Program) bool {
	return program.OwnAddress && p.Cluster != nil && *p.Cluster.Rank == 0
}

// joinPrimary tells a member of the cluster once the primary has an address. The primary
// itself has nothing to wait for.
func (r *runner) joinPrimary(run context.Context, c *cluster, p store.Pod) (store.Pod, error) {
	address := ""
	if *p.Cluster.Rank == 0 {
		c.announce("")
	} else {
		var changed <-chan struct{}
		for noted := false; ; noted = true {
			if address, changed = c.primaryNow(); address != "" {
				break
			}
			if !noted {
				r.log.Note("the pod waits for the cluster's primary to start")
			}
			select {
			case <-changed:
			case <-run.Done():
				return p, run.Err()
			}
		}
	}
	joined, ok := r.report(run, p.Run, placed, func(p *store.Pod) {
		p.Cluster.Network, p.Cluster.IP = "", ""
		p.HiddenEnv = rankEnvironment(*p, address, "", primaryPort)
		for name := range ownAddress(*p) {
			delete(p.HiddenEnv, name)
		}
	})
	if !ok {
		return p, context.Canceled
	}
	return joined, nil
}

// ownAddress are the variables of a member that have its own address, with what follows
// that.
func ownAddress(p store.Pod) map[string]string {
	own := map[string]string{"NODE_ADDR": ""}
	if *p.Cluster.Rank == 0 {
		own["PRIMARY_ADDR"], own["MASTER_ADDR"], own["HOST_NODE_ADDR"] = "", "", ":"+strconv.Itoa(primaryPort)
	}
	return own
}

// primaryMoved returns once the primary has another address than a member was told, which
// then can't reach it; false: the member ended, or is not wanted any more.
func (r *runner) primaryMoved(run context.Context, p store.Pod, process Process) bool {
	for {
		address, changed := r.clusterOf().primaryNow()
		if address != "" && address != p.HiddenEnv["PRIMARY_ADDR"] {
			return true
		}
		select {
		case <-changed:
		case <-process.Done():
			return false
		case <-run.Done():
			return false
		}
	}
}

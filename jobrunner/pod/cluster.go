package pod

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// ClusterRole returns a pod's role, or "" if the cluster's type has none. Images give it a meaning.
func ClusterRole(clusterType string, rank int) string {
	roles := map[string][2]string{"SLURM": {"SLURM_CONTROLLER", "SLURM_COMPUTE"}, "RAY": {"RAY_HEAD", "RAY_WORKER"}}[clusterType]
	return roles[min(rank, 1)]
}

// cluster has the members of a cluster that this node runs. They get their GPUs together and share a
// network: a network of the container engine, the loopback for processes, or Kubernetes' Pod network
// (see type primary). A member keeps its GPUs while its start is retried, so that the cluster stays placed.
type cluster struct {
	pods *Pods
	id   string

	mu            sync.Mutex // guards the rest; locked before a runner's
	members       map[string]*runner
	waiting       map[string]bool       // members that wait for GPUs
	network       *store.ClusterNetwork // nil before it is provisioned in this run
	port          int                   // of the primary
	engineNetwork bool                  // the network may exist in a container engine
	primary       primary               // used if the members' program has OwnAddress
}

// primaryPort is the primary's port, unless the members share the loopback.
const primaryPort = 29400

const (
	loopback     = run.PublishIP
	loopbackCIDR = "127.0.0.0/8"
)

func networkName(clusterID string) string { return "gpucloud-cluster-" + clusterID }

// join adds a member. No member gets GPUs until all have joined.
func (p *Pods) join(r *runner, record store.Pod) {
	if record.Cluster == nil || r.clusterOf() != nil {
		return
	}
	p.mu.Lock()
	c := p.clusters[record.Cluster.ID]
	if c == nil {
		c = &cluster{pods: p, id: record.Cluster.ID, members: map[string]*runner{}, waiting: map[string]bool{}, primary: primary{changed: make(chan struct{})}}
		p.clusters[record.Cluster.ID] = c
	}
	p.mu.Unlock()
	r.mu.Lock()
	r.cluster = c
	r.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engineNetwork = c.engineNetwork || record.Cluster.Network != ""
	c.members[r.id] = r
	c.retry()
}

// retry wakes all members. The caller holds mu.
func (c *cluster) retry() {
	for _, member := range c.members {
		notify.Signal(member.retry)
	}
}

func (r *runner) clusterOf() *cluster {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cluster
}

// leave removes a deleted member. With the last member it removes the network: the members are deleted together.
func (p *Pods) leave(ctx context.Context, r *runner) {
	c := r.clusterOf()
	if c == nil {
		return
	}
	c.mu.Lock()
	delete(c.members, r.id)
	isLast, engineNetwork := len(c.members) == 0, c.engineNetwork
	c.mu.Unlock()
	if !isLast {
		return
	}
	p.mu.Lock()
	delete(p.clusters, c.id)
	p.mu.Unlock()
	if engineNetwork {
		p.removeNetwork(ctx, networkName(c.id))
	}
}

// removeAllNetworks removes the networks when the deployment ends. The next run creates them again.
func (p *Pods) removeAllNetworks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clusters {
		if c.engineNetwork {
			p.removeNetwork(context.Background(), networkName(c.id))
		}
	}
}

func (p *Pods) removeNetwork(ctx context.Context, name string) {
	if err := p.Programs.RemoveNetwork(context.WithoutCancel(ctx), name); err != nil {
		p.Logger.ErrorContext(ctx, "the network of a cluster can't be removed: the next start tries again", "network", name, "error", err)
	}
}

// errMembersUnknown is temporary: it ends when all members have joined.
var errMembersUnknown = errors.New("the cluster's pods are not all known yet")

var errInactive = errors.New("the pod has been stopped or deleted")

// allocate allocates a pod's GPUs or, for a member of a cluster, the GPUs of all members that have none.
func (r *runner) allocate(p store.Pod) ([]gpu.Device, error) {
	request := gpu.Request{Types: p.GPU.TypeIDs, Count: int(p.GPU.Count), CUDA: p.GPU.AllowedCUDAVersions, MinimumCUDA: p.GPU.MinCUDAVersion, Pod: true}
	c := r.clusterOf()
	if c == nil {
		return r.pods.Devices.Acquire(request, r.id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if devices := r.heldDevices(); devices != nil {
		return devices, nil
	}
	c.waiting[r.id] = true
	if len(c.members) < int(p.Cluster.Size) {
		return nil, errMembersUnknown
	}
	members := c.membersWithoutGPUs()
	if !slices.Contains(members, r) {
		return nil, errInactive
	}
	var ids []string
	for _, member := range members {
		ids = append(ids, member.id)
	}
	assigned, err := r.pods.Devices.AcquireForMembers(request, c.id, ids)
	if err != nil {
		return nil, err
	}
	for i, member := range members {
		member.assign(assigned[i])
	}
	clear(c.waiting)
	c.retry()
	return r.heldDevices(), nil
}

// membersWithoutGPUs returns the active members without GPUs by rank. The caller holds mu.
func (c *cluster) membersWithoutGPUs() (all []*runner) {
	rank := map[*runner]int64{}
	for _, member := range c.members {
		member.mu.Lock()
		if p := member.desired; member.isActive() && member.devices == nil {
			rank[member] = *p.Cluster.Rank
			all = append(all, member)
		}
		member.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b *runner) int { return int(rank[a] - rank[b]) })
	return all
}

// isActive reports whether the pod should run. The caller holds mu.
func (r *runner) isActive() bool { return r.desired != nil && r.desired.Status.Active() }

func (r *runner) heldDevices() []gpu.Device {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.devices
}

// assign assigns GPUs that another member allocated. If the pod is no longer active, it may
// have called release already, so they are released here.
func (r *runner) assign(devices []gpu.Device) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isActive() {
		r.devices = devices
		return
	}
	r.pods.Devices.Release(r.id)
}

// stopWaiting removes the cluster from the allocator's queue when no member waits.
func (r *runner) stopWaiting() {
	c := r.clusterOf()
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, r.id)
	if len(c.waiting) == 0 {
		r.pods.Devices.Release(c.id)
	}
}

// joinNetwork sets a member's address and variables.
func (r *runner) joinNetwork(ctx context.Context, p store.Pod, program run.Program) error {
	c := r.clusterOf()
	if c == nil {
		return nil
	}
	if program.OwnAddress {
		return r.joinPrimary(ctx, c, p)
	}
	network, port, err := c.provision(ctx, program)
	if err != nil {
		return err
	}
	primaryIP, ownIP := loopback, loopback
	if network.Name != "" {
		if primaryIP, err = address(network.CIDR, 0); err == nil {
			ownIP, err = address(network.CIDR, *p.Cluster.Rank)
		}
		if err != nil {
			return err
		}
	}
	_, err = r.report(ctx, p.Run, computeAssigned, func(p *store.Pod) {
		p.Cluster.Network, p.Cluster.IP = network.Name, ownIP
		p.HiddenEnv = rankEnvironment(*p, primaryIP, ownIP, port)
	})
	return err
}

// rankEnvironment returns the variables with which a member finds the others.
func rankEnvironment(p store.Pod, primaryIP, ownIP string, port int) map[string]string {
	portText := strconv.Itoa(port)
	return map[string]string{
		"NODE_RANK": strconv.FormatInt(*p.Cluster.Rank, 10), "NODE_ADDR": ownIP,
		"PRIMARY_ADDR": primaryIP, "MASTER_ADDR": primaryIP, "PRIMARY_PORT": portText, "MASTER_PORT": portText, "HOST_NODE_ADDR": primaryIP + ":" + portText,
		"NUM_NODES": strconv.FormatInt(p.Cluster.Size, 10), "NUM_TRAINERS": strconv.FormatInt(p.GPU.Count, 10),
		"WORLD_SIZE": strconv.FormatInt(p.Cluster.Size*p.GPU.Count, 10),
	}
}

// address returns the address of a rank in a network. The first address is the gateway's.
func address(cidr string, rank int64) (string, error) {
	block, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", fmt.Errorf("the cluster's network: %w", err)
	}
	ip := block.Masked().Addr()
	for range rank + 2 {
		ip = ip.Next()
	}
	if last := ip.Next(); !block.Contains(last) {
		return "", fmt.Errorf("the cluster's network %s has no address for the rank %d", cidr, rank)
	}
	return ip.String(), nil
}

// provision creates the network once in a run of the deployment. Its block of addresses is the
// same in every run. A primary that is a process gets a new port.
func (c *cluster) provision(ctx context.Context, program run.Program) (store.ClusterNetwork, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.network != nil {
		return *c.network, c.port, nil
	}
	network, port := store.ClusterNetwork{CIDR: loopbackCIDR}, primaryPort
	var err error
	if program.Network != nil {
		network, err = c.makeNetwork(ctx, program)
	} else {
		port, err = run.FreePort(ctx)
	}
	if err != nil {
		return network, 0, fmt.Errorf("the cluster's network: %w", err)
	}
	_, err = c.pods.Store.UpdateCluster(context.WithoutCancel(ctx), c.id, func(record *store.Cluster) { record.Network = &network })
	if err != nil {
		return network, 0, err
	}
	c.network, c.port = &network, port
	return network, port, nil
}

func (c *cluster) makeNetwork(ctx context.Context, program run.Program) (network store.ClusterNetwork, err error) {
	record, err := store.Get[store.Cluster](ctx, c.pods.Store, c.id)
	if err != nil {
		return network, err
	}
	network.Name, c.engineNetwork = networkName(c.id), true
	config := run.Network{Name: network.Name, Cluster: c.id}
	if c.pods.Persistent {
		config.FolderID = c.pods.FolderID
	}
	if record.Network != nil && record.Network.Name != "" {
		config.CIDR = record.Network.CIDR
	}
	network.CIDR, err = program.Network(ctx, config)
	return network, err
}

// primary is the address of a cluster's primary. If pods get their address when they start, the primary
// starts first. The other members get its address as a variable, and restart if it changes.
type primary struct {
	address string        // "" if unknown
	changed chan struct{} // closed at the next change
}

// announce sets the address of the primary; "" while it starts.
func (c *cluster) announce(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.primary.address != address {
		close(c.primary.changed)
		c.primary = primary{address: address, changed: make(chan struct{})}
	}
}

// primaryAddress returns the address. changed is closed at its next change.
func (c *cluster) primaryAddress() (address string, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.primary.address, c.primary.changed
}

// joinPrimary sets a member's variables once the primary has an address. The primary itself doesn't wait.
func (r *runner) joinPrimary(ctx context.Context, c *cluster, p store.Pod) error {
	address := ""
	if *p.Cluster.Rank == 0 {
		c.announce("")
	} else {
		var changed <-chan struct{}
		for logged := false; ; logged = true {
			if address, changed = c.primaryAddress(); address != "" {
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
	_, err := r.report(ctx, p.Run, computeAssigned, func(p *store.Pod) {
		p.Cluster.Network, p.Cluster.IP = "", ""
		p.HiddenEnv = rankEnvironment(*p, address, "", primaryPort)
		for name := range addressVariables(*p) {
			delete(p.HiddenEnv, name)
		}
	})
	return err
}

// addressVariables maps the variables with a member's own address to the suffix that follows the address.
func addressVariables(p store.Pod) map[string]string {
	suffixes := map[string]string{"NODE_ADDR": ""}
	if *p.Cluster.Rank == 0 {
		suffixes["PRIMARY_ADDR"], suffixes["MASTER_ADDR"], suffixes["HOST_NODE_ADDR"] = "", "", ":"+strconv.Itoa(primaryPort)
	}
	return suffixes
}

// awaitPrimaryMove waits for a new address of the primary, or returns false if the process or ctx ends.
func (r *runner) awaitPrimaryMove(ctx context.Context, p store.Pod, process run.Process) bool {
	for {
		address, changed := r.clusterOf().primaryAddress()
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

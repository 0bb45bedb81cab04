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
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// A cluster's members are pods that get their GPUs in one step, and share a network: one
// of the container engine, the machine's loopback where they are processes, or that of all
// Pods in Kubernetes (cluster_primary.go). A member
// keeps its GPUs while its start is tried again, so that the cluster stays placed.

// ClusterRole is the role of a cluster's pod by its rank, "" in a type that has none. The
// deployment gives it no other meaning: the image brings what plays it.
func ClusterRole(clusterType string, rank int) string {
	roles := map[string][2]string{"SLURM": {"SLURM_CONTROLLER", "SLURM_COMPUTE"}, "RAY": {"RAY_HEAD", "RAY_WORKER"}}[clusterType]
	return roles[min(rank, 1)]
}

// Placed tells whether a pod has had GPUs.
func Placed(p store.Pod) bool { return p.GPUTypeID != "" }

// Network is a private network of an engine's containers.
type Network struct {
	Name, Cluster string
	// Deployment is as in Spec.
	Deployment string
	// CIDR is the block that it had before, "" for none.
	CIDR string
}

// cluster is the members of a cluster that this deployment knows.
type cluster struct {
	pods *Pods
	id   string

	mu      sync.Mutex // of all below; taken before a runner's
	members map[string]*runner
	waiting map[string]bool       // members that ask for GPUs
	network *store.ClusterNetwork // provisioned in this run of the deployment
	port    int                   // of the primary
	// engine says that a container engine may have the network.
	engine  bool
	primary primary // where pods get their addresses as they start
}

// primaryPort is that of a primary with an address of its own.
const primaryPort = 29400

// The loopback of the machine, which its processes share.
const (
	loopback     = PublicIP
	loopbackCIDR = "127.0.0.0/8"
)

// networkName is the name of a cluster's network with the engine.
func networkName(clusterID string) string { return "gpucloud-cluster-" + clusterID }

// join notes a member. The others wait for the last one.
func (p *Pods) join(r *runner, record store.Pod) {
	if record.Cluster == nil {
		return
	}
	p.mu.Lock()
	c := p.clusters[record.Cluster.ID]
	if c == nil {
		c = &cluster{pods: p, id: record.Cluster.ID, members: map[string]*runner{}, waiting: map[string]bool{}}
		p.clusters[record.Cluster.ID] = c
	}
	p.mu.Unlock()
	r.mu.Lock()
	r.cluster = c
	r.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.members[r.id]; known {
		return
	}
	c.engine = c.engine || record.Cluster.Network != ""
	c.members[r.id] = r
	c.retry()
}

// retry is called with mu held.
func (c *cluster) retry() {
	for _, member := range c.members {
		notify.Signal(member.retry)
	}
}

// clusterOf is the cluster of a runner, nil for a pod of its own.
func (r *runner) clusterOf() *cluster {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cluster
}

// leave forgets a member that is deleted, and with the last one the network.
func (p *Pods) leave(ctx context.Context, r *runner) {
	c := r.clusterOf()
	if c == nil {
		return
	}
	c.mu.Lock()
	delete(c.members, r.id)
	last, engine := len(c.members) == 0, c.engine
	c.mu.Unlock()
	if !last {
		return
	}
	p.mu.Lock()
	delete(p.clusters, c.id)
	p.mu.Unlock()
	if engine {
		p.removeNetwork(ctx, networkName(c.id))
	}
}

// removeAllNetworks is for the end of the deployment: the next one makes them again.
func (p *Pods) removeAllNetworks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clusters {
		if c.engine {
			p.removeNetwork(context.Background(), networkName(c.id))
		}
	}
}

func (p *Pods) removeNetwork(ctx context.Context, name string) {
	if err := p.Programs.RemoveNetwork(context.WithoutCancel(ctx), name); err != nil {
		p.Logger.ErrorContext(ctx, "the network of a cluster can't be removed: the next start tries again", "network", name, "error", err)
	}
}

// errMembersUnknown passes once all members are read.
var errMembersUnknown = errors.New("the cluster's pods are not all known yet")

// errNotWanted says that the pod was stopped or deleted meanwhile, which ends its run.
var errNotWanted = errors.New("the pod is not wanted any more")

// ask asks the allocator for a pod's GPUs: for the member of a cluster with those of all
// members that have none.
func (r *runner) ask(p store.Pod) ([]gpu.Device, error) {
	want := gpu.Request{Types: p.GPU.TypeIDs, Count: int(p.GPU.Count), CUDA: p.GPU.AllowedCUDAVersions, MinimumCUDA: p.GPU.MinCUDAVersion, Pod: true}
	c := r.clusterOf()
	if c == nil {
		return r.pods.Devices.Acquire(want, r.id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if devices := r.held(); devices != nil {
		return devices, nil
	}
	c.waiting[r.id] = true
	if len(c.members) < int(p.Cluster.Size) {
		return nil, errMembersUnknown
	}
	lacking := c.lacking()
	if !slices.Contains(lacking, r) {
		return nil, errNotWanted
	}
	assigned, err := r.pods.Devices.AcquireForMembers(want, c.id, ids(lacking))
	if err != nil {
		return nil, err
	}
	for i, member := range lacking {
		member.give(assigned[i])
	}
	clear(c.waiting)
	c.retry()
	return r.held(), nil
}

// lacking are the members that need GPUs, by rank. It is called with mu held.
func (c *cluster) lacking() (all []*runner) {
	rank := map[*runner]int64{}
	for _, member := range c.members {
		member.mu.Lock()
		if p := member.want; member.active() && member.devices == nil {
			rank[member] = *p.Cluster.Rank
			all = append(all, member)
		}
		member.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b *runner) int { return int(rank[a] - rank[b]) })
	return all
}

func ids(members []*runner) (all []string) {
	for _, member := range members {
		all = append(all, member.id)
	}
	return all
}

// active tells whether something is to run. It is called with mu held.
func (r *runner) active() bool { return r.want != nil && r.want.Status.Active() }

func (r *runner) held() []gpu.Device {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.devices
}

// give gives a runner the GPUs that another member asked for, unless it is not wanted any
// more: then it may have released them already.
func (r *runner) give(devices []gpu.Device) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active() {
		r.devices = devices
		return
	}
	r.pods.Devices.Release(r.id)
}

// stopAsking takes the cluster out of the line when no member waits any more.
func (r *runner) stopAsking() {
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

// joinNetwork gives a member its address, and tells it of the cluster.
func (r *runner) joinNetwork(run context.Context, p store.Pod, program Program) (store.Pod, error) {
	c := r.clusterOf()
	if c == nil {
		return p, nil
	}
	if program.OwnAddress {
		return r.joinPrimary(run, c, p)
	}
	network, port, err := c.provision(run, program)
	if err != nil {
		return p, err
	}
	primary, own := loopback, loopback
	if network.Name != "" {
		if primary, err = address(network.CIDR, 0); err == nil {
			own, err = address(network.CIDR, *p.Cluster.Rank)
		}
		if err != nil {
			return p, err
		}
	}
	joined, ok := r.report(run, p.Run, placed, func(p *store.Pod) {
		p.Cluster.Network, p.Cluster.IP = network.Name, own
		p.HiddenEnv = rankEnvironment(*p, primary, own, port)
	})
	if !ok {
		return p, context.Canceled
	}
	return joined, nil
}

// rankEnvironment are the variables by which a member finds the others. Those of the
// primary have two names each.
func rankEnvironment(p store.Pod, primary, own string, port int) map[string]string {
	portText := strconv.Itoa(port)
	return map[string]string{
		"NODE_RANK": strconv.FormatInt(*p.Cluster.Rank, 10), "NODE_ADDR": own,
		"PRIMARY_ADDR": primary, "MASTER_ADDR": primary, "PRIMARY_PORT": portText, "MASTER_PORT": portText, "HOST_NODE_ADDR": primary + ":" + portText,
		"NUM_NODES": strconv.FormatInt(p.Cluster.Size, 10), "NUM_TRAINERS": strconv.FormatInt(p.GPU.Count, 10),
		"WORLD_SIZE": strconv.FormatInt(p.Cluster.Size*p.GPU.Count, 10),
	}
}

// address is that of a rank in a network, whose first one is the gateway's.
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

// provision makes the network that the members share, once in a run of the deployment:
// the block of addresses stays, and the port of a process that is the primary is a new
// one.
func (c *cluster) provision(ctx context.Context, program Program) (store.ClusterNetwork, int, error) {
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
		port, err = worker.FreePort(ctx)
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

func (c *cluster) makeNetwork(ctx context.Context, program Program) (network store.ClusterNetwork, err error) {
	record, err := c.pods.Store.Cluster(ctx, c.id)
	if err != nil {
		return network, err
	}
	network.Name, c.engine = networkName(c.id), true
	wanted := Network{Name: network.Name, Cluster: c.id}
	if c.pods.Lasting {
		wanted.Deployment = c.pods.Machine
	}
	if record.Network != nil && record.Network.Name != "" {
		wanted.CIDR = record.Network.CIDR
	}
	network.CIDR, err = program.Network(ctx, wanted)
	return network, err
}

// removeNetworks removes those of clusters whose deletion was cut short.
func (p *Pods) removeNetworks(ctx context.Context, all []store.Pod) {
	known := map[string]bool{}
	for _, record := range all {
		if record.Cluster != nil {
			known[networkName(record.Cluster.ID)] = true
		}
	}
	for _, name := range p.Programs.LeftNetworks(ctx, p.Machine) {
		if !known[name] {
			p.removeNetwork(ctx, name)
		}
	}
}

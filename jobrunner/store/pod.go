package store

import (
	"context"
	"maps"
	"time"
)

// Pod is a container that its user starts and stops. Its name need not be unique.
type Pod struct {
	Head
	Container

	// Owner is the owner of the API key that made it.
	Owner string `json:"owner,omitempty"`
	// TemplateID is the template that it was made from through API v1, "" for none.
	// The pod does not follow it.
	TemplateID string `json:"templateId,omitempty"`

	// Of GPU and CPU, one is set.
	GPU *PodGPU `json:"gpu,omitempty"`
	CPU *PodCPU `json:"cpu,omitempty"`

	// Volume is the pod's own storage, of size 0 where it has none. Its path is that
	// of the network volume, too, where it has one of these.
	Volume        LocalVolume `json:"volume"`
	NetworkVolume string      `json:"networkVolume,omitempty"` // id

	Cloud            string   `json:"cloud"`                   // SECURE or COMMUNITY
	DataCenterIDs    []string `json:"dataCenterIds,omitempty"` // empty: any
	Locked           bool     `json:"locked,omitempty"`
	GlobalNetworking bool     `json:"globalNetworking,omitempty"`
	Interruptible    bool     `json:"interruptible,omitempty"` // API v1 only

	// HiddenEnv are variables that no answer shows: those of a cluster's member.
	HiddenEnv map[string]string `json:"hiddenEnv,omitempty"`
	// Cluster is the membership in a cluster, nil for a pod of its own.
	Cluster *ClusterMember `json:"cluster,omitempty"`

	PodState
}

// PodGPU is the GPUs that a pod asks for: so many of one of the types, the best
// first, or of any where there is none.
type PodGPU struct {
	TypeIDs             []string `json:"typeIds,omitempty"`
	Count               int64    `json:"count"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions,omitempty"` // empty: any
	MinCUDAVersion      string   `json:"minCudaVersion,omitempty"`      // "": no floor
	MinRAMPerGPU        int64    `json:"minRamPerGpu,omitempty"`        // GB, of a machine that stands in for all, as the next
	MinVCPUPerGPU       int64    `json:"minVcpuPerGpu,omitempty"`
}

// PodCPU is the CPU flavours that will do for a pod, the best first.
type PodCPU struct {
	FlavorIDs []string `json:"flavorIds"`
	VCPUCount int64    `json:"vcpuCount"`
}

// ClusterMember is a pod's place in a cluster.
type ClusterMember struct {
	ID   string `json:"id"`
	Rank *int64 `json:"rank"` // nil: not known yet
	Role string `json:"role,omitempty"`
	IP   string `json:"ip,omitempty"`
	// Size is the number of the cluster's pods.
	Size int64 `json:"size"`
	// Network is the private network of its containers, which all members share.
	Network string `json:"network,omitempty"`
}

// PodStatus is the state of a pod, in the words of API v2. Package pod has the ways from
// one to another.
type PodStatus string

// The states of a pod.
const (
	PodProvisioning PodStatus = "PROVISIONING"
	PodStarting     PodStatus = "STARTING"
	PodRunning      PodStatus = "RUNNING"
	PodExited       PodStatus = "EXITED"
	PodError        PodStatus = "ERROR"
	PodTerminated   PodStatus = "TERMINATED"
)

// Active tells whether something of the pod runs, or is to run.
func (s PodStatus) Active() bool {
	return s == PodProvisioning || s == PodStarting || s == PodRunning
}

// PodState is what the deployment has done with a pod.
type PodState struct {
	Status PodStatus `json:"status"`
	// Reason says, for people, why it waits, or how it ended; "" for nothing to say.
	Reason string `json:"reason,omitempty"`
	// Changed and ChangedAt are the last event of its life, for people.
	Changed   string    `json:"changed,omitempty"`
	ChangedAt time.Time `json:"changedAt,omitzero"`
	StartedAt time.Time `json:"startedAt,omitzero"` // the last time; zero: never
	// Run counts what is started: a change of it replaces what runs.
	Run int64 `json:"run"`
	// WipeVolume says that the volume is to be emptied before the next start.
	WipeVolume bool `json:"wipeVolume,omitempty"`

	// Machine is the deployment that runs it, "" for none yet.
	Machine      string    `json:"machine,omitempty"`
	DataCenterID string    `json:"dataCenterId,omitempty"`
	CUDAVersion  string    `json:"cudaVersion,omitempty"` // of the machine's driver
	GPUTypeID    string    `json:"gpuTypeId,omitempty"`   // of the GPUs that it had last
	Devices      []string  `json:"devices,omitempty"`     // UUIDs, while it holds them
	OpenPorts    []PodPort `json:"openPorts,omitempty"`   // while it runs
	NetworkIP    string    `json:"networkIp,omitempty"`   // in the global network, while it runs
}

// PodPort is a port of a pod, and where it is reached.
type PodPort struct {
	Private  int    `json:"private"`
	Public   int    `json:"public,omitempty"` // 0: nowhere
	IP       string `json:"ip,omitempty"`     // where Public is; "": on the jobrunner's machine
	Protocol string `json:"protocol"`         // http or tcp
}

func (p *Pod) kind() kind { return pods }

func (p *Pod) refs() []string {
	refs := p.Container.refs()
	for _, id := range []string{p.NetworkVolume, p.TemplateID} {
		if id != "" {
			refs = append(refs, id)
		}
	}
	if p.Cluster != nil {
		refs = append(refs, p.Cluster.ID)
	}
	return refs
}

// Pod reads one pod. The error wraps ErrNotFound where there is none.
func (s *Store) Pod(ctx context.Context, id string) (Pod, error) { return get[Pod](ctx, s, id) }

// Pods lists the pods, the oldest first.
func (s *Store) Pods(ctx context.Context) ([]Pod, error) { return list[Pod](ctx, s) }

// PodPage lists a part of the pods, with the position of the next part.
func (s *Store) PodPage(ctx context.Context, p Page) (part []Pod, next int64, err error) {
	return page[Pod](ctx, s, p)
}

// Pod reads one pod inside of the transaction.
func (tx *Tx) Pod(id string) (p Pod, err error) { return p, load(tx.tx, &p, id) }

// OnPodChange has f called after the commit of any change to a pod: its creation, its
// update, its deletion. As with endpoints, f reads the pod again to know its state.
func (s *Store) OnPodChange(f func(id string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.podHooks = append(s.podHooks, f)
}

// CreatePods keeps the pods that build returns, all or none, each under an id of its
// own. build may read and write in tx, and may be run more than once.
func (s *Store) CreatePods(ctx context.Context, build func(tx *Tx) ([]Pod, error)) ([]Pod, error) {
	var out []Pod
	err := s.write(ctx, func(tx *Tx) error {
		made, err := build(tx)
		if err != nil {
			return err
		}
		for i := range made {
			if err := tx.InsertPod(&made[i]); err != nil {
				return err
			}
		}
		out = made
		return nil
	})
	return out, err
}

// InsertPod checks a new pod and keeps it under an id of its own.
func (tx *Tx) InsertPod(p *Pod) error {
	if err := tx.checkPod(*p); err != nil {
		return err
	}
	place, err := tx.placePod(*p)
	if err != nil {
		return err
	}
	p.DataCenterID = place
	if err := tx.insert(p, tx.now); err != nil {
		return err
	}
	tx.changedPods = append(tx.changedPods, p.ID)
	return nil
}

// UpdatePod changes a pod. change may read templates in tx, and may be run more than
// once.
func (s *Store) UpdatePod(ctx context.Context, id string, change func(tx *Tx, p *Pod) error) (Pod, error) {
	var out Pod
	err := s.write(ctx, func(tx *Tx) (err error) {
		out, err = tx.UpdatePod(id, func(p *Pod) error {
			if err := change(tx, p); err != nil {
				return err
			}
			return tx.checkPod(*p)
		})
		return err
	})
	return out, err
}

// ReportPod changes the state of a pod as the deployment finds it, and calls nobody.
func (s *Store) ReportPod(ctx context.Context, id string, change func(p *Pod) error) (Pod, error) {
	var out Pod
	err := s.write(ctx, func(tx *Tx) error {
		p, err := tx.Pod(id)
		if err != nil {
			return err
		}
		if err := change(&p); err != nil {
			return err
		}
		out = p
		return tx.save(&p)
	})
	return out, err
}

// UpdatePod changes a pod inside of the transaction. It does not check what a change of
// another record leaves right.
func (tx *Tx) UpdatePod(id string, change func(p *Pod) error) (Pod, error) {
	p, err := tx.Pod(id)
	if err != nil {
		return p, err
	}
	if err := change(&p); err != nil {
		return p, err
	}
	tx.changedPods = append(tx.changedPods, id)
	return p, tx.save(&p)
}

// DeletePod deletes a pod that allow agrees to; nil: any.
func (s *Store) DeletePod(ctx context.Context, id string, allow func(p Pod) error) error {
	return s.delete(ctx, func(tx *Tx) error {
		p, err := tx.Pod(id)
		if err != nil {
			return err
		}
		if allow != nil {
			if err := allow(p); err != nil {
				return err
			}
		}
		return tx.RemovePod(id)
	})
}

// RemovePod deletes a pod inside of the transaction.
func (tx *Tx) RemovePod(id string) error {
	tx.changedPods = append(tx.changedPods, id)
	return tx.remove(pods, id)
}

// UseTemplate takes a pod template's settings over once, without its volume.
func (p *Pod) UseTemplate(t Template) { p.Container = t.clone() }

// Settings are what a container of the pod is made of. A change of them replaces one that
// runs.
func (p *Pod) Settings() Pod {
	c := Pod{Container: p.clone(), GPU: p.GPU, CPU: p.CPU, Volume: p.Volume, NetworkVolume: p.NetworkVolume, HiddenEnv: maps.Clone(p.HiddenEnv)}
	if len(c.Env) == 0 {
		c.Env = nil
	}
	if len(c.Ports) == 0 {
		c.Ports = nil
	}
	c.SetArgs(p.comparableArgs())
	return c
}

// detachPods takes a network volume from the pods that name it. What runs keeps its
// mount until it ends.
func (tx *Tx) detachPods(volume string) error {
	users, err := tx.owners(pods, volume)
	if err != nil {
		return err
	}
	for _, user := range users {
		if _, err := tx.UpdatePod(user, func(p *Pod) error { p.NetworkVolume = ""; return nil }); err != nil {
			return err
		}
	}
	return nil
}

// podThatUses is a pod that names a record, "" for none.
func (tx *Tx) podThatUses(target string) (id string, err error) {
	users, err := tx.owners(pods, target)
	if err != nil || len(users) == 0 {
		return "", err
	}
	return users[0], nil
}

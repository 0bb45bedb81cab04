package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// Pod is a container that its user can start and stop. Its name need not be unique.
type Pod struct {
	Head
	Container

	// Owner is the owner of the API key that created it.
	Owner string `json:"owner,omitempty"`
	// TemplateID is the template of API v1, or "". The template's later changes don't affect the pod.
	TemplateID string `json:"templateId,omitempty"`

	// Exactly one of GPU and CPU is set.
	GPU *PodGPU `json:"gpu,omitempty"`
	CPU *PodCPU `json:"cpu,omitempty"`

	// Volume is the pod's own storage; size 0 means none. A network volume is mounted at Volume.Path, too.
	Volume        LocalVolume `json:"volume"`
	NetworkVolume string      `json:"networkVolume,omitempty"` // id

	Cloud            string   `json:"cloud"`                   // SECURE or COMMUNITY
	DataCenterIDs    []string `json:"dataCenterIds,omitempty"` // empty: any
	Locked           bool     `json:"locked,omitempty"`
	GlobalNetworking bool     `json:"globalNetworking,omitempty"`
	Interruptible    bool     `json:"interruptible,omitempty"` // API v1 only

	// HiddenEnv has the variables of a cluster's member, which API responses omit.
	HiddenEnv map[string]string `json:"hiddenEnv,omitempty"`
	// Cluster is nil if the pod isn't a member of a cluster.
	Cluster *ClusterMember `json:"cluster,omitempty"`

	PodState
}

// PodGPU requests GPUs of the first type in the list that has stock, or of any type if the list is empty.
type PodGPU struct {
	TypeIDs             []string `json:"typeIds,omitempty"`
	Count               int64    `json:"count"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions,omitempty"` // empty: any
	MinCUDAVersion      string   `json:"minCudaVersion,omitempty"`      // "": any
	MinRAMPerGPU        int64    `json:"minRamPerGpu,omitempty"`        // GB; not checked against this machine, nor is MinVCPUPerGPU
	MinVCPUPerGPU       int64    `json:"minVcpuPerGpu,omitempty"`
}

// PodCPU requests vCPUs of one of the flavors, the best first.
type PodCPU struct {
	FlavorIDs []string `json:"flavorIds"`
	VCPUCount int64    `json:"vcpuCount"`
}

// ClusterMember is a pod's place in a cluster.
type ClusterMember struct {
	ID   string `json:"id"`
	Rank *int64 `json:"rank"` // nil until it is known
	Role string `json:"role,omitempty"`
	IP   string `json:"ip,omitempty"`
	// Size is the number of the cluster's pods.
	Size int64 `json:"size"`
	// Network is the private network of its containers, which all members share.
	Network string `json:"network,omitempty"`
}

// PodStatus is a pod's state, as in API v2 but without TERMINATED. Package pod has the transitions.
type PodStatus string

const (
	PodProvisioning PodStatus = "PROVISIONING"
	PodStarting     PodStatus = "STARTING"
	PodRunning      PodStatus = "RUNNING"
	PodExited       PodStatus = "EXITED"
	PodError        PodStatus = "ERROR"
)

// Active reports whether the pod runs or will run.
func (s PodStatus) Active() bool {
	return s == PodProvisioning || s == PodStarting || s == PodRunning
}

type PodState struct {
	Status PodStatus `json:"status"`
	// Reason tells users why the pod waits or how it ended. It may be "".
	Reason string `json:"reason,omitempty"`
	// Changed is the pod's last event as human-readable text.
	Changed   string    `json:"changed,omitempty"`
	ChangedAt time.Time `json:"changedAt,omitzero"`
	StartedAt time.Time `json:"startedAt,omitzero"` // last start; zero: never
	// Run numbers the pod's containers. When it changes, a new container replaces the running one.
	Run int64 `json:"run"`
	// WipeVolume requests that the volume is emptied before the next start.
	WipeVolume bool `json:"wipeVolume,omitempty"`

	// FolderID is the id of the data folder of the node that runs the pod, or "".
	FolderID     string    `json:"machine,omitempty"`
	DataCenterID string    `json:"dataCenterId,omitempty"`
	CUDAVersion  string    `json:"cudaVersion,omitempty"` // of the machine's driver
	GPUTypeID    string    `json:"gpuTypeId,omitempty"`   // of its last GPUs
	Devices      []string  `json:"devices,omitempty"`     // UUIDs of its current GPUs
	OpenPorts    []PodPort `json:"openPorts,omitempty"`   // while it runs
	NetworkIP    string    `json:"networkIp,omitempty"`   // in the global network, while it runs
}

type PodPort struct {
	Private  int    `json:"private"`
	Public   int    `json:"public,omitempty"` // 0: not public
	IP       string `json:"ip,omitempty"`     // of Public; "": the jobrunner's machine
	Protocol string `json:"protocol"`         // http or tcp
}

func (p *Pod) kind() kind { return pods }

func (p *Pod) refs() []string {
	refs := []string{p.Registry, p.NetworkVolume, p.TemplateID}
	if p.Cluster != nil {
		refs = append(refs, p.Cluster.ID)
	}
	return refs
}

// Pod reads a pod. The error wraps ErrNotFound if it doesn't exist.
func (s *Store) Pod(ctx context.Context, id string) (Pod, error) { return Get[Pod](ctx, s, id) }

// Pods lists the pods, the oldest first.
func (s *Store) Pods(ctx context.Context) ([]Pod, error) { return List[Pod](ctx, s) }

// beforeInsert checks the catalog, too. Updates don't: a pod of a type no longer offered can be stopped.
func (p *Pod) beforeInsert(tx *Tx) (err error) {
	if err := cmp.Or(tx.checkPod(*p), tx.checkPodGPU(*p), tx.checkPodCPU(*p)); err != nil {
		return err
	}
	p.DataCenterID, err = tx.placePod(*p)
	return cmp.Or(err, tx.checkPodNetwork(*p))
}

// UpdatePod changes a pod that isn't a member of a cluster. change may read templates in tx, and may run more than once.
func (s *Store) UpdatePod(ctx context.Context, id string, change func(tx *Tx, p *Pod) error) (Pod, error) {
	return update(ctx, s, id, func(tx *Tx, p *Pod) error {
		if err := p.rejectMember(); err != nil {
			return err
		}
		hadNetwork := p.GlobalNetworking
		if err := change(tx, p); err != nil {
			return err
		}
		tx.recordChange(pods, id)
		if hadNetwork {
			return tx.checkPod(*p)
		}
		return cmp.Or(tx.checkPod(*p), tx.checkPodNetwork(*p))
	})
}

// rejectMember returns an error if the pod is a cluster's member, which only the cluster may change.
func (p *Pod) rejectMember() error {
	if p.Cluster == nil {
		return nil
	}
	return Conflict(fmt.Sprintf("pod %q belongs to the cluster %q, and only the cluster can change it: /v2/clusters/%[2]s", p.ID, p.Cluster.ID))
}

func (p *Pod) beforeDelete(*Tx) error { return p.rejectMember() }

// ReportPod changes the actual state of a pod, without calling the listeners.
func (s *Store) ReportPod(ctx context.Context, id string, change func(p *Pod) error) (Pod, error) {
	return update(ctx, s, id, func(_ *Tx, p *Pod) error { return change(p) })
}

// GPUType returns the type of the GPUs that the pod has, had, or requests, or "".
func (p *Pod) GPUType() string {
	if p.GPUTypeID == "" && p.GPU != nil && len(p.GPU.TypeIDs) > 0 {
		return p.GPU.TypeIDs[0]
	}
	return p.GPUTypeID
}

// UseTemplate copies a template's settings, except its volume.
func (p *Pod) UseTemplate(t Template) { p.Container = t.clone() }

// Settings returns the members that define the pod's container. A change of them replaces a running container.
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

// checkPod rejects contradictory members, and references to objects that don't exist.
func (tx *Tx) checkPod(p Pod) error {
	return cmp.Or(checkPodMembers(p), tx.checkPodVolume(p), tx.checkRegistry(p.Container))
}

func checkPodMembers(p Pod) error {
	switch {
	case (p.GPU == nil) == (p.CPU == nil):
		return Refusal("a pod has either GPUs or CPUs: expected exactly one of gpu and cpu")
	case p.CPU != nil && len(p.CPU.FlavorIDs) == 0:
		return errNoFlavor
	case p.Volume.Size > 0 && p.NetworkVolume != "":
		return Refusal("a pod has a persistent mount or a network mount, not both")
	case p.Volume.Size > 0 && p.CPU != nil:
		return Refusal("a CPU pod has no persistent mount: give it a network mount")
	}
	return nil
}

// checkPodGPU checks against the catalog's largest machine with one of the types. It doesn't check against
// this machine: if this machine can't run a pod, the pod waits.
func (tx *Tx) checkPodGPU(p Pod) error {
	if p.GPU == nil {
		return nil
	}
	maxCount := int64(0)
	if len(p.GPU.TypeIDs) == 0 { // the pod may get a GPU of this machine whose type the catalog lacks
		maxCount = catalog.MaxGPUs
	}
	for _, id := range tx.gpuTypes(p) {
		maxCount = max(maxCount, tx.Catalog().OfferOf(id).MaxCount[p.Cloud])
	}
	switch {
	case maxCount == 0:
		return refusef("the %s cloud does not offer %s", p.Cloud, strings.Join(p.GPU.TypeIDs, ", "))
	case p.GPU.Count > maxCount:
		return refusef("invalid number of GPUs of a pod: expected %d at most, got %d", maxCount, p.GPU.Count)
	case p.GPU.MinCUDAVersion != "" && len(p.GPU.AllowedCUDAVersions) > 0:
		return errTwoCUDA
	}
	return nil
}

// gpuTypes returns the types that a pod requests, or all types of the catalog if the pod's list is empty.
func (tx *Tx) gpuTypes(p Pod) []string {
	types := p.GPU.TypeIDs
	for _, g := range tx.Catalog().GPUs {
		if len(p.GPU.TypeIDs) == 0 {
			types = append(types, g.ID)
		}
	}
	return types
}

func (tx *Tx) checkPodCPU(p Pod) (err error) {
	if p.CPU != nil {
		for _, id := range p.CPU.FlavorIDs {
			err = cmp.Or(err, tx.checkVCPUs(id, p.CPU.VCPUCount))
		}
	}
	return err
}

// checkVCPUs rejects a number of vCPUs that isn't a power of two or, if the catalog has the flavor, isn't the flavor's.
func (tx *Tx) checkVCPUs(flavorID string, n int64) error {
	if n < 2 || n&(n-1) != 0 {
		return Refusal("invalid vcpuCount: expected a power of two of at least 2")
	}
	if flavor, ok := tx.Catalog().CPUByID(flavorID); ok && (n < flavor.MinVCPU || n > flavor.MaxVCPU) {
		return refusef("invalid vcpuCount: the CPU flavor %s has %d to %d vCPUs, got %d", flavorID, flavor.MinVCPU, flavor.MaxVCPU, n)
	}
	return nil
}

// checkPodNetwork restricts the global network to pods with NVIDIA GPUs in data centers that have it.
func (tx *Tx) checkPodNetwork(p Pod) error {
	if !p.GlobalNetworking {
		return nil
	}
	if p.GPU == nil {
		return Refusal("globalNetworking needs an NVIDIA GPU, and this is a CPU pod")
	}
	for _, id := range p.GPU.TypeIDs {
		if gpu, ok := tx.Catalog().GPUByID(id); ok && gpu.Manufacturer != "NVIDIA" {
			return refusef("globalNetworking needs an NVIDIA GPU, and %s isn't one", id)
		}
	}
	if d, ok := tx.Catalog().DataCenterByID(p.DataCenterID); ok && !d.GlobalNetwork {
		return refusef("the data center %s doesn't have the global network: try other data centers", d.ID)
	}
	return nil
}

// checkPodVolume requires that the network volume exists in a data center of the pod.
func (tx *Tx) checkPodVolume(p Pod) error {
	if p.NetworkVolume == "" {
		return nil
	}
	var v NetworkVolume
	err := load(tx.tx, &v, p.NetworkVolume)
	switch {
	case errors.Is(err, ErrNotFound):
		return refusef("network volume %q does not exist", p.NetworkVolume)
	case err != nil:
		return err
	}
	if len(p.DataCenterIDs) > 0 && !slices.Contains(p.DataCenterIDs, v.DataCenter) {
		return refusef("network volume %q is in the data center %s, and the pod may be in %s alone", v.ID, v.DataCenter, strings.Join(p.DataCenterIDs, ", "))
	}
	return nil
}

// withGlobalNetwork returns the allowed data centers that have the global network. If none has it, it returns all
// allowed ones, and checkPodNetwork rejects the pod.
func withGlobalNetwork(cat *catalog.Catalog, allowed []string) []string {
	suitable := slices.Clone(allowed)
	if len(allowed) == 0 && cat.Restricts() { // all data centers are allowed
		for _, d := range cat.DataCenters {
			suitable = append(suitable, d.ID)
		}
	}
	suitable = slices.DeleteFunc(suitable, func(id string) bool {
		d, ok := cat.DataCenterByID(id)
		return ok && !d.GlobalNetwork
	})
	if len(suitable) == 0 {
		return allowed
	}
	return suitable
}

// placePod returns the data center of a new pod. If the catalog's file restricts stock, placePod chooses a data
// center with stock, and rejects the pod if no allowed data center has stock. If not, the data center is the network
// volume's, the first requested one, or "" if neither is set: this machine represents all data centers.
func (tx *Tx) placePod(p Pod) (dataCenter string, err error) {
	allowed := p.DataCenterIDs
	if p.NetworkVolume != "" {
		var v NetworkVolume
		if err := load(tx.tx, &v, p.NetworkVolume); err != nil {
			return "", err
		}
		allowed = []string{v.DataCenter}
	}
	cat := tx.Catalog()
	if p.GlobalNetworking {
		allowed = withGlobalNetwork(cat, allowed)
	}
	if !cat.Restricts() {
		if len(allowed) == 0 {
			return "", nil
		}
		return allowed[0], nil
	}
	var requested, candidates []string
	if p.GPU != nil {
		requested, candidates = p.GPU.TypeIDs, tx.gpuTypes(p)
	} else {
		requested, candidates = p.CPU.FlavorIDs, p.CPU.FlavorIDs
	}
	product := catalog.Pod
	if p.Cluster != nil {
		product = catalog.Cluster
	}
	for _, id := range candidates {
		placement := catalog.Placement{GPU: id, Cloud: p.Cloud, Product: product}
		if p.CPU != nil {
			placement.GPU, placement.CPU = "", id
		}
		// A type without a stated stock is limited by this machine later.
		if dataCenter := cat.Place(placement, allowed); dataCenter != "" {
			return dataCenter, nil
		}
	}
	return "", refusef("%s (%s cloud): try another type, data center or network volume", catalog.NoStockMessage(requested, "any GPU", allowed), p.Cloud)
}

package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

// Labels of NVIDIA's GPU feature discovery.
const (
	driverLabel = "nvidia.com/cuda.driver-version.full"
	cudaLabel   = "nvidia.com/cuda.runtime-version.full"
	memoryLabel = "nvidia.com/gpu.memory" // MiB
)

// inventory has a device for each allocatable GPU of the cluster's nodes. The devices are
// slots: the node chooses which of its devices a Pod gets.
type inventory struct {
	cluster *Cluster
	changed chan struct{}
	store   cache.Store // of nodes
}

// nodes returns the nodes, sorted by name.
func (in *inventory) nodes() []*core.Node {
	nodes := cachedObjects[core.Node](in.store)
	slices.SortFunc(nodes, func(a, b *core.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

func (c *Cluster) Inventory(ctx context.Context) (gpu.Inventory, error) {
	informer := newInformer(&core.Node{}, c.client.core.Nodes(), "")
	in := &inventory{cluster: c, changed: make(chan struct{}, 1), store: informer.GetStore()}
	c.watchMu.Lock()
	defer c.watchMu.Unlock()
	if err := start(ctx, c, informer, "the nodes of the Kubernetes cluster", in.signalChange); err != nil {
		return nil, err
	}
	c.inventory = in
	return in, nil
}

func (in *inventory) signalChange(before, after *core.Node) {
	if in.slots(before) != in.slots(after) {
		notify.Signal(in.changed)
	}
}

// slots are the GPUs of a node: their number, type, and why they can't be used.
type slots struct {
	count int64
	label string
	fault string
}

func (in *inventory) slots(node *core.Node) (s slots) {
	if node == nil {
		return s
	}
	quantity := node.Status.Allocatable[gpuResource]
	s.count, s.label = quantity.Value(), node.Labels[in.cluster.GPULabel.Value]
	if s.label == "" { // no Pod could select it
		s.fault = "its node " + node.Name + " has no label " + in.cluster.GPULabel.Value
	}
	if node.Spec.Unschedulable {
		s.fault = "its node " + node.Name + " takes no new Pods (cordoned)"
	}
	for _, c := range node.Status.Conditions {
		if c.Type == core.NodeReady && c.Status != core.ConditionTrue {
			s.fault = "its node " + node.Name + " is not ready: " + c.Message
		}
	}
	return s
}

// Devices returns the devices of all nodes, sorted by node.
func (in *inventory) Devices() (all []gpu.Device) {
	for _, node := range in.nodes() {
		s := in.slots(node)
		memory, _ := strconv.ParseInt(node.Labels[memoryLabel], 10, 64) // 0 is unknown
		for i := range s.count {
			all = append(all, gpu.Device{
				UUID: fmt.Sprintf("GPU-%s-%d", node.Name, i), Index: len(all), TypeID: in.cluster.typeOf(s.label), Memory: memory << 20, Node: node.Name, Fault: s.fault,
			})
		}
	}
	return all
}

// Driver returns the oldest driver of the nodes: a Pod may run on any node.
func (in *inventory) Driver() (oldest gpu.Driver) {
	for _, node := range in.nodes() {
		d := gpu.Driver{Version: node.Labels[driverLabel], CUDA: node.Labels[cudaLabel]}
		if d.CUDA != "" && (oldest.CUDA == "" || catalog.CompareCUDA(d.CUDA, oldest.CUDA) < 0) {
			oldest = d
		}
	}
	return oldest
}

// Sample returns unknown values: the devices are on other machines.
func (in *inventory) Sample(string) (gpu.Sample, error) { return gpu.UnknownSample, nil }

func (in *inventory) Changed() <-chan struct{} { return in.changed }
func (in *inventory) Close()                   {} // the watch ends with the cluster's connection

// typeOf returns the catalog's id for a value of the GPU label: the product's name with hyphens for its
// spaces. A product that the catalog doesn't have is a type of its own.
func (c *Cluster) typeOf(label string) string {
	if id := c.GPUTypes[label].Value; id != "" {
		return id
	}
	if label == "" {
		return "unknown GPU"
	}
	for _, known := range contract.GPUTypes {
		if strings.EqualFold(asLabel(known.ID), label) {
			return gpu.CanonicalType(known.ID)
		}
	}
	return gpu.CanonicalType(strings.ReplaceAll(label, "-", " "))
}

func asLabel(product string) string { return strings.ReplaceAll(product, " ", "-") }

// labelsOf returns the values of the GPU label that mean a type: the inverse of typeOf.
func (c *Cluster) labelsOf(typeID string) (labels []string) {
	labels = []string{asLabel(typeID)}
	for label, id := range c.GPUTypes {
		if id.Value == typeID {
			labels = append(labels, label)
		}
	}
	if c.inventory != nil {
		for _, node := range c.inventory.nodes() {
			if label := node.Labels[c.GPULabel.Value]; label != "" && c.typeOf(label) == typeID {
				labels = append(labels, label)
			}
		}
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

package run

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
)

// Cluster runs workers and pods as Pods of a Kubernetes cluster. Package kubernetes
// implements it. The interface keeps Kubernetes' client out of programs that run workers
// on their own machine only.
type Cluster interface {
	fmt.Stringer
	VolumeKeeper
	Start(ctx context.Context, s Spec) (Process, error)
	// Orphans returns what pods of a deployment left.
	Orphans(ctx context.Context, deployment string) ([]Orphan, error)
	// RemoveRun removes what a killed run of the jobrunner left.
	RemoveRun(ctx context.Context, run string) (removed int, err error)
	// Inventory returns the GPUs of the nodes.
	Inventory(ctx context.Context) (gpu.Inventory, error)
	Close()
}

// VolumeKeeper keeps volumes elsewhere than in folders of this machine. Both methods are
// no-ops for a volume that it doesn't have.
type VolumeKeeper interface {
	ResizeVolume(ctx context.Context, name string, size int64) error
	RemoveVolume(ctx context.Context, name string) error
}

// ClusterConfig selects a Kubernetes cluster, and how its Pods are made.
type ClusterConfig struct {
	// Kubeconfig is a file. If empty, it's the service account of this process's Pod,
	// KUBECONFIG or the user's own file.
	Kubeconfig string
	Context    string // of the file; "" is its current one
	Namespace  string // "" is the context's, or else this process's Pod's, or else default
	URL        string // how Pods reach this jobrunner, without a path
	// GPULabel is the label of nodes that names their GPU product; "" is the label of
	// NVIDIA's GPU feature discovery.
	GPULabel string
	// GPUTypes maps values of GPULabel to ids of the catalog, if they differ.
	GPUTypes     map[string]string
	Tolerations  []Toleration // of every Pod
	StorageClass string       // of volumes; "" is the cluster's default
	VolumeAccess string       // access mode of network volumes; "" is ReadWriteMany
	Overcommit   bool         // limits CPU, memory and disk of Pods, but reserves none
	Run          string       // id of this run of the jobrunner
	Logger       *slog.Logger
}

// Toleration is a Pod's toleration of taints.
type Toleration struct{ Key, Operator, Value, Effect string }

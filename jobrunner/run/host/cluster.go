package host

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Cluster runs workers and pods as Pods of a Kubernetes cluster. It is an interface so
// that programs that run workers on their own machine only don't have Kubernetes' client;
// jobrunner/run/kubernetes implements it.
type Cluster interface {
	fmt.Stringer
	VolumeKeeper
	Start(ctx context.Context, w Workload) (worker.Process, error)
	StartPod(ctx context.Context, w Workload) (pod.Process, error)
	// LeftPods are those that pods of a deployment left.
	LeftPods(ctx context.Context, deployment string) ([]pod.Left, error)
	// RemoveRun removes what a run of the jobrunner left.
	RemoveRun(ctx context.Context, run string) (removed int, err error)
	// Inventory is the GPUs of its nodes.
	Inventory(ctx context.Context) (gpu.Inventory, error)
	Close()
}

// Workload is a worker or a pod that a Cluster starts.
type Workload struct {
	worker.Spec
	Pod        *pod.Spec // nil: it is a worker
	Words      []string  // of its args
	Registry   string    // host of the image's registry
	PullAlways bool      // else where the node lacks the image
}

// ClusterConfig is what the file says of the cluster.
type ClusterConfig struct {
	Kubeconfig, Context, Namespace, URL, GPULabel string
	GPUTypes                                      map[string]string // the catalog's ids by label
	Tolerations                                   []Toleration
	StorageClass, VolumeAccess                    string
	Overcommit                                    bool
	Run                                           string // id of this run of the jobrunner
	Logger                                        *slog.Logger
}

// Toleration is one of every Pod's.
type Toleration struct{ Key, Operator, Value, Effect string }

package pod

import (
	"context"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// Programs say what images mean on this machine, where pods are made of them.
type Programs interface {
	// Program finds what runs an image. The error says, for people, why nothing
	// here does.
	Program(image string) (Program, error)
	// Left are the containers that an earlier run of a deployment left, by its id.
	Left(ctx context.Context, deployment string) []Left
	// LeftNetworks are the names of the networks that an earlier run of a deployment
	// made for clusters.
	LeftNetworks(ctx context.Context, deployment string) []string
	// RemoveNetwork removes a cluster's network; where there is none it does nothing.
	RemoveNetwork(ctx context.Context, name string) error
}

// Program is what an image means here.
type Program struct {
	// Start starts a pod. It returns once its process runs; ctx bounds the start
	// alone.
	Start func(ctx context.Context, s Spec) (Process, error)
	// Publish chooses where a port of a pod is reached; nil: nowhere.
	Publish func(ctx context.Context, private int) (public int, err error)
	// OwnAddress says that the ports are reached at the Address of the process, and not
	// at PublicIP; the members of a cluster reach each other there.
	OwnAddress bool
	// Network makes the network of a cluster, or finds it, and answers its block of
	// addresses; nil: its pods share the machine's loopback, or have an OwnAddress.
	Network func(ctx context.Context, n Network) (cidr string, err error)
}

// Spec is what a pod is started with: the Worker of the embedded Spec is its id.
type Spec struct {
	worker.Spec
	Run   int64           // of the pod
	Ports []store.PodPort // where each is to be reached
	// Network is a private network that its containers share with those of other pods;
	// "": none.
	Network string
	// IP is the pod's address in the network; "": any.
	IP string
	// OwnAddress are variables that have the pod's own address, which it gets as it
	// starts, with what follows that.
	OwnAddress map[string]string
	// Deployment is the id by which a later run of it finds what this one left; "":
	// nothing is to outlive the run.
	Deployment string
	// Line takes a line that the pod writes, with what says where to go on after it.
	Line func(text, mark string)
}

// Process is a pod that runs.
type Process interface {
	worker.Process
	// Succeeded tells that it ended well; only after Done.
	Succeeded() bool
	// Stop asks the process to end, kills it after a grace, and waits until it is gone.
	Stop(grace time.Duration)
	// Address is that in the spec's network or, with OwnAddress, everywhere; "" for none.
	Address() string
}

// Left is a container of an earlier run.
type Left struct {
	Pod string
	Run int64
	// Adopt goes on with the container as if this run had started it: with its lines
	// after a mark, "" for all.
	Adopt func(s Spec, after string) Process
	// Remove ends it.
	Remove func()
}

// Grace is how long a pod has to end when it is asked to.
const Grace = 5 * time.Second

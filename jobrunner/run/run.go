// Package run defines how images run: the Spec of a worker or a pod, the Process that runs it, and its Log.
// Packages host and kubernetes start processes; packages worker and pod decide which.
package run

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

type Programs interface {
	// Program returns the program that runs an image. The error tells users why no executor here runs it.
	Program(image string) (Program, error)
}

// PodPrograms resolves the images of pods, and finds what an earlier run of the deployment left.
type PodPrograms interface {
	Programs
	// Orphans returns the containers that pods of the node with this data folder left.
	Orphans(ctx context.Context, folderID string) []Orphan
	// OrphanNetworks returns the names of the networks that clusters of that node left.
	OrphanNetworks(ctx context.Context, folderID string) []string
	// RemoveNetwork removes a cluster's network. It is a no-op if the network doesn't exist.
	RemoveNetwork(ctx context.Context, name string) error
}

// NoPrograms are the PodPrograms of a machine that runs no image.
type NoPrograms struct{}

func (NoPrograms) Program(image string) (Program, error) {
	return Program{}, fmt.Errorf("no executor on this machine runs the image %s", image)
}

func (NoPrograms) Orphans(context.Context, string) []Orphan        { return nil }
func (NoPrograms) OrphanNetworks(context.Context, string) []string { return nil }
func (NoPrograms) RemoveNetwork(context.Context, string) error     { return nil }

// Program runs an image. Either Handle or Start is set.
type Program struct {
	// Handle runs one job without the worker protocol, in this process or as a command.
	Handle Handler
	// Start starts a pod, or a worker that uses the worker protocol or, on a load-balancing endpoint,
	// serves HTTP at its PORT. It returns once the process runs; ctx bounds only the start.
	Start func(ctx context.Context, s Spec) (Process, error)
	// Check tells users why a worker can't be started with a spec. Nil accepts all.
	Check func(s Spec) error
	// Folder is the working folder that all processes share; "" if each has its own.
	Folder string
	// FollowsClock means that the program uses only the deployment's clock, which may then be
	// advanced while a job runs.
	FollowsClock bool
	// NeedsNoResources means that the program needs no GPU and no volume, whatever its endpoint has.
	NeedsNoResources bool
	// OwnAddress means that each process has its own address, at which its ports are reached, also by the
	// other members of its cluster. If false, its ports are reached at PublishIP.
	OwnAddress bool
	// Publish chooses the public port for a pod's port. Nil publishes none.
	Publish func(ctx context.Context, private int) (public int, err error)
	// Network creates or finds a cluster's network and returns its CIDR block. If nil, the
	// members share the machine's loopback or have an OwnAddress.
	Network func(ctx context.Context, n Network) (cidr string, err error)
}

// Spec has the parameters for the start of a worker or pod.
type Spec struct {
	ID              string // of the worker or pod
	Endpoint        string // of a worker, also for batches; "" for a pod
	store.Container        // Env includes the variables that the deployment sets
	PullAlways      bool   // otherwise the image is pulled if it's missing
	Login           *Login // for the image's registry; nil is anonymous
	Mounts          []Mount
	Devices         []gpu.Device // exclusive
	VCPUs           int64        // of its CPU flavor; 0 is unlimited
	Memory          int64        // of its CPU flavor, GB; 0 is unlimited
	Port            int          // where a worker behind a load balancer listens; otherwise 0
	Log             Output
	Pod             *Pod // nil for a worker
}

// FolderID is the id of the data folder whose next run adopts the process. If it is "", the process ends with
// this run.
func (s Spec) FolderID() string {
	if s.Pod == nil {
		return ""
	}
	return s.Pod.FolderID
}

// variableForm is the syntax of the name of a container's variable, as in Kubernetes' Secrets.
var variableForm = regexp.MustCompile(`^[-._A-Za-z][-._A-Za-z0-9]*$`)

// CheckVariables rejects a name of a variable that a container can't have.
func (s Spec) CheckVariables() error {
	for name := range s.Env {
		if !variableForm.MatchString(name) {
			return fmt.Errorf("invalid variable %q: expected a name of letters, digits, _, - and ., with no digit first", name)
		}
	}
	return nil
}

// DeviceUUIDs returns the UUIDs of the devices.
func (s Spec) DeviceUUIDs() (uuids []string) {
	for _, d := range s.Devices {
		uuids = append(uuids, d.UUID)
	}
	return uuids
}

// Pod is the part of a Spec that only pods have.
type Pod struct {
	Run      int64  // generation of the pod
	FolderID string // see Spec.FolderID
	Ports    []store.PodPort
	Network  string // private network shared with other pods; "" for none
	IP       string // address in Network; "" for any
	// AddressVariables maps variables to suffixes. A variable's value is the pod's own address, which is known
	// once the pod starts, followed by the suffix.
	AddressVariables map[string]string
}

// Login is a registry's user name and password.
type Login = store.Credentials

// DockerConfig returns a login in the format of Docker's config.json.
func DockerConfig(registry string, l Login) ([]byte, error) {
	type auth struct {
		Auth []byte `json:"auth"` // base64 in JSON
	}
	return json.Marshal(map[string]map[string]auth{"auths": {registry: {[]byte(l.Username + ":" + l.Password)}}})
}

// Mount is a volume. It is a folder of this machine, or storage that a Cluster keeps under Name.
type Mount struct {
	Dir, Path string // on this machine, and in the container
	Name      string // unique for each volume
	Size      int64  // GB
}

// Prefixes of Mount.Name.
const (
	NetworkVolumePrefix = "volume-"
	PodVolumePrefix     = "pod-"
)

// Process is a running worker or pod.
type Process interface {
	// Done is closed when the process has ended and nothing of it is left.
	Done() <-chan struct{}
	// Exit describes how the process ended. Call it after Done.
	Exit() Exit
	// Stop asks the process to end, kills it with its children after a grace period, and
	// waits until they are gone. It may be called again. A grace of 0 kills at once.
	Stop(grace time.Duration)
	// Address is its own address, or a container's in the pod's private network; "" is this machine's loopback.
	Address() string
	Usage() Usage
}

type Exit struct {
	Text    string // human-readable, such as "exit status 1"
	OK      bool   // the exit status was 0
	Restart bool   // the container engine restarted, which ended the process: a pod starts again, a job counts no retry
}

// Stopped is the Text of the Exit of a process that the jobrunner stopped.
const Stopped = procgroup.Stopped

// Usage is the resource usage of a process and its children.
type Usage = procgroup.Usage

// Orphan is a container that a pod left in an earlier run on the same data folder.
type Orphan struct {
	Pod string
	Run int64 // generation of the pod; -1 if it can't be adopted: it never ran, is being deleted, or ended with the machine
	// Adopt follows the container as if this run had started it. log receives its lines after mark, or all
	// lines if mark is "".
	Adopt  func(log Output, mark string) Process
	Remove func()
}

// Network is a private network of a cluster's containers.
type Network struct {
	Name, Cluster string // Cluster is the id of a cluster of pods
	FolderID      string // as in Pod
	CIDR          string // block that it had before; "" for any
}

// Handler runs one job and returns its output as JSON, or nil. ctx ends when the
// job is cancelled, times out or no longer exists, or when the worker has to stop.
type Handler func(ctx context.Context, job Job) (output []byte, err error)

type Job struct {
	ID      string
	Attempt int // 1 for the first
	Input   []byte
	Spec    *Spec // of the worker
	Clock   *clock.Clock
	// Chunk adds JSON to the job's stream.
	Chunk func(output []byte) error
}

// PublishIP is where a process without an address of its own publishes ports: only this machine reaches them.
const PublishIP = "127.0.0.1"

// InternalName returns the host name of a pod in the global network.
func InternalName(podID string) string { return podID + ".runpod.internal" }

// FreePort returns a free TCP port of the loopback interface, on which a program listens later.
// Until then no outgoing connection gets the port, because Linux, macOS and Windows give them higher ports.
func FreePort(ctx context.Context) (port int, err error) {
	for range 100 {
		port = 20000 + rand.IntN(10000) //nolint:gosec // a port isn't a secret
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// DockerRegistry is the registry of an image whose name has no registry.
const DockerRegistry = "docker.io"

// Registry returns the host of an image's registry.
func Registry(image string) string {
	first, _, hasSlash := strings.Cut(image, "/")
	if hasSlash && (strings.ContainsAny(first, ".:") || first == "localhost") && first != "index.docker.io" {
		return first
	}
	return DockerRegistry
}

// Cluster runs workers and pods as Pods of a Kubernetes cluster. Package kubernetes implements it. The
// interface keeps Kubernetes' client out of programs that run workers on their own machine only.
type Cluster interface {
	fmt.Stringer
	VolumeKeeper
	Start(ctx context.Context, s Spec) (Process, error)
	// Orphans returns what pods of the node with this data folder left.
	Orphans(ctx context.Context, folderID string) ([]Orphan, error)
	// RemoveRun removes what a killed run of the jobrunner left.
	RemoveRun(ctx context.Context, run string) (removed int, err error)
	Inventory(ctx context.Context) (gpu.Inventory, error)
	// Close ends the connection, and reports whether Pods are left, because they couldn't be removed.
	Close() (left bool)
}

// VolumeKeeper keeps volumes outside this machine's folders. Its methods ignore a volume that it doesn't keep.
type VolumeKeeper interface {
	ResizeVolume(ctx context.Context, name string, size int64) error
	RemoveVolume(ctx context.Context, name string) error
}

// ClusterConfig selects a Kubernetes cluster, and how its Pods are made.
type ClusterConfig struct {
	ClusterSettings
	Run    string // id of this run of the jobrunner
	Logger *slog.Logger
}

// ClusterSettings are the settings in a jobrunner.yaml.
type ClusterSettings struct {
	// Kubeconfig is the name of a file. "" is the first that exists of KUBECONFIG, the user's file, and the service
	// account of this process's Pod.
	Kubeconfig yamlfile.Text `yaml:"kubeconfig"`
	Context    yamlfile.Text `yaml:"context"`   // of the file; "" is its current context
	Namespace  yamlfile.Text `yaml:"namespace"` // "" is the context's namespace, otherwise this process's Pod's, otherwise default
	URL        yamlfile.Text `yaml:"url"`       // how Pods reach this jobrunner, without a path
	// GPULabel is the node label that names the GPU product. The default is the label of NVIDIA's feature discovery.
	GPULabel yamlfile.Text `yaml:"gpu_label"`
	// GPUTypes maps values of GPULabel to ids of the catalog, if they differ.
	GPUTypes     map[string]yamlfile.Text `yaml:"gpu_types"`
	Tolerations  []Toleration             `yaml:"tolerations"`   // of every Pod
	StorageClass yamlfile.Text            `yaml:"storage_class"` // of volumes; "" is the cluster's default
	VolumeAccess yamlfile.Text            `yaml:"volume_access"` // access mode of network volumes; "" is ReadWriteMany
	// Reserve says whether a node needs free CPU, memory and disk for a Pod. GPUs are always reserved.
	Reserve yamlfile.Text `yaml:"reserve"`
}

// Values of ClusterSettings.Reserve; "" is ReserveAll.
const (
	ReserveAll  = "all"
	ReserveNone = "none"
)

// Toleration is a Pod's toleration of taints.
type Toleration struct {
	Key      yamlfile.Text `yaml:"key"`
	Operator yamlfile.Text `yaml:"operator"`
	Value    yamlfile.Text `yaml:"value"`
	Effect   yamlfile.Text `yaml:"effect"`
}

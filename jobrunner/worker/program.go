package worker

import (
	"context"
	"io"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Programs say what images mean on this machine.
type Programs interface {
	// Program finds what runs an image. The error says, for people, why nothing
	// here does.
	Program(image string) (Program, error)
}

// Program is what an image means here. Of Handle and Start, one is set.
type Program struct {
	// Handle runs one job of a worker that the jobrunner itself feeds.
	Handle Handler
	// Start starts a process that takes its jobs over the worker protocol or, on
	// a load-balancing endpoint, serves HTTP at its PORT. It returns once the
	// process runs; ctx bounds the start alone.
	Start func(ctx context.Context, s Spec) (Process, error)
	// Port chooses where a load balancer's worker listens whose processes are Addressed;
	// nil: at a free port of this machine.
	Port func(c store.Container) int
	// Check says, for people, why a worker may not be started so; nil: every one
	// may.
	Check func(s Spec) error
	// Folder is where its processes work, which they share; "": each has its own.
	Folder string
	// FollowsClock says that all that it waits for goes by the deployment's
	// clock, which may then be advanced while it runs a job.
	FollowsClock bool
	// Bare says that it needs no GPU and no volume, whatever its endpoint asks for.
	Bare bool
}

// Spec is what a worker is started with.
type Spec struct {
	Endpoint, Worker string // ids
	store.Container         // Env has the worker protocol's variables too
	Login            *Login // to the image's registry; nil for none
	Mounts           []Mount
	Devices          []gpu.Device // its own while it lives
	VCPUs, Memory    int64        // of its CPU flavour, and GB; 0: it has none
	Port             int          // where a load balancer's worker is to listen; 0 for others
	Log              io.Writer    // takes what it writes to stdout and stderr, in any pieces
}

// Login is how to get at a private image.
type Login struct{ Username, Password string }

// Mount is a volume: a folder of this machine, to be seen at Path, or what an executor
// keeps elsewhere under a name.
type Mount struct {
	Dir, Path string
	Name      string // another one for each volume
	Size      int64  // GB
}

// The beginnings of the names of network volumes, and of the volumes of pods.
const (
	NetworkVolumeName = "volume-"
	PodVolumeName     = "pod-"
)

// Process is a worker that runs.
type Process interface {
	// Done is closed when the process has ended, by itself or killed.
	Done() <-chan struct{}
	// Exit says how it ended, for people; only after Done.
	Exit() string
	// Kill ends the process with all that it started, and waits until they are
	// gone. It may be called again.
	Kill()
	Usage() Usage
}

// Addressed is a process with an address of its own.
type Addressed interface {
	Process
	// Address is where its ports are reached; "": on this machine's loopback.
	Address() string
}

// Usage is what a worker has used.
type Usage struct {
	CPU    time.Duration // of all its processes, since its start
	Memory int64         // bytes resident now
}

// Handler runs one job and returns its output in JSON, nil for none, or an
// error: ErrCrashed where the worker died of it. ctx ends when the job is no
// longer this worker's: it was cancelled, its time is over, it is gone, or the
// worker is to stop.
type Handler func(ctx context.Context, job Job) (output []byte, err error)

// Job is a job for a handler.
type Job struct {
	engine.Taken
	Spec  *Spec        // of the worker
	Clock *clock.Clock // a handler that waits does so on it
	// Chunk passes on a part of the output, in JSON.
	Chunk func(output []byte) error
}

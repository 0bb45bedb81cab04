package api

// The neutral types have the shape of management API v2. v1.go maps them down
// and up, so that nothing above this package knows which version is spoken.
//
// A pointer field is nil where the version in use can't return it: the caller
// then keeps what it knows.

// Template is the container configuration of pods or serverless workers.
type Template struct {
	ID                  string
	Name                string // unique
	Image               string
	Args                string    // one string, shell-quoted
	Entrypoint          *[]string // v1 only
	Disk                int64     // GB
	Env                 map[string]string
	Ports               []string // "<port>/<http|tcp>"
	Registry            string   // id of a registry auth, "" for none
	Persistent          *PersistentMount
	Public              bool
	Serverless          bool
	Category            string
	Readme              *string   // v1 only
	StartSSH            *bool     // v2 only
	StartJupyter        *bool     // v2 only
	AllowedCUDAVersions *[]string // v2 only
}

// PersistentMount is host-local storage of a template.
type PersistentMount struct {
	Size int64 // GB
	Path string
}

// NetworkVolume is storage that outlives the pods and workers that mount it.
type NetworkVolume struct {
	ID         string
	Name       string // need not be unique
	Size       int64  // GB, may only grow
	DataCenter string
	Type       *string // storage tier, v2 only
}

// RegistryAuth is a credential for private images. The API never returns
// Username and Password.
type RegistryAuth struct {
	ID       string
	Name     string // unique
	Username string
	Password string
}

// Endpoint is a serverless endpoint.
type Endpoint struct {
	ID   string
	Name string
	Type string // QUEUE or LOAD_BALANCER; "" where the version does not return it (v1)

	// TemplateID is sent in both versions and returned by v1 only: v2 copies
	// the template's settings at create or update and keeps no link.
	TemplateID *string
	// Container is nil where the version can't return it (v1). Beside a
	// TemplateID it overrides the template, and an update sends it only
	// together with the template: when that is another, or ApplyTemplate is
	// set.
	Container *Container
	// Env is what API v1 alone returns of the workers' container; nil for none. It
	// is never sent.
	Env map[string]string
	// ApplyTemplate makes an update send TemplateID and Container although
	// they are equal: the template's settings changed since they were copied.
	ApplyTemplate bool

	GPU            *GPU  // nil: none asked for, or a CPU endpoint
	CPU            []CPU // nil where the answer leaves it out
	Workers        Workers
	Scaling        Scaling
	DataCenterIDs  []string // nil: the scheduler chooses
	NetworkVolumes []string
	Timeout        int64       // ms, 0: never set
	FlashBoot      *string     // OFF, FLASHBOOT or PRIORITY_FLASHBOOT (v2 only)
	CreatedAt      string      // RFC 3339
	RequestURLs    RequestURLs // empty where the version returns none
}

// Container holds the settings that an endpoint has of its own or copied
// from its template. On create and update a nil field is not sent.
type Container struct {
	Image    *string
	Args     *string
	Disk     *int64
	Env      map[string]string
	Ports    *[]string
	Registry *string
}

// GPU is the GPU selection of an endpoint. v1 speaks TypeIDs in priority
// order, v2 Pools minus ExcludedTypes.
//
// In an update of an endpoint that follows a template, nil AllowedCUDAVersions
// leave those that the template gave; an empty list clears them.
type GPU struct {
	Pools               []string
	ExcludedTypes       []string
	TypeIDs             []string
	Count               int64
	AllowedCUDAVersions []string
	MinCUDAVersion      string
}

// CPU is one eligible CPU configuration of a worker.
type CPU struct {
	ID        string
	VCPUCount int64
}

// Workers bounds the autoscaler. IdleTimeout is nil where it does not apply.
type Workers struct {
	Min, Max    int64
	IdleTimeout *int64 // seconds
}

// Scaling is the autoscaling signal: QUEUE_DELAY with QueueDelay in seconds,
// or REQUEST_COUNT with RequestCount.
type Scaling struct {
	Type         string
	QueueDelay   float64
	RequestCount int64
}

// RequestURLs are the addresses of an endpoint's job API; Base and Health
// alone are set for a load-balancing endpoint.
type RequestURLs struct {
	Base, Run, RunSync, Status, Stream, Cancel, Retry, PurgeQueue, Health string
}

// GPUType is an entry of the catalog.
type GPUType struct {
	ID     string
	Name   string
	Pool   string // "" when in no serverless pool
	Memory int64  // GB
}

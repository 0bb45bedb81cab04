package api

// The neutral types have the shape and the member names of management API v2. v1.go converts
// them, so that other packages don't depend on the version.
//
// The server chooses members that a create omits. The contract has the value with which an
// update clears a member. A field with the JSON name "-" isn't a member of v2.
//
// A pointer field is nil if the version can't return it. The caller then keeps its own value.

// Template is the container configuration of pods or serverless workers.
type Template struct {
	ID    string `json:"id,omitempty"`
	Name  string `json:"name"` // unique
	Image string `json:"image,omitempty"`
	Command
	Disk                int64             `json:"disk,omitempty"` // GB
	Env                 map[string]string `json:"env,omitempty"`
	Ports               []string          `json:"ports,omitempty"`    // "<port>/<http|tcp>"
	Registry            string            `json:"registry,omitempty"` // id of a registry auth; "" for none
	Mounts              TemplateMounts    `json:"mounts,omitzero"`
	Public              bool              `json:"public"`
	Serverless          bool              `json:"serverless"`
	Category            string            `json:"category,omitempty"`
	Readme              *string           `json:"-"`                             // v1 only
	StartSSH            *bool             `json:"startSsh,omitempty"`            // v2 only
	StartJupyter        *bool             `json:"startJupyter,omitempty"`        // v2 only
	AllowedCUDAVersions *[]string         `json:"allowedCudaVersions,omitempty"` // v2 only
}

// TemplateMounts is the storage that a template mounts.
type TemplateMounts struct {
	Persistent *PersistentMount `json:"persistent,omitempty"`
}

// PersistentMount is host-local storage of a template.
type PersistentMount struct {
	Size int64  `json:"size" tfsdk:"size"` // GB
	Path string `json:"path" tfsdk:"path"`
}

// NetworkVolume is storage that outlives the pods and workers that mount it.
type NetworkVolume struct {
	ID         string  `json:"id,omitempty"`
	Name       string  `json:"name"` // need not be unique
	Size       int64   `json:"size"` // GB; can only grow
	DataCenter string  `json:"dataCenter"`
	Type       *string `json:"type,omitempty"` // storage tier, v2 only
}

// RegistryAuth is a credential for private images. The API never returns
// Username and Password.
type RegistryAuth struct {
	ID       string `json:"id,omitempty"`
	Name     string `json:"name"` // unique
	Username string `json:"username"`
	Password string `json:"password"`
}

// Endpoint is a serverless endpoint.
type Endpoint struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	Type string `json:"type,omitempty"` // QUEUE or LOAD_BALANCER; "" if the version doesn't return it (v1)

	// TemplateID is sent in both versions and returned only by v1: v2 copies the template's
	// settings at create or update and stores no link.
	TemplateID *string `json:"templateId,omitempty"`
	// Container is nil if the version can't return it (v1). In v2 its members are inlined in
	// the endpoint. If TemplateID is set, Container overrides the template, and an update sends
	// it with the template if the template changes or ApplyTemplate is set.
	Container *Container `json:"-"`
	// WorkerEnv is the only part of the container that v1 returns; nil for none. It is never
	// sent.
	WorkerEnv map[string]string `json:"-"`
	// ApplyTemplate makes an update send TemplateID and Container even if they are equal,
	// because the template's settings have changed since they were copied.
	ApplyTemplate bool `json:"-"`

	GPU            *GPU        `json:"gpu,omitempty"` // nil: not requested, or a CPU endpoint
	CPU            []CPU       `json:"cpu,omitempty"` // nil if the answer omits it
	Workers        Workers     `json:"workers"`
	Scaling        Scaling     `json:"scaling,omitzero"`
	DataCenterIDs  []string    `json:"dataCenterIds,omitempty"` // nil: the scheduler chooses
	NetworkVolumes []string    `json:"networkVolumes,omitempty"`
	Timeout        int64       `json:"timeout,omitempty"`    // milliseconds; 0: not set
	FlashBoot      *string     `json:"flashboot,omitempty"`  // OFF, FLASHBOOT or PRIORITY_FLASHBOOT (v2 only)
	CreatedAt      string      `json:"createdAt,omitempty"`  // RFC 3339
	RequestURLs    RequestURLs `json:"requestUrls,omitzero"` // empty if the version returns none
}

// Container holds the settings of an endpoint's container, its own or copied from its template.
// Creates and updates omit nil fields. An empty field overrides the template's.
type Container struct {
	Image *string `json:"image,omitempty"`
	Command
	Disk     *int64            `json:"disk,omitempty"`
	Env      map[string]string `json:"env,omitzero"`
	Ports    *[]string         `json:"ports,omitempty"`
	Registry *string           `json:"registry,omitempty"`
}

// GPU is the GPU selection of an endpoint. v1 uses TypeIDs in order of priority; v2 uses Pools
// minus ExcludedTypes.
//
// In an update of an endpoint that follows a template, nil AllowedCUDAVersions keep the
// template's; an empty list clears them.
type GPU struct {
	Pools               []string `json:"pools,omitempty"`
	ExcludedTypes       []string `json:"excludedTypes,omitempty"`
	TypeIDs             []string `json:"-"`
	Count               int64    `json:"count,omitempty"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions,omitempty"`
	MinCUDAVersion      string   `json:"minCudaVersion,omitempty"`
}

// CPU is a CPU configuration that a worker may get.
type CPU struct {
	ID        string `json:"id" tfsdk:"id"`
	VCPUCount int64  `json:"vcpuCount" tfsdk:"vcpu_count"`
}

// Workers limits the autoscaler. IdleTimeout is nil if it doesn't apply.
type Workers struct {
	Min         int64  `json:"min"`
	Max         int64  `json:"max"`
	IdleTimeout *int64 `json:"idleTimeout,omitempty"` // seconds
}

// Scaling is the autoscaling signal: QUEUE_DELAY with QueueDelay in seconds,
// or REQUEST_COUNT with RequestCount.
type Scaling struct {
	Type         string  `json:"type"`
	QueueDelay   float64 `json:"queueDelay,omitempty"`
	RequestCount int64   `json:"requestCount,omitempty"`
}

// RequestURLs are the URLs of an endpoint's job API. A load-balancing endpoint has only Base
// and Health.
type RequestURLs struct {
	Base       string `json:"base,omitempty"`
	Run        string `json:"run,omitempty"`
	RunSync    string `json:"runSync,omitempty"`
	Status     string `json:"status,omitempty"`
	Stream     string `json:"stream,omitempty"`
	Cancel     string `json:"cancel,omitempty"`
	Retry      string `json:"retry,omitempty"`
	PurgeQueue string `json:"purgeQueue,omitempty"`
	Health     string `json:"health,omitempty"`
}

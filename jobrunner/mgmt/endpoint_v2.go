package mgmt

import (
	"maps"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// endpointV2 is an endpoint in an answer.
type endpointV2 struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"`
	containerV2
	GPU            *gpuV2        `json:"gpu,omitempty"` // absent for a CPU endpoint, any compute, or types outside all pools
	CPU            []cpuV2       `json:"cpu,omitempty"`
	Workers        workersV2     `json:"workers"`
	Scaling        scalingV2     `json:"scaling"`
	DataCenterIDs  []string      `json:"dataCenterIds"`
	NetworkVolumes []string      `json:"networkVolumes"`
	Timeout        int64         `json:"timeout"` // ms
	FlashBoot      string        `json:"flashboot"`
	Created        string        `json:"createdAt"`
	RequestURLs    requestURLsV2 `json:"requestUrls"`
}

type gpuV2 struct {
	Pools               []string `json:"pools"`
	ExcludedTypes       []string `json:"excludedTypes"`
	Count               int64    `json:"count"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions"`
	MinCUDAVersion      *string  `json:"minCudaVersion"` // null if there is no minimum
}

type cpuV2 struct {
	ID        string `json:"id"`
	VCPUCount int64  `json:"vcpuCount"`
	Memory    int64  `json:"memory"` // GB
}

type workersV2 struct {
	Min         int64  `json:"min"`
	Max         int64  `json:"max"`
	IdleTimeout *int64 `json:"idleTimeout,omitempty"` // s; absent if it doesn't apply
}

// requestURLsV2 are the URLs of an endpoint's job API, or of its load balancer.
type requestURLsV2 struct {
	Base       string `json:"base,omitempty"`
	Run        string `json:"run,omitempty"`
	RunSync    string `json:"runSync,omitempty"`
	Status     string `json:"status,omitempty"`
	Stream     string `json:"stream,omitempty"`
	Cancel     string `json:"cancel,omitempty"`
	Retry      string `json:"retry,omitempty"`
	PurgeQueue string `json:"purgeQueue,omitempty"`
	Health     string `json:"health"`
}

func (c *call) newEndpointV2(e store.Endpoint) endpointV2 {
	offered := c.Catalog.Now()
	var w endpointV2
	copyFields(&w, e)
	w.containerV2, w.Scaling, w.RequestURLs = newContainerV2(e.Container), newScalingV2(e.Scaling), requestURLs(c.queueURL(), e)
	w.Workers = workersV2{Min: e.WorkersMin, Max: e.WorkersMax}
	if !withoutIdleTimeout(e) {
		w.Workers.IdleTimeout = &e.IdleTimeout
	}
	if e.GPU != nil {
		if pools, excluded := selectedPools(offered, *e.GPU); len(pools) > 0 {
			w.GPU = &gpuV2{pools, excluded, e.GPU.Count, nonNilList(e.GPU.AllowedCUDAVersions), nilIfEmpty(e.GPU.MinCUDAVersion)}
		}
	}
	for _, cpu := range e.CPU {
		w.CPU = append(w.CPU, cpuV2{cpu.FlavorID, cpu.VCPUCount, offered.CPUMemory(cpu.FlavorID, cpu.VCPUCount)})
	}
	return w
}

// queueURL returns the base URL of the job API, by default that of this call.
func (c *call) queueURL() string {
	if c.QueueURL != "" {
		return c.QueueURL
	}
	scheme := "http"
	if c.http.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + c.http.Host
}

func requestURLs(queueURL string, e store.Endpoint) requestURLsV2 {
	base := queueURL + "/v2/" + e.ID
	if e.Type == store.LoadBalancer {
		path := e.Env["HEALTH_CHECK_PATH"]
		if path == "" {
			path = "/ping"
		}
		return requestURLsV2{Base: base, Health: base + "/" + strings.TrimPrefix(path, "/")}
	}
	return requestURLsV2{
		Run:        base + "/run",
		RunSync:    base + "/runsync",
		Status:     base + "/status/{job_id}",
		Stream:     base + "/stream/{job_id}",
		Cancel:     base + "/cancel/{job_id}",
		Retry:      base + "/retry/{job_id}",
		PurgeQueue: base + "/purge-queue",
		Health:     base + "/health",
	}
}

// endpointBody is the body of a create or an update of either version.
type endpointBody interface {
	apply(tx *store.Tx, e *store.Endpoint) error
}

// createEndpoint creates an endpoint of the defaults and a body.
func createEndpoint[B endpointBody](defaults func() store.Endpoint) func(*call, B) (store.Endpoint, error) {
	return func(c *call, body B) (store.Endpoint, error) {
		return c.store.CreateEndpoint(c.ctx(), func(tx *store.Tx) (store.Endpoint, error) {
			e := defaults()
			err := body.apply(tx, &e)
			return e, err
		})
	}
}

func updateEndpoint[B endpointBody](c *call, body B) (store.Endpoint, error) {
	return c.store.UpdateEndpoint(c.ctx(), c.id, body.apply)
}

// mergedEnv returns a template's env, overridden by the body's.
func mergedEnv(template map[string]string, body *map[string]string) map[string]string {
	env := maps.Clone(nonNilMap(template))
	if body != nil {
		maps.Copy(env, *body)
	}
	return env
}

package mgmt

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func (c *call) newEndpointV2(e store.Endpoint) endpointV2 {
	cat := c.Catalog.Current()
	var w endpointV2
	copyFields(&w, e)
	w.containerV2, w.Scaling, w.RequestURLs = newContainerV2(e.Container), newScalingV2(e.Scaling), requestURLs(c.serverURL(), e)
	w.Workers = workersV2{Min: e.WorkersMin, Max: e.WorkersMax}
	if hasIdleTimeout(e) {
		w.Workers.IdleTimeout = &e.IdleTimeout
	}
	if e.GPU != nil {
		if pools, excluded := selectedPools(cat, *e.GPU); len(pools) > 0 {
			w.GPU = &gpuV2{pools, excluded, e.GPU.Count, nonNilList(e.GPU.AllowedCUDAVersions), nilIfEmpty(e.GPU.MinCUDAVersion)}
		}
	}
	for _, cpu := range e.CPU {
		w.CPU = append(w.CPU, cpuV2{cpu.FlavorID, cpu.VCPUCount, cat.CPUMemory(cpu.FlavorID, cpu.VCPUCount)})
	}
	return w
}

// serverURL returns the base URL, before /v2, that the caller used.
func (c *call) serverURL() string {
	scheme := "http"
	if httpanswer.UsesTLS(c.http) {
		scheme = "https"
	}
	return scheme + "://" + c.http.Host
}

func requestURLs(serverURL string, e store.Endpoint) requestURLsV2 {
	base := serverURL + "/v2/" + e.ID
	if e.Type == store.LoadBalancer {
		path := cmp.Or(e.Env["HEALTH_CHECK_PATH"], "/ping")
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

func createEndpoint[B endpointBody](defaults func() store.Endpoint) func(*call, B) (store.Endpoint, error) {
	return func(c *call, body B) (store.Endpoint, error) {
		return store.Build(c.ctx(), c.Store, func(tx *store.Tx) (store.Endpoint, error) {
			e := defaults()
			err := body.apply(tx, &e)
			return e, err
		})
	}
}

func updateEndpoint[B endpointBody](c *call, body B) (store.Endpoint, error) {
	return c.Store.UpdateEndpoint(c.ctx(), c.id, body.apply)
}

// mergedEnv returns a template's env, overridden by the body's.
func mergedEnv(template map[string]string, body *map[string]string) *map[string]string {
	env := map[string]string{}
	maps.Copy(env, template)
	if body != nil {
		maps.Copy(env, *body)
	}
	return &env
}

func newScalingV2(s store.Scaling) scalingV2 {
	if s.Type == store.RequestCount {
		return scalingV2{Type: s.Type, RequestCount: new(ceil(s.Value))}
	}
	return scalingV2{Type: s.Type, QueueDelay: &s.Value}
}

func (w *scalingV2) toRecord() store.Scaling {
	if w.Type == store.RequestCount {
		return store.Scaling{Type: w.Type, Value: float64(*w.RequestCount)}
	}
	return store.Scaling{Type: w.Type, Value: *w.QueueDelay}
}

// apply changes e, which is either a new endpoint with the defaults or an existing one.
func (b endpointBodyV2) apply(tx *store.Tx, e *store.Endpoint) error {
	isNew := e.ID == ""
	copyFields(e, b)
	cudaVersions, err := b.applyContainer(tx, e)
	if err != nil {
		return err
	}
	if err := b.applyCompute(tx.Catalog(), e, isNew, cudaVersions); err != nil {
		return err
	}
	if b.Workers != nil {
		copyFields(e, *b.Workers)
	}
	if b.Scaling != nil {
		e.Scaling = b.Scaling.toRecord()
	}
	return b.checkScaling(*e)
}

// applyContainer copies the template, whose later changes don't affect the endpoint. The body's members override the template's; env is merged.
// An endpoint whose container is set here no longer follows a template.
func (b endpointBodyV2) applyContainer(tx *store.Tx, e *store.Endpoint) (cudaVersions []string, err error) {
	if b.FromTemplate != nil {
		t, err := tx.Template(*b.FromTemplate)
		if err != nil {
			return nil, err
		}
		if !t.Serverless {
			return nil, validationError("$.templateId: template '" + t.ID + "' is not a serverless template")
		}
		e.Copy(t)
		b.Env, cudaVersions = mergedEnv(t.Env, b.Env), t.AllowedCUDAVersions
	}
	if b.containerBodyV2 != (containerBodyV2{}) {
		e.TemplateID = ""
		err = b.containerBodyV2.apply(&e.Container)
	}
	return cudaVersions, err
}

// applyCompute sets GPUs or CPUs. The kind of workers (GPU, CPU or any) is fixed at creation.
func (b endpointBodyV2) applyCompute(cat *catalog.Catalog, e *store.Endpoint, isNew bool, cudaVersions []string) error {
	if b.GPU != nil && b.CPU != nil {
		return store.Refusal("gpu and cpu exclude each other: an endpoint has GPU workers or CPU workers")
	}
	switch {
	case b.GPU != nil && isNew:
		e.GPU = &store.GPU{Count: defaultGPUCount}
		if b.GPU.AllowedCUDAVersions == nil && b.GPU.MinCUDAVersion == nil {
			e.GPU.AllowedCUDAVersions = cudaVersions
		}
	case b.GPU != nil && e.GPU == nil:
		return store.Refusal("the endpoint has no GPU workers, and the kind of its workers is fixed: gpu can't be set")
	case b.CPU != nil && !isNew && len(e.CPU) == 0:
		return store.Refusal("the endpoint has no CPU workers, and the kind of its workers is fixed: cpu can't be set")
	}
	if b.GPU != nil {
		choosePools(cat, e.GPU, b.GPU.Pools, b.GPU.ExcludedTypes)
		setIfPresent(&e.GPU.Count, b.GPU.Count)
		setIfPresent(&e.GPU.AllowedCUDAVersions, b.GPU.AllowedCUDAVersions)
		setIfPresent(&e.GPU.MinCUDAVersion, b.GPU.MinCUDAVersion)
	}
	if b.CPU != nil {
		e.CPU = convertAll(*b.CPU, func(c cpuBodyV2) store.CPU { return store.CPU{FlavorID: c.ID, VCPUCount: c.VCPUCount} })
	}
	return nil
}

func (b endpointBodyV2) checkScaling(e store.Endpoint) error {
	if e.Type == store.LoadBalancer && e.Scaling.Type != store.RequestCount {
		return validationError("$.scaling: a LOAD_BALANCER endpoint scales on REQUEST_COUNT, got " + e.Scaling.Type)
	}
	if b.Workers != nil && b.Workers.IdleTimeout != nil && !hasIdleTimeout(e) {
		return validationError("$.workers.idleTimeout: not allowed for a QUEUE endpoint that scales on REQUEST_COUNT")
	}
	return nil
}

func hasIdleTimeout(e store.Endpoint) bool {
	return e.Type != store.Queue || e.Scaling.Type != store.RequestCount
}

// Version 1 selects GPUs by types in order of priority, version 2 by pools minus excluded types. The
// store keeps the selection as sent, and the catalog converts it for the other version.

// selectedPools returns the selection in the form of version 2; any GPU means all pools. It returns no
// pools for types outside all pools, which version 2 can't express.
func selectedPools(cat *catalog.Catalog, g store.GPU) (pools, excluded []string) {
	switch {
	case len(g.Pools) > 0:
		return g.Pools, nonNilList(g.ExcludedTypes)
	case len(g.TypeIDs) > 0:
		return cat.SelectPools(g.TypeIDs)
	}
	return convertAll(cat.Pools, func(p catalog.Pool) string { return p.ID }), []string{}
}

// choosePools sets a selection of version 2. Pools without exclusions clear the old exclusions. If the
// record has types that select the same GPUs, the types stay, because of their order.
func choosePools(cat *catalog.Catalog, g *store.GPU, newPools, newExcluded *[]string) {
	if newPools == nil {
		return
	}
	pools, excluded := *newPools, []string{}
	if newExcluded != nil {
		for _, id := range *newExcluded {
			if id = strings.TrimSpace(id); !slices.Contains(excluded, id) {
				excluded = append(excluded, id)
			}
		}
	}
	if len(g.TypeIDs) > 0 && !slices.ContainsFunc(g.TypeIDs, func(id string) bool { return cat.PoolOf(id) == "" }) {
		samePools, sameExcluded := cat.SelectPools(g.TypeIDs)
		if sameElements(pools, samePools) && sameElements(excluded, sameExcluded) {
			return
		}
	}
	g.Pools, g.ExcludedTypes, g.TypeIDs = pools, excluded, nil
}

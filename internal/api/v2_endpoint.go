package api

import (
	"encoding/json"
	"maps"
)

func endpointsV2(t *transport, s *shelf) Collection[Endpoint] {
	return &rest[Endpoint, endpointV2]{
		transport: t, shelf: s, kind: "endpoint", path: "/v2/serverless", member: "endpoints",
		full:       []string{"name", "type", "workers", "scaling", "dataCenterIds", "networkVolumes", "timeout", "flashboot"},
		id:         func(e Endpoint) string { return e.ID },
		name:       func(e Endpoint) string { return e.Name },
		secret:     secretOfEndpoint,
		fixed:      fixedOfEndpoint,
		comparable: comparableEndpoints,
		neutral:    endpointV2.neutral,
		create: func(want Endpoint) (endpointV2, error) {
			w := newEndpointV2(want, false)
			w.Type = filled(want.Type, false) // fixed from then on
			w.TemplateID = want.TemplateID
			w.containerV2 = newContainerV2(want.Container)
			return w, nil
		},
		update: endpointPatchV2,
	}
}

type endpointV2 struct {
	ID         *string `json:"id,omitempty"`
	Name       *string `json:"name,omitempty"`
	Type       *string `json:"type,omitempty"`
	TemplateID *string `json:"templateId,omitempty"` // of requests only
	containerV2
	GPU            *gpuV2         `json:"gpu,omitempty"`
	CPU            []cpuV2        `json:"cpu,omitempty"`
	Workers        *workersV2     `json:"workers,omitempty"`
	Scaling        *scalingV2     `json:"scaling,omitempty"`
	DataCenterIDs  *[]string      `json:"dataCenterIds,omitempty"`
	NetworkVolumes *[]string      `json:"networkVolumes,omitempty"`
	Timeout        *int64         `json:"timeout,omitempty"` // ms
	FlashBoot      *string        `json:"flashboot,omitempty"`
	CreatedAt      *string        `json:"createdAt,omitempty"`
	RequestURLs    *requestURLsV2 `json:"requestUrls,omitempty"`
}

type gpuV2 struct {
	Pools               *[]string `json:"pools,omitempty"`
	ExcludedTypes       *[]string `json:"excludedTypes,omitempty"`
	Count               *int64    `json:"count,omitempty"`
	AllowedCUDAVersions *[]string `json:"allowedCudaVersions,omitempty"`
	MinCUDAVersion      *string   `json:"minCudaVersion,omitempty"`
}

type cpuV2 struct {
	ID        string `json:"id"`
	VCPUCount int64  `json:"vcpuCount"`
}

type workersV2 struct {
	Min         int64  `json:"min"`
	Max         int64  `json:"max"`
	IdleTimeout *int64 `json:"idleTimeout,omitempty"` // s
}

type scalingV2 struct {
	Type         string   `json:"type"`
	QueueDelay   *float64 `json:"queueDelay,omitempty"` // s
	RequestCount *int64   `json:"requestCount,omitempty"`
}

type requestURLsV2 struct {
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

// newEndpointV2 makes the part of a request body that does not depend on the
// template. An update says what is empty, which clears it.
func newEndpointV2(e Endpoint, update bool) endpointV2 {
	w := endpointV2{
		Name:           &e.Name,
		GPU:            newGPUV2(e.GPU, update),
		Workers:        &workersV2{Min: e.Workers.Min, Max: e.Workers.Max, IdleTimeout: e.Workers.IdleTimeout},
		Scaling:        newScalingV2(e.Scaling),
		DataCenterIDs:  filledList(e.DataCenterIDs, update),
		NetworkVolumes: filledList(e.NetworkVolumes, update),
		Timeout:        filled(e.Timeout, update),
		FlashBoot:      e.FlashBoot,
	}
	for _, cpu := range e.CPU {
		w.CPU = append(w.CPU, cpuV2(cpu))
	}
	return w
}

// newContainerV2 says every setting that is not nil: with a template, an empty
// one overrides the template's.
func newContainerV2(c *Container) containerV2 {
	if c == nil {
		return containerV2{}
	}
	w := containerV2{Image: c.Image, Args: c.Args, Disk: c.Disk}
	if c.Env != nil {
		w.Env = filledMap(c.Env, true)
	}
	if c.Ports != nil {
		w.Ports = filledList(*c.Ports, true)
	}
	if c.Registry != nil {
		w.Registry = new(reference(*c.Registry))
	}
	return w
}

func newGPUV2(g *GPU, update bool) *gpuV2 {
	if g == nil {
		return nil
	}
	return &gpuV2{
		Pools:               filledList(g.Pools, update),
		ExcludedTypes:       filledList(g.ExcludedTypes, update),
		Count:               filled(g.Count, false),
		AllowedCUDAVersions: filledList(g.AllowedCUDAVersions, update),
		MinCUDAVersion:      filled(g.MinCUDAVersion, update),
	}
}

func newScalingV2(s Scaling) *scalingV2 {
	switch s.Type {
	case "":
		return nil
	case "REQUEST_COUNT":
		return &scalingV2{Type: s.Type, RequestCount: &s.RequestCount}
	}
	return &scalingV2{Type: s.Type, QueueDelay: &s.QueueDelay}
}

// endpointPatchV2 makes the body of an update. Applying a template takes over
// all its settings, so that the endpoint's own are said again with it. An
// endpoint that follows a template which is not applied keeps its settings.
func endpointPatchV2(have, want Endpoint) (patch, error) {
	says := want.GPU != nil && want.GPU.AllowedCUDAVersions != nil
	want = aligned(have, want)
	p, err := changed(newEndpointV2(have, true), newEndpointV2(want, true))
	if err != nil {
		return nil, err
	}
	apply := want.TemplateID != nil && (want.ApplyTemplate || value(have.TemplateID) != *want.TemplateID)
	var settings patch
	switch {
	case apply:
		settings, err = members(endpointV2{TemplateID: want.TemplateID, containerV2: newContainerV2(want.Container)})
	case want.TemplateID == nil:
		settings, err = changed(newContainerV2(have.Container), newContainerV2(want.Container))
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(p, settings)
	return p, patchGPUV2(p, have.GPU, want.GPU, apply && says)
}

// patchGPUV2 narrows the change of gpu to what differs in it. Pools and
// exclusions are one selection and always stand together. Applying a template
// does not set its CUDA versions, so that sayCUDA has them said.
func patchGPUV2(p patch, have, want *GPU, sayCUDA bool) error {
	if _, differs := p["gpu"]; !differs && !sayCUDA {
		return nil
	}
	var before any = struct{}{}
	if have != nil {
		before = newGPUV2(have, true)
	}
	after := newGPUV2(want, true)
	gpu, err := changed(before, after)
	if err != nil {
		return err
	}
	always := gpuV2{Pools: after.Pools, ExcludedTypes: after.ExcludedTypes}
	if sayCUDA {
		always.AllowedCUDAVersions = after.AllowedCUDAVersions
	}
	said, err := members(always)
	if err != nil {
		return err
	}
	maps.Copy(gpu, said)
	p["gpu"], err = json.Marshal(gpu)
	return err
}

func (w endpointV2) neutral() Endpoint {
	e := Endpoint{
		ID:             value(w.ID),
		Name:           value(w.Name),
		Type:           value(w.Type),
		TemplateID:     w.TemplateID,
		Container:      w.container(),
		GPU:            w.GPU.neutral(),
		Scaling:        w.Scaling.neutral(),
		DataCenterIDs:  value(w.DataCenterIDs),
		NetworkVolumes: value(w.NetworkVolumes),
		Timeout:        value(w.Timeout),
		FlashBoot:      w.FlashBoot,
		CreatedAt:      value(w.CreatedAt),
		RequestURLs:    RequestURLs(value(w.RequestURLs)),
	}
	for _, cpu := range w.CPU {
		e.CPU = append(e.CPU, CPU(cpu))
	}
	if w.Workers != nil {
		e.Workers = Workers{Min: w.Workers.Min, Max: w.Workers.Max, IdleTimeout: w.Workers.IdleTimeout}
	}
	return e
}

// container reads the settings. Absent and null mean empty, except for what
// every container has: a deployment that leaves it out does not return it.
func (w containerV2) container() *Container {
	c := &Container{
		Image:    w.Image,
		Args:     new(value(w.Args)),
		Disk:     w.Disk,
		Env:      value(w.Env),
		Ports:    new(value(w.Ports)),
		Registry: new(string(value(w.Registry))),
	}
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	return c
}

func (w *gpuV2) neutral() *GPU {
	if w == nil {
		return nil
	}
	return &GPU{
		Pools:               value(w.Pools),
		ExcludedTypes:       value(w.ExcludedTypes),
		Count:               value(w.Count),
		AllowedCUDAVersions: value(w.AllowedCUDAVersions),
		MinCUDAVersion:      value(w.MinCUDAVersion),
	}
}

func (w *scalingV2) neutral() Scaling {
	if w == nil {
		return Scaling{}
	}
	return Scaling{Type: w.Type, QueueDelay: value(w.QueueDelay), RequestCount: value(w.RequestCount)}
}

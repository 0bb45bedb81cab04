package api

import (
	"encoding/json"
	"maps"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

func endpointsV2(d *deployment, cache *listCache) Collection[Endpoint] {
	r := endpoints(d, cache)
	r.path, r.member = "/v2/serverless", "endpoints"
	r.required = []string{"name", "type", "workers", "scaling", "dataCenterIds", "networkVolumes", "timeout", "flashboot"}
	r.decode = decodeAs(endpointV2.neutral)
	r.create = func(want Endpoint) (any, error) {
		w := newEndpointV2(want)
		w.Type, w.TemplateID = want.Type, want.TemplateID
		body, err := members(w)
		if err != nil {
			return nil, err
		}
		settings, err := containerV2(want.Container)
		maps.Copy(body, settings)
		return body, err
	}
	r.update = endpointPatchV2
	return r
}

// endpointV2 inlines the container's members.
type endpointV2 struct {
	Endpoint
	Container
}

// newEndpointV2 makes the updatable part of a request body that doesn't depend on the template.
func newEndpointV2(e Endpoint) Endpoint {
	e.ID, e.Type, e.TemplateID, e.CreatedAt, e.RequestURLs = "", "", nil, "", RequestURLs{}
	e.Scaling = e.Scaling.ofType()
	return e
}

// ofType returns only the value that belongs to the type.
func (s Scaling) ofType() Scaling {
	switch s.Type {
	case "":
		return Scaling{}
	case "REQUEST_COUNT":
		s.QueueDelay = 0
	default:
		s.RequestCount = 0
	}
	return s
}

// containerV2 returns the container's members for a request body.
func containerV2(c *Container) (patch, error) {
	p, err := members(c)
	if c == nil {
		return p, err
	}
	for name, list := range map[string]*[]string{"ports": c.Ports, "entrypoint": c.Entrypoint, "cmd": c.Cmd} {
		if list != nil && len(*list) == 0 {
			p[name] = json.RawMessage("[]")
		}
	}
	if c.Registry != nil && *c.Registry == "" {
		p["registry"] = json.RawMessage("null")
	}
	return p, err
}

// endpointPatchV2 makes the body of an update. Applying a template overwrites all settings, so
// the endpoint's own are sent with it. If the template isn't applied, the endpoint keeps its
// settings.
func endpointPatchV2(have, want Endpoint) (patch, error) {
	setsCUDA := want.GPU != nil && want.GPU.AllowedCUDAVersions != nil
	want = aligned(have, want)
	p, err := changedMembers(clearingValues(contract.V2, "endpoint"), new(newEndpointV2(have)), newEndpointV2(want))
	if err != nil {
		return nil, err
	}
	apply := want.TemplateID != nil && (want.ApplyTemplate || deref(have.TemplateID) != *want.TemplateID)
	switch {
	case apply:
		settings, err := containerV2(want.Container)
		if err != nil {
			return nil, err
		}
		maps.Copy(p, settings)
		if p["templateId"], err = json.Marshal(*want.TemplateID); err != nil {
			return nil, err
		}
	case want.TemplateID == nil:
		have.Container, want.Container = withChangedCommand(have.Container, want.Container)
		before, err := containerV2(have.Container)
		if err != nil {
			return nil, err
		}
		after, err := containerV2(want.Container)
		if err != nil {
			return nil, err
		}
		maps.Copy(p, after.without(before))
	}
	return p, patchGPUV2(p, have.GPU, want.GPU, apply && setsCUDA)
}

// patchGPUV2 reduces a change of gpu to its differences. Pools and exclusions are one selection
// and are sent together. Applying a template doesn't set its CUDA versions: withCUDA sends
// them.
func patchGPUV2(p patch, have, want *GPU, withCUDA bool) error {
	if _, differs := p["gpu"]; !differs && !withCUDA {
		return nil
	}
	cleared := contract.Body{API: contract.V2, Resource: "endpoint", Use: contract.Update}.Clearing("gpu.")
	gpu, err := changedMembers(cleared, have, *want)
	if err != nil {
		return err
	}
	all, err := changedMembers(cleared, nil, *want)
	if err != nil {
		return err
	}
	gpu["pools"], gpu["excludedTypes"] = all["pools"], all["excludedTypes"]
	if withCUDA {
		gpu["allowedCudaVersions"] = all["allowedCudaVersions"]
	}
	p["gpu"], err = json.Marshal(gpu)
	return err
}

func (w endpointV2) neutral() Endpoint {
	e := w.Endpoint
	e.Container = completed(w.Container)
	return e
}

// withChangedCommand removes the command from both containers if it is equal.
func withChangedCommand(have, want *Container) (before, after *Container) {
	if have == nil || want == nil {
		return have, want
	}
	before, after = new(*have), new(*want)
	before.Command, after.Command = Command{}, want.forUpdate(have.Command)
	return before, after
}

// completed fills in the container of an answer: absent and null members are empty. A member
// that every container has stays nil, because a deployment that omits it can't return it.
func completed(c Container) *Container {
	c.Command, c.Ports, c.Registry = c.fromAnswer(), new(deref(c.Ports)), new(deref(c.Registry))
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	return &c
}

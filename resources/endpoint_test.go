package resources_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

func TestEndpoint(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p, client := drive(t, d, v), d.Client(t, v)
		template, _ := serverlessTemplate(t, d, p, nil)
		volume := apply(t, p, volumeType, tfdrive.State{}, map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"}, "create")
		minimal := map[string]any{"name": "least", "template_id": template.Get("id")}
		full := withChanges(minimal, map[string]any{
			"name": "most", "workers": map[string]any{"min": 1, "max": 5, "idle_timeout": 60}, "scaling": map[string]any{"type": "QUEUE_DELAY", "queue_delay": 7},
			"data_center_ids": []any{"EU-RO-1", "EU-CZ-1"}, "network_volumes": []any{volume.Get("id")}, "timeout": 60000, "flashboot": "FLASHBOOT",
		})
		state := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, minimal, "create")
		expectState(t, state, map[string]any{
			"workers.max": 3.0, "workers.idle_timeout": 10.0, "scaling.type": "QUEUE_DELAY", "scaling.queue_delay": 4.0,
			"request_urls.run": d.URL + "/v2/" + state.Get("id").(string) + "/run",
		})
		expectImport(t, p, state, minimal, true)
		state = apply(t, p, state.Type, state, full, "update")
		cpu := []any{map[string]any{"id": "cpu3c", "vcpu_count": 4}, map[string]any{"id": "cpu5c", "vcpu_count": 4}}
		full = withChanges(full, map[string]any{"cpu": cpu})
		state = apply(t, p, state.Type, state, full, "replace")
		expectImport(t, p, state, full, true)
		apply(t, p, state.Type, state, withChanges(full, map[string]any{"data_center_ids": []any{"EU-CZ-1", "EU-RO-1"}}), "no-op")
		edit(t, client.Endpoints, state.Get("id"), func(e *api.Endpoint) { e.Workers.Max = 9 })
		expectState(t, applyRestore(t, p, state, full), map[string]any{"workers.max": 5.0})
	})
}

// API v1 returns all data centers if the configuration chooses none. One that is chosen elsewhere is drift.
func TestEndpointInAnyDataCenterOnV1(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	v1, v2 := drive(t, d, api.V1), drive(t, d, api.V2)
	state, config := endpointOfTemplate(t, d, v1, nil, nil)
	state = expectEmptyPlan(t, v1, expectEmptyPlan(t, v2, state, config), config)
	edit(t, d.Client(t, api.V1).Endpoints, state.Get("id"), func(e *api.Endpoint) { e.DataCenterIDs = []string{"LAB-1"} })
	state = applyRestore(t, v1, state, config)
	apply(t, v1, endpointType, importState(t, v1, endpointType, state.Get("id").(string)), config, "update")
}

// serverlessTemplate creates a template for endpoints. It returns its state and configuration.
func serverlessTemplate(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, changes map[string]any) (tfdrive.State, map[string]any) {
	t.Helper()
	config := withChanges(map[string]any{"name": d.Name("t"), "image": "builtin/echo", "serverless": true}, changes)
	return apply(t, p, "gpucloud_template", tfdrive.State{}, config, "create"), config
}

// endpointOfTemplate creates an endpoint that follows a new template. It returns its state and configuration.
func endpointOfTemplate(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, template, more map[string]any) (tfdrive.State, map[string]any) {
	t.Helper()
	followed, _ := serverlessTemplate(t, d, p, template)
	config := withChanges(map[string]any{"name": "e", "template_id": followed.Get("id")}, more)
	return apply(t, p, endpointType, tfdrive.State{}, config, "create"), config
}

// Each attribute is set, changed, removed and set again.
func TestEndpointEveryAttribute(t *testing.T) {
	t.Parallel()
	workers := func(min, max, idle any) map[string]any {
		return map[string]any{"min": min, "max": max, "idle_timeout": idle}
	}
	gpu := func(changes map[string]any) map[string]any {
		return withChanges(map[string]any{"type_ids": []any{"NVIDIA L4", "NVIDIA GeForce RTX 4090"}}, changes)
	}
	pools := func(changes map[string]any) map[string]any {
		return withChanges(map[string]any{"pools": []any{"ADA_24"}}, changes)
	}
	minimum := gpu(map[string]any{"min_cuda_version": "12.4"})
	removed := func(action string, first, second any) attributeCase {
		return attributeCase{values: []any{first, second, nil, first}, actions: []string{"update", action, action}, removal: action}
	}
	inPlace := func(first, second any) attributeCase { return removed("update", first, second) }
	unreadable := func(c attributeCase) attributeCase {
		c.unreadable = true
		return c
	}
	removalReplaces := func(first, second any) attributeCase { return unreadable(removed("replace", first, second)) } // v2 reads GPU types as pools
	offIsTheDefault := func(first any) attributeCase {
		return attributeCase{values: []any{first, "OFF", nil, first}, actions: []string{"update", "no-op", "update"}, removal: "update"}
	}
	of := func(version api.Version, others map[string]any, c attributeCase) attributeCase {
		c.version, c.others = version, others
		return c
	}
	requests := map[string]any{"type": "REQUEST_COUNT"}
	own := map[string]any{"image": "builtin/echo"}
	balancer := map[string]any{"type": "LOAD_BALANCER", "workers": workers(0, 3, 30)}
	testEveryAttribute(t, "gpucloud_endpoint", map[string]attributeCase{
		"name":                           {values: []any{"e1", "e2"}, actions: []string{"update"}},
		"workers":                        inPlace(workers(0, 5, 30), workers(1, 2, 1)),
		"workers with REQUEST_COUNT":     of(api.V1, map[string]any{"scaling": requests}, inPlace(workers(0, 3, 30), workers(0, 3, 20))),
		"scaling":                        inPlace(map[string]any{"type": "QUEUE_DELAY", "queue_delay": 9}, map[string]any{"type": "REQUEST_COUNT", "request_count": 2}),
		"scaling with fractions":         of(api.V2, nil, inPlace(map[string]any{"queue_delay": 0.5}, map[string]any{"queue_delay": 0.7})),
		"scaling of a load balancer":     of(api.V2, balancer, inPlace(map[string]any{"request_count": 8}, map[string]any{"request_count": 9})),
		"type":                           {version: api.V2, values: []any{"LOAD_BALANCER", nil}, actions: []string{"no-op"}},
		"data_center_ids":                inPlace([]any{"EU-RO-1", "US-TX-3"}, []any{"EU-CZ-1"}),
		"network_volumes":                {values: []any{tfdrive.Unknown, tfdrive.Unknown}, actions: []string{"update"}, removal: "update"},
		"timeout":                        inPlace(5000, 604800000),
		"flashboot":                      unreadable(offIsTheDefault("FLASHBOOT")), // v1 may omit it from responses
		"flashboot with priority":        of(api.V2, nil, offIsTheDefault("PRIORITY_FLASHBOOT")),
		"gpu":                            removalReplaces(gpu(nil), gpu(map[string]any{"type_ids": []any{"NVIDIA L40S"}, "count": 2})),
		"gpu with allowed CUDA versions": removalReplaces(gpu(map[string]any{"allowed_cuda_versions": []any{"12.8", "12.4"}}), gpu(nil)),
		"gpu with a minimum CUDA":        removalReplaces(minimum, gpu(nil)),
		"gpu with another kind of CUDA":  removalReplaces(minimum, gpu(map[string]any{"allowed_cuda_versions": []any{"12.8"}})),
		"gpu pools":                      of(api.V2, nil, removalReplaces(pools(nil), map[string]any{"pools": []any{"ADA_24", "AMPERE_80"}, "count": 4})),
		"gpu exclusions":                 of(api.V2, nil, removalReplaces(pools(map[string]any{"excluded_types": []any{"NVIDIA L4"}}), pools(nil))),
		"gpu from types to pools":        of(api.V2, nil, removalReplaces(gpu(nil), pools(nil))),
		"cpu":                            removalReplaces([]any{map[string]any{"id": "cpu3c", "vcpu_count": 2}}, []any{map[string]any{"id": "cpu5g", "vcpu_count": 8}, map[string]any{"id": "cpu3c", "vcpu_count": 8}}),
		"image":                          of(api.V2, nil, unreadable(inPlace("img:1", "img:2"))), // an import doesn't read the template
		"args":                           of(api.V2, nil, inPlace("--one", "--two")),
		"entrypoint":                     of(api.V2, nil, inPlace([]any{"sh", "-c"}, []any{"/init"})),
		"cmd":                            of(api.V2, nil, inPlace([]any{"a b"}, []any{"", "c"})),
		"disk":                           of(api.V2, nil, unreadable(inPlace(20, 30))),
		"env":                            of(api.V2, nil, inPlace(map[string]any{"A": "1"}, map[string]any{"B": "2"})),
		"ports":                          of(api.V2, nil, inPlace([]any{"80/http"}, []any{"81/tcp", "82/http"})),
		"args of an own container":       of(api.V2, own, inPlace("--x", "--y")),
		"disk of an own container":       of(api.V2, own, unreadable(inPlace(20, 30))),
		"env of an own container":        of(api.V2, own, inPlace(map[string]any{"A": ""}, map[string]any{"B": "2"})),
		"ports of an own container":      of(api.V2, own, inPlace([]any{"80/http", "22/tcp"}, []any{"81/tcp"})),
		"registry of an own container":   of(api.V2, own, inPlace(tfdrive.Unknown, tfdrive.Unknown)),
	})
}

// Another type replaces an endpoint, and the plan warns of it.
func TestEndpointChangesItsType(t *testing.T) {
	d, p := deploy(t)
	minimal := map[string]any{"name": "e", "image": "builtin/echo"}
	state := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, minimal, "create")
	expectState(t, state, map[string]any{"disk": 50.0, "from_template": nil})
	balancer := withChanges(minimal, map[string]any{"type": "LOAD_BALANCER"})
	must.Contain(t, p.Plan(state.Type, state, balancer).Diagnostics.Warnings(), "type: The endpoint will be replaced", "with its queue, jobs and results")
	state = apply(t, p, state.Type, state, balancer, "replace")
	expectRejection(t, d, p, state, state.Type, withChanges(minimal, map[string]any{"scaling": map[string]any{"queue_delay": 4}}), "scaling.queue_delay", "REQUEST_COUNT takes request_count")
}

func TestEndpointRules(t *testing.T) {
	scaling := func(s map[string]any) map[string]any { return map[string]any{"scaling": s} }
	gpu := func(g map[string]any) map[string]any { return map[string]any{"gpu": g} }
	cpu := func(counts ...any) map[string]any {
		var list []any
		for _, n := range counts {
			list = append(list, map[string]any{"id": "cpu3c", "vcpu_count": n})
		}
		return map[string]any{"cpu": list}
	}
	l4 := []any{"NVIDIA L4"}
	always := []rejection{
		{map[string]any{"name": ""}, "name", "Invalid name: expected 1 to 191 characters, got 0 characters."},
		{map[string]any{"name": strings.Repeat("x", 192)}, "name", "Invalid name: expected 1 to 191 characters, got 192 characters."},
		{map[string]any{"type": "QUEUES"}, "type", `Invalid type: expected "QUEUE" or "LOAD_BALANCER", got "QUEUES".`},
		{map[string]any{"workers": map[string]any{"min": 4}}, "workers.min", "workers.min is 4 and workers.max is 3"},
		{map[string]any{"workers": map[string]any{"min": 2, "max": 1}}, "workers.min", "workers.min is 2 and workers.max is 1"},
		{map[string]any{"workers": map[string]any{"min": -1}}, "workers.min", "Invalid workers.min: expected at least 0, got -1."},
		{map[string]any{"workers": map[string]any{"idle_timeout": 0}}, "workers.idle_timeout", "Invalid workers.idle_timeout: expected 1 to 3600 seconds, got 0."},
		{map[string]any{"workers": map[string]any{"idle_timeout": 3601}}, "workers.idle_timeout", "Invalid workers.idle_timeout: expected 1 to 3600 seconds, got 3601."},
		{scaling(map[string]any{"type": "CPU"}), "scaling.type", `Invalid scaling.type: expected "QUEUE_DELAY" or "REQUEST_COUNT", got "CPU".`},
		{scaling(map[string]any{"queue_delay": 0.4}), "scaling.queue_delay", "Invalid scaling.queue_delay: expected at least 0.5, got 0.4."},
		{scaling(map[string]any{"request_count": 2}), "scaling.request_count", "QUEUE_DELAY takes queue_delay"},
		{scaling(map[string]any{"type": "REQUEST_COUNT", "queue_delay": 2}), "scaling.queue_delay", "REQUEST_COUNT takes request_count"},
		{scaling(map[string]any{"type": "REQUEST_COUNT", "request_count": 0}), "scaling.request_count", "Invalid scaling.request_count: expected at least 1, got 0."},
		{map[string]any{"timeout": 4999}, "timeout", "Invalid timeout: expected 5000 to 604800000 milliseconds (10 minutes are 600000), got 4999."},
		{map[string]any{"timeout": 604800001}, "timeout", "Invalid timeout: expected 5000 to 604800000 milliseconds (10 minutes are 600000), got 604800001."},
		{map[string]any{"flashboot": "ON"}, "flashboot", `Invalid flashboot: expected "OFF", "FLASHBOOT" or "PRIORITY_FLASHBOOT", got "ON".`},
		{gpu(map[string]any{"type_ids": l4, "count": 0}), "gpu.count", "Invalid gpu.count: expected at least 1, got 0."},
		{gpu(map[string]any{"type_ids": l4, "pools": []any{"ADA_24"}}), "gpu.pools", "type_ids"},
		{gpu(map[string]any{"count": 1}), "gpu.pools", "type_ids"},
		{gpu(map[string]any{"type_ids": []any{}}), "gpu.type_ids", "Invalid gpu.type_ids: expected at least one element, got none."},
		{gpu(map[string]any{"type_ids": []any{"NVIDIA L4", "NVIDIA L4"}}), "gpu.type_ids", `Invalid gpu.type_ids: expected each element once, got "NVIDIA L4" more than once.`},
		{gpu(map[string]any{"type_ids": []any{""}}), "gpu.type_ids.0", `Invalid gpu.type_ids[0]: expected at least one character, got "".`},
		{map[string]any{"data_center_ids": []any{""}}, "data_center_ids.*", `Invalid data_center_ids: expected at least one character, got "".`},
		{gpu(map[string]any{"type_ids": l4, "excluded_types": l4}), "gpu.excluded_types", "pools"},
		{gpu(map[string]any{"type_ids": l4, "allowed_cuda_versions": []any{"12.4"}, "min_cuda_version": "12.1"}), "gpu.min_cuda_version", "conflicts with allowed_cuda_versions"},
		{gpu(map[string]any{"type_ids": l4, "min_cuda_version": "12"}), "gpu.min_cuda_version", "major.minor"},
		{withChanges(gpu(map[string]any{"type_ids": l4}), cpu(2)), "gpu", "cpu"},
		{cpu(3), "cpu.0.vcpu_count", "a power of two"},
		{cpu(1), "cpu.0.vcpu_count", "a power of two"},
		{cpu(2, 4, 2), "cpu", `Invalid cpu: expected each element once, got {"id":"cpu3c","vcpu_count":2} more than once.`},
		{map[string]any{"cpu": []any{}}, "cpu", "Invalid cpu: expected at least one element, got none."},
		{gpu(map[string]any{"type_ids": []any{nil}}), "gpu.type_ids", "an element is null"},
		{map[string]any{"data_center_ids": []any{"EU-RO-1", nil}}, "data_center_ids", "an element is null"},
		{map[string]any{"network_volumes": []any{nil}}, "network_volumes", "an element is null"},
		{map[string]any{"network_volumes": []any{"nosuchvolume"}}, "network_volumes", "which does not exist"},
		{map[string]any{"template_id": "nosuchtemplate"}, "template_id", "Set template_id to the id of an existing template"},
	}
	byVersion := map[api.Version][]rejection{
		api.V1: {
			{map[string]any{"type": "LOAD_BALANCER"}, "type", `type = "LOAD_BALANCER" exists in management API v2 only`},
			{scaling(map[string]any{"queue_delay": 1.5}), "scaling.queue_delay", "whole seconds"},
			{cpu(2, 4), "cpu", "the same vcpu_count"},
		},
		api.V2: {
			{map[string]any{"template_id": nil}, "image", "template_id"},
			{map[string]any{"scaling": map[string]any{"type": "REQUEST_COUNT"}, "workers": map[string]any{"idle_timeout": 5}}, "workers.idle_timeout", "has no idle_timeout"},
			{map[string]any{"type": "LOAD_BALANCER", "scaling": map[string]any{"type": "QUEUE_DELAY"}}, "scaling.type", "REQUEST_COUNT only"},
			{map[string]any{"type": "LOAD_BALANCER", "scaling": map[string]any{"queue_delay": 4}}, "scaling.queue_delay", "REQUEST_COUNT takes request_count"},
			{gpu(map[string]any{"type_ids": []any{"NVIDIA H100 NVL"}}), "gpu.type_ids", "NVIDIA H100 NVL"},
			{gpu(map[string]any{"type_ids": []any{"NVIDIA L4", "Voodoo 2"}}), "gpu.type_ids.1", "Voodoo 2"},
			{map[string]any{"ports": []any{"70000/http"}}, "ports.*", "1 to 65535"},
			{gpu(map[string]any{"pools": []any{}}), "gpu.pools", "Invalid gpu.pools: expected at least one element, got none."},
			{gpu(map[string]any{"pools": []any{"ADA_24"}, "excluded_types": []any{""}}), "gpu.excluded_types.*", `Invalid gpu.excluded_types: expected at least one character, got "".`},
			{gpu(map[string]any{"pools": []any{nil}}), "gpu.pools", "an element is null"},
			{map[string]any{"env": map[string]any{"A": nil}}, "env.A", "is null"},
			{map[string]any{"env": map[string]any{"A=B": "x"}}, "env.A=B", "without = and NUL"},
			{map[string]any{"env": map[string]any{"A": "x\x00"}}, "env.A", "without NUL"},
			{gpu(map[string]any{"pools": []any{"ADA_24"}, "excluded_types": []any{"NVIDIA B200"}}), "gpu.excluded_types", `got "NVIDIA B200"`},
			{gpu(map[string]any{"pools": []any{"ADA_24"}, "excluded_types": []any{"no such GPU"}}), "gpu.excluded_types", `got "no such GPU"`},
			{gpu(map[string]any{"pools": []any{"ADA_24"}, "excluded_types": []any{"NVIDIA L4", "NVIDIA RTX A5000", "NVIDIA GeForce RTX 3090"}}), "gpu.excluded_types", "got"},
			{map[string]any{"registry": "nosuchauth"}, "registry", "which does not exist"},
		},
	}
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		template, _ := serverlessTemplate(t, d, p, nil)
		minimal := map[string]any{"name": "e", "template_id": template.Get("id")}
		expectRejections(t, d, p, "gpucloud_endpoint", minimal, slices.Concat(always, byVersion[v])...)
		forPods := apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{"name": d.Name("pods"), "image": "i"}, "create")
		expectRejection(t, d, p, tfdrive.State{}, "gpucloud_endpoint", withChanges(minimal, map[string]any{"template_id": forPods.Get("id")}), "template_id", "is for pods")
	})
}

// A configuration that excludes every type of its pools is rejected.
func TestEndpointExcludesAll(t *testing.T) {
	d, p := deploy(t)
	catalog := must.Do(d.Client(t, api.V2).GPUTypes.Find(t.Context(), nil))(t)
	var all []any
	for _, gpu := range catalog {
		if gpu.Pool == "ADA_24" {
			all = append(all, gpu.ID)
		}
	}
	config := func(excluded []any) map[string]any {
		return map[string]any{"name": "e", "image": "i", "gpu": map[string]any{"pools": []any{"ADA_24"}, "excluded_types": excluded}}
	}
	expectRejection(t, d, p, tfdrive.State{}, "gpucloud_endpoint", config(all), "gpu.excluded_types", "names every GPU type of the pools ADA_24")
	if len(all) > 1 {
		apply(t, p, "gpucloud_endpoint", tfdrive.State{}, config(all[1:]), "create")
	}
}

// A plan accepts an unknown value for every attribute.
func TestEndpointUnknowns(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, _ api.Version) {
		template, _ := serverlessTemplate(t, d, p, nil)
		for _, a := range p.Schema("gpucloud_endpoint").Block.Attributes {
			config := map[string]any{"name": "e", "template_id": template.Get("id")}
			if !a.Optional && !a.Required {
				continue
			}
			config[a.Name] = tfdrive.Unknown
			must.Succeed(t, p.Plan("gpucloud_endpoint", tfdrive.State{}, config).Diagnostics.Err(), a.Name, "unknown")
		}
	})
}

// An unknown value may become any value, with which the second plan agrees with the first.
func TestEndpointUnknownTurnsKnown(t *testing.T) {
	t.Parallel()
	gpu := func(more map[string]any) map[string]any {
		return map[string]any{"gpu": withChanges(map[string]any{"type_ids": []any{"NVIDIA L4"}}, more)}
	}
	scaling := func(s any) map[string]any { return map[string]any{"scaling": s} }
	workers := func(w any) map[string]any { return map[string]any{"workers": w} }
	cpu := func(list ...any) map[string]any { return map[string]any{"gpu": nil, "cpu": list} }
	flavor := func(id, count any) any { return map[string]any{"id": id, "vcpu_count": count} }
	requests := map[string]any{"type": "REQUEST_COUNT"}
	type turn struct{ unknown, known map[string]any }
	both := map[string]turn{
		"scaling":                            {scaling(tfdrive.Unknown), scaling(requests)},
		"no scaling":                         {scaling(tfdrive.Unknown), nil},
		"scaling type":                       {scaling(map[string]any{"type": tfdrive.Unknown}), scaling(requests)},
		"no scaling type":                    {scaling(map[string]any{"type": tfdrive.Unknown, "queue_delay": 8}), scaling(map[string]any{"queue_delay": 8})},
		"queue delay":                        {scaling(map[string]any{"queue_delay": tfdrive.Unknown}), scaling(map[string]any{"queue_delay": 8})},
		"no other value":                     {scaling(withChanges(requests, map[string]any{"queue_delay": tfdrive.Unknown})), scaling(requests)},
		"no request count":                   {scaling(map[string]any{"request_count": tfdrive.Unknown}), nil},
		"no idle_timeout with REQUEST_COUNT": {map[string]any{"scaling": requests, "workers": map[string]any{"max": 2, "idle_timeout": tfdrive.Unknown}}, map[string]any{"scaling": requests, "workers": map[string]any{"max": 2}}},
		"no queue delay":                     {scaling(map[string]any{"type": "QUEUE_DELAY", "queue_delay": tfdrive.Unknown}), scaling(map[string]any{"type": "QUEUE_DELAY"})},
		"workers":                            {workers(tfdrive.Unknown), workers(map[string]any{"max": 9})},
		"no workers":                         {workers(tfdrive.Unknown), nil},
		"no minimum":                         {workers(map[string]any{"max": 2, "min": tfdrive.Unknown}), workers(map[string]any{"max": 2})},
		"no idle_timeout":                    {workers(map[string]any{"max": 2, "idle_timeout": tfdrive.Unknown}), workers(map[string]any{"max": 2})},
		"gpu":                                {map[string]any{"gpu": tfdrive.Unknown}, gpu(map[string]any{"count": 2})},
		"types":                              {gpu(map[string]any{"type_ids": tfdrive.Unknown}), gpu(map[string]any{"type_ids": []any{"NVIDIA A40"}})},
		"a type":                             {gpu(map[string]any{"type_ids": []any{tfdrive.Unknown}}), gpu(nil)},
		"no count":                           {gpu(map[string]any{"count": tfdrive.Unknown}), gpu(nil)},
		"no exclusion":                       {gpu(map[string]any{"excluded_types": tfdrive.Unknown}), gpu(map[string]any{"excluded_types": []any{}})},
		"no CUDA versions":                   {gpu(map[string]any{"min_cuda_version": tfdrive.Unknown, "allowed_cuda_versions": tfdrive.Unknown}), gpu(nil)},
		"min_cuda_version":                   {gpu(map[string]any{"min_cuda_version": tfdrive.Unknown, "allowed_cuda_versions": tfdrive.Unknown}), gpu(map[string]any{"min_cuda_version": "12.4"})},
		"no min_cuda_version":                {gpu(map[string]any{"min_cuda_version": tfdrive.Unknown, "allowed_cuda_versions": []any{"12.8"}}), gpu(map[string]any{"allowed_cuda_versions": []any{"12.8"}})},
		"no cpu":                             {map[string]any{"cpu": tfdrive.Unknown}, nil},
		"cpu":                                {map[string]any{"gpu": nil, "cpu": tfdrive.Unknown}, cpu(flavor("cpu3c", 2))},
		"a count":                            {cpu(flavor("cpu3c", tfdrive.Unknown), flavor("cpu5c", 4)), cpu(flavor("cpu3c", 4), flavor("cpu5c", 4))},
		"distinct flavors":                   {cpu(flavor(tfdrive.Unknown, 4), flavor(tfdrive.Unknown, 4)), cpu(flavor("cpu3c", 4), flavor("cpu5c", 4))}, // not duplicates
		"a flavor":                           {cpu(flavor(tfdrive.Unknown, 4)), cpu(flavor("cpu5c", 4))},
		"no type":                            {map[string]any{"type": tfdrive.Unknown}, nil},
		"type of requests":                   {map[string]any{"type": tfdrive.Unknown, "scaling": requests}, scaling(requests)},
		"no flashboot":                       {map[string]any{"flashboot": tfdrive.Unknown}, nil},
		"no volumes":                         {map[string]any{"network_volumes": tfdrive.Unknown}, nil},
		"a data center":                      {map[string]any{"data_center_ids": []any{tfdrive.Unknown}}, map[string]any{"data_center_ids": []any{"EU-RO-1"}}},
		"no timeout":                         {map[string]any{"timeout": tfdrive.Unknown}, nil},
		"the same template":                  {map[string]any{"template_id": tfdrive.Unknown}, map[string]any{}},
	}
	v2Only := map[string]turn{
		"no template": {map[string]any{"image": "i", "template_id": tfdrive.Unknown}, map[string]any{"image": "i", "template_id": nil}},
		"no image":    {map[string]any{"image": tfdrive.Unknown}, nil},
		"no disk":     {map[string]any{"disk": tfdrive.Unknown}, nil},
		"no env":      {map[string]any{"env": tfdrive.Unknown}, nil},
		"pools":       {map[string]any{"gpu": map[string]any{"pools": tfdrive.Unknown, "excluded_types": tfdrive.Unknown}}, map[string]any{"gpu": map[string]any{"pools": []any{"ADA_24"}}}},
	}
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		turns := maps.Clone(both)
		if v == api.V2 {
			maps.Copy(turns, v2Only)
		}
		p := drive(t, d, v)
		template, _ := serverlessTemplate(t, d, p, nil)
		minimal := withChanges(gpu(nil), map[string]any{"name": "e", "template_id": template.Get("id")})
		created := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, minimal, "create")
		for name, turn := range turns {
			for what, prior := range map[string]tfdrive.State{"create": {}, "update": created} {
				unknown := p.Plan("gpucloud_endpoint", prior, withChanges(minimal, turn.unknown))
				known := p.Plan("gpucloud_endpoint", prior, withChanges(minimal, turn.known))
				must.Require(t, unknown.Diagnostics.Err() == nil && known.Diagnostics.Err() == nil, name, what, unknown.Diagnostics, known.Diagnostics)
				must.Hold(t, name != "no cpu" || unknown.Action != "replace", name, "is planned to replace", unknown.Replace)
				must.Hold(t, known.Action == "no-op" || known.Action == unknown.Action || unknown.Action == "replace", name, "the", unknown.Action, "became a", known.Action)
				expectAgreement(t, name+", "+what, unknown, known)
			}
		}
	})
}

// expectAgreement expects that a plan has all known values of an earlier plan.
func expectAgreement(t *testing.T, what string, before, after tfdrive.PlannedChange) {
	t.Helper()
	err := tftypes.Walk(before.Value, func(at *tftypes.AttributePath, v tftypes.Value) (bool, error) {
		if !v.IsKnown() {
			return false, nil
		}
		found, _, lost := tftypes.WalkAttributePath(after.Value, at)
		now, ok := found.(tftypes.Value)
		if same := ok && lost == nil && now.IsNull() == v.IsNull() && (!v.IsFullyKnown() || now.Equal(v)); !same {
			t.Errorf("%s: %s was planned as %s and then as %v", what, at, v, found)
			return false, nil
		}
		return true, nil
	})
	must.Succeed(t, err)
}

// An endpoint with a template can remove its own CUDA versions, also on API v1.
func TestEndpointRemovesCUDAVersions(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		state, config := endpointOfTemplate(t, d, p, nil, map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}, "allowed_cuda_versions": []any{"12.8"}}})
		state = apply(t, p, state.Type, state, withChanges(config, map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}}), "update")
		got := must.Do(d.Client(t, v).Endpoints.Get(t.Context(), state.Get("id").(string)))(t)
		must.Equal(t, got.GPU.AllowedCUDAVersions, nil, "the CUDA versions after their removal")
	})
}

// CPU configurations are imported, and removed ones detected, although v1 shows them in another form.
func TestEndpointImportsCPU(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		created, config := endpointOfTemplate(t, d, p, nil, map[string]any{"cpu": []any{map[string]any{"id": "cpu5g", "vcpu_count": 8}, map[string]any{"id": "cpu3c", "vcpu_count": 8}}})
		imported := importState(t, p, created.Type, created.Get("id").(string))
		expectPlan(t, p, created.Type, imported, config, map[api.Version]string{api.V1: "no-op", api.V2: "update"}[v]) // the update records the template
		gpus := withChanges(config, map[string]any{"cpu": nil, "gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}})
		for range 10 { // always at the same attribute
			must.Contain(t, p.Plan(created.Type, created, gpus).Diagnostics.Warnings(), "gpu: The endpoint will be replaced")
		}
		edit(t, d.Client(t, v).Endpoints, created.Get("id"), func(e *api.Endpoint) {
			must.Require(t, len(e.CPU) == 2, "CPU configurations", e.CPU)
			e.CPU = e.CPU[:1]
		})
		expectPlan(t, p, created.Type, refresh(t, p, created), config, "update") // one configuration less
	})
}

// An update succeeds if queue_url has changed and no refresh has shown it yet.
func TestEndpointWithAnotherQueueURL(t *testing.T) {
	d, p := deploy(t)
	config := map[string]any{"name": "e", "image": "builtin/echo"}
	state := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, config, "create")
	moved := tfdrive.Start(t, provider.New("test")(), withChanges(d.Settings(api.V2), map[string]any{"queue_url": "http://127.0.0.1:9"}))
	state = apply(t, moved, state.Type, state, withChanges(config, map[string]any{"timeout": 5000}), "update")
	read, _ := moved.Read(state)
	must.Hold(t, read.Get("request_urls.run") == "http://127.0.0.1:9/v2/"+state.Get("id").(string)+"/run", "run is", read.Get("request_urls.run"))
}

func TestEndpointGPUOrderWarns(t *testing.T) {
	d, p := deploy(t)
	config := map[string]any{"name": "e", "image": "builtin/echo", "gpu": map[string]any{"type_ids": []any{"NVIDIA GeForce RTX 4090", "NVIDIA L4"}}}
	expectPlan(t, p, endpointType, tfdrive.State{}, config, "create", "gpu.type_ids: API v2 keeps no order")
	state := apply(t, p, "gpucloud_endpoint", tfdrive.State{}, config, "create")
	got, err := d.Client(t, api.V2).Endpoints.Get(t.Context(), state.Get("id").(string))
	must.Hold(t, err == nil && len(got.GPU.Pools) == 1 && got.GPU.Pools[0] == "ADA_24" && len(got.GPU.ExcludedTypes) == 0, "expected the pool ADA_24 without exclusions, got", got.GPU, err)
}

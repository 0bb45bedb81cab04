package resources_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/defaults"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/resources"
)

// otherVersion maps each API version to the other one.
var otherVersion = map[api.Version]api.Version{api.V1: api.V2, api.V2: api.V1}

// Switching api_version plans no change of a configuration that both versions can express.
func TestSwitchingVersions(t *testing.T) {
	t.Parallel()
	both := []struct {
		typeName string
		config   map[string]any
	}{
		{"gpucloud_network_volume", map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"}},
		{"gpucloud_network_volume", map[string]any{"name": "v", "size": 4000, "data_center": "US-TX-3"}},
		{"gpucloud_registry_auth", map[string]any{"username": "u", "password": "p"}},
		{"gpucloud_registry_auth", map[string]any{"username": "u", "password_wo": "p", "password_wo_version": 1}},
		{"gpucloud_template", map[string]any{"image": "i"}},
		{"gpucloud_template", map[string]any{"image": "i", "args": `python -u "my handler.py" --quote 'it'"'"'s'`, "disk": 1, "env": map[string]any{"A": "", "B": "ü"},
			"ports": []any{"8888/http", "22/tcp"}, "public": true, "category": "AMD", "mounts": map[string]any{"persistent": map[string]any{"size": 10, "path": "/data"}}}},
		{"gpucloud_template", map[string]any{"image": "i", "args": "", "env": map[string]any{}, "ports": []any{}, "docker_entrypoint": []any{}, "start_ssh": true, "serverless": true}},
		{"gpucloud_template", map[string]any{"image": "i", "args": " \n ", "ports": []any{"22/tcp", "22/http"}}},
		{"gpucloud_endpoint", nil},
		{"gpucloud_endpoint", map[string]any{"type": "QUEUE", "flashboot": "OFF"}},
		{"gpucloud_endpoint", map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}}},
		{"gpucloud_endpoint", map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA RTX A6000", "NVIDIA A40", "NVIDIA L4"}, "count": 4, "allowed_cuda_versions": []any{"12.8", "12.4"}}}},
		{"gpucloud_endpoint", map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA H200"}, "min_cuda_version": "12.1"}, "flashboot": "FLASHBOOT"}},
		{"gpucloud_endpoint", map[string]any{"cpu": []any{map[string]any{"id": "cpu5g", "vcpu_count": 8}, map[string]any{"id": "cpu3c", "vcpu_count": 8}}}},
		{"gpucloud_endpoint", map[string]any{"workers": map[string]any{"min": 1, "max": 9, "idle_timeout": 3600}, "scaling": map[string]any{"queue_delay": 30}, "timeout": 5000}},
		{"gpucloud_endpoint", map[string]any{"scaling": map[string]any{"type": "REQUEST_COUNT", "request_count": 7}}},
		{"gpucloud_endpoint", map[string]any{"data_center_ids": []any{"EU-RO-1", "EU-CZ-1"}}},
		{"gpucloud_endpoint", map[string]any{"data_center_ids": []any{}, "network_volumes": []any{}, "env": map[string]any{}}},
		{"gpucloud_endpoint", map[string]any{"data_center_ids": allDataCenters}},
		{podType, gpuPod(map[string]any{
			"args": "print 'a b'", "env": map[string]any{"A": "b"}, "ports": []any{"22/tcp"}, "gpu": map[string]any{"id": "NVIDIA L4", "count": 2, "allowed_cuda_versions": []any{"12.8"}},
			"mounts": map[string]any{"persistent": map[string]any{"size": 20, "path": "/a"}}, "data_center_ids": []any{"EU-RO-1"}, "cloud": "COMMUNITY", "global_networking": map[string]any{"enabled": true}})},
	}
	for i, c := range both {
		t.Run(fmt.Sprint(c.typeName, " ", i), func(t *testing.T) {
			d := acctest.Deploy(t)
			providers := map[api.Version]*tfdrive.Provider{api.V1: drive(t, d, api.V1), api.V2: drive(t, d, api.V2)}
			for _, v := range acctest.Versions {
				config := withChanges(c.config, map[string]any{"name": d.Name("by " + string(v))})
				if c.typeName == "gpucloud_endpoint" {
					template := apply(t, providers[v], "gpucloud_template", tfdrive.State{}, map[string]any{"name": d.Name("t" + string(v)), "image": "i", "serverless": true, "args": "-x"}, "create")
					config["template_id"] = template.Get("id")
				}
				state := apply(t, providers[v], c.typeName, tfdrive.State{}, config, "create")
				state = expectEmptyPlan(t, providers[otherVersion[v]], state, config)
				state = expectEmptyPlan(t, providers[v], state, config)
				// This version accepts a change by the other one.
				if c.typeName != "gpucloud_registry_auth" {
					config["name"] = d.Name("renamed by " + string(otherVersion[v]))
					state = apply(t, providers[otherVersion[v]], c.typeName, state, config, "update")
					expectEmptyPlan(t, providers[v], state, config)
				}
			}
		})
	}
}

// An endpoint that scales on requests has the documented idle timeout, which API v2 neither accepts nor returns.
func TestIdleTimeoutOfRequestCount(t *testing.T) {
	d := acctest.Deploy(t)
	v1, v2 := drive(t, d, api.V1), drive(t, d, api.V2)
	template, _ := serverlessTemplate(t, d, v2, nil)
	byRequests := map[string]any{"name": "e", "template_id": template.Get("id"), "scaling": map[string]any{"type": "REQUEST_COUNT"}}
	byDelay := map[string]any{"name": "e", "template_id": template.Get("id"), "workers": map[string]any{"idle_timeout": 5}}
	storedTimeout := func(s tfdrive.State) int64 {
		t.Helper()
		return *must.Do(d.Client(t, api.V1).Endpoints.Get(t.Context(), s.Get("id").(string)))(t).Workers.IdleTimeout
	}
	for _, c := range []struct {
		name     string
		p        *tfdrive.Provider
		before   map[string]any
		recorded any
	}{
		{"created on v1", v1, nil, 10.0},
		{"created on v2", v2, nil, nil},
		{"changed on v1", v1, byDelay, 10.0},
		{"changed on v2", v2, byDelay, nil},
	} {
		var state tfdrive.State
		action := "create"
		if c.before != nil {
			state, action = apply(t, c.p, "gpucloud_endpoint", state, c.before, "create"), "update"
		}
		state = apply(t, c.p, "gpucloud_endpoint", state, byRequests, action)
		got := storedTimeout(state)
		must.Hold(t, got == 10 && state.Get("workers.idle_timeout") == c.recorded,
			c.name, "the deployment has", got, "s, the state", state.Get("workers.idle_timeout"))
		expectEmptyPlan(t, v2, expectEmptyPlan(t, v1, state, byRequests), byRequests)
	}
	// A version detects drift if it returns the attribute.
	state := apply(t, v1, "gpucloud_endpoint", tfdrive.State{}, byRequests, "create")
	edit(t, d.Client(t, api.V1).Endpoints, state.Get("id"), func(e *api.Endpoint) { e.Workers.IdleTimeout = new(int64(60)) })
	state = applyRestore(t, v1, state, byRequests)
	must.Equal(t, storedTimeout(state), 10, "idle time-out in the deployment after the repair, in seconds")
}

// allDataCenters has all data centers. API v1 also returns all of them for an endpoint that selects none.
var allDataCenters = []any{
	"AP-JP-1", "CA-MTL-1", "CA-MTL-2", "CA-MTL-3", "EU-CZ-1", "EU-FR-1", "EU-NL-1", "EU-RO-1", "EU-SE-1", "EUR-IS-1", "EUR-IS-2", "EUR-IS-3", "EUR-NO-1",
	"OC-AU-1", "US-CA-2", "US-DE-1", "US-GA-1", "US-GA-2", "US-IL-1", "US-KS-2", "US-KS-3", "US-NC-1", "US-TX-1", "US-TX-3", "US-TX-4", "US-WA-1",
}

// A value that only the other version accepts may stay, but not be chosen for a new object or a replacement.
func TestValueOfTheOtherVersion(t *testing.T) {
	small := func(size int) map[string]any {
		return map[string]any{"persistent": map[string]any{"size": size, "path": "/a"}}
	}
	for _, c := range []struct {
		typeName, at     string // at is the attribute's path, or "" if the version can't update the object
		created, kept    api.Version
		config, rejected map[string]any
	}{
		{volumeType, "size", api.V1, api.V2, map[string]any{"size": 5, "data_center": "US-TX-3"}, map[string]any{"data_center": "EU-RO-1"}},
		{volumeType, "size", api.V2, api.V1, map[string]any{"size": 4001, "data_center": "US-TX-3"}, map[string]any{"size": 4002}},
		{"gpucloud_template", "mounts.persistent.size", api.V1, api.V2, map[string]any{"image": "i", "mounts": small(5)}, map[string]any{"mounts": small(6)}},
		{podType, "mounts.persistent.size", api.V1, api.V2, gpuPod(map[string]any{"mounts": small(5)}), map[string]any{"cloud": "COMMUNITY"}},
		{"gpucloud_template", "readme", api.V1, api.V2, map[string]any{"image": "i", "readme": "# One"}, map[string]any{"readme": "# Two"}},
		{"gpucloud_template", "allowed_cuda_versions", api.V2, api.V1, map[string]any{"image": "i", "allowed_cuda_versions": []any{"12.8"}}, map[string]any{"allowed_cuda_versions": []any{"12.4"}}},
		{volumeType, "type", api.V2, api.V1, map[string]any{"size": 10, "data_center": "US-TX-3", "type": "HIGH_PERFORMANCE"}, map[string]any{"type": "STANDARD"}},
		{podType, "interruptible", api.V1, api.V2, gpuPod(map[string]any{"interruptible": true}), map[string]any{"cloud": "COMMUNITY"}},
		{"gpucloud_template", "", api.V2, api.V1, map[string]any{"image": "i", "args": "it's"}, nil},
		{podType, "", api.V2, api.V1, gpuPod(map[string]any{"args": "it's"}), nil},
		{endpointType, "", api.V2, api.V1, map[string]any{"cpu": []any{map[string]any{"id": "cpu3c", "vcpu_count": 2}, map[string]any{"id": "cpu3c", "vcpu_count": 4}}}, nil},
	} {
		d := acctest.Deploy(t)
		config := newConfig(t, drive(t, d, c.created), c.typeName, d.Name("s"), c.config)
		state := apply(t, drive(t, d, c.created), c.typeName, tfdrive.State{}, config, "create")
		p := drive(t, d, c.kept)
		state = expectEmptyPlan(t, p, state, config)
		config["name"] = d.Name("renamed")
		if c.at == "" {
			must.ErrorContains(t, p.Plan(c.typeName, state, config).Diagnostics.Err(), "API v1")
			continue
		}
		says := map[bool]string{true: "Size out of bounds", false: "can't express this"}[strings.HasSuffix(c.at, "size")]
		expectRejection(t, d, p, apply(t, p, c.typeName, state, config, "update"), c.typeName, withChanges(config, c.rejected), c.at, says)
	}
}

// An endpoint has the same plan on both versions, also if its template has settings of only one.
func TestSwitchingVersionsWithSharedTemplate(t *testing.T) {
	for created, extra := range map[api.Version]map[string]any{
		api.V1: {"docker_entrypoint": []any{"/init"}},
		api.V2: {"allowed_cuda_versions": []any{"12.8"}},
	} {
		d := acctest.Deploy(t)
		template, _ := serverlessTemplate(t, d, drive(t, d, created), extra)
		config := map[string]any{"name": "e", "template_id": template.Get("id"), "gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}}
		for _, v := range acctest.Versions {
			state := apply(t, drive(t, d, v), "gpucloud_endpoint", tfdrive.State{}, config, "create")
			for _, w := range []api.Version{api.V1, api.V2, api.V1} {
				state = expectEmptyPlan(t, drive(t, d, w), state, config)
			}
		}
	}
}

// oneVersionValues has the attributes that only one version has.
var oneVersionValues = map[string]struct {
	values  map[string]any               // a value other than the default, by attribute
	members map[string][2]map[string]any // by path: the configuration that sets a member, and its replacement on the other version
}{
	"gpucloud_network_volume": {values: map[string]any{"type": "HIGH_PERFORMANCE"}},
	"gpucloud_template": {
		values: map[string]any{"readme": "# One", "start_ssh": false, "start_jupyter": false, "allowed_cuda_versions": []any{"12.8"}},
	},
	"gpucloud_endpoint": {
		values: map[string]any{
			"type": "LOAD_BALANCER", "image": "builtin/conformance", "args": "--one", "entrypoint": []any{"sh"}, "cmd": []any{"--one"}, "disk": 20, "env": map[string]any{"A": "1"},
			"ports": []any{"80/http"}, "registry": "$auth", "flashboot": "PRIORITY_FLASHBOOT",
		},
		members: map[string][2]map[string]any{
			"env_wo":             {{"env_wo": map[string]any{"A": "1"}, "env_wo_version": 1}},
			"gpu.pools":          {{"gpu": map[string]any{"pools": []any{"ADA_24"}}}, {"gpu": map[string]any{"type_ids": []any{"NVIDIA L40S"}}}},
			"gpu.excluded_types": {{"gpu": map[string]any{"pools": []any{"ADA_24"}, "excluded_types": []any{"NVIDIA L4"}}}, {"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}}},
			"wait_for.rollout":   {{"wait_for": map[string]any{"rollout": true}}},
		},
	},
	"gpucloud_pod": {
		values: map[string]any{
			"interruptible": true, "support_public_ip": true, "country_codes": []any{"RO"}, "gpu_type_priority": "custom", "cpu_flavor_priority": "custom", "data_center_priority": "custom",
			"min_ram_per_gpu": 16, "min_vcpu_per_gpu": 4, "min_disk_bandwidth_mbps": 100, "min_download_mbps": 1.5, "min_upload_mbps": 100, "start_ssh": true, "start_jupyter": true,
		},
		members: map[string][2]map[string]any{
			"gpu.min_ram_per_gpu":        {{"gpu": map[string]any{"id": "NVIDIA L4", "min_ram_per_gpu": 8}}, {"gpu": map[string]any{"id": "NVIDIA L4"}}},
			"gpu.min_vcpu_count_per_gpu": {{"gpu": map[string]any{"id": "NVIDIA L4", "min_vcpu_count_per_gpu": 2}}, {"gpu": map[string]any{"id": "NVIDIA L4"}}},
			"gpu.min_cuda_version":       {{"gpu": map[string]any{"id": "NVIDIA L4", "min_cuda_version": "12.4"}}, {"gpu": map[string]any{"id": "NVIDIA L4"}}},
		},
	},
}

// An unknown value of an attribute that the version lacks becomes null or is rejected, and never replaces the object.
func TestOneVersionUnknown(t *testing.T) {
	for typeName, attributes := range oneVersion(t) {
		for _, o := range attributes {
			d := acctest.Deploy(t)
			p := drive(t, d, otherVersion[o.Version])
			config := newConfig(t, p, typeName, d.Name("one"))
			if typeName == endpointType {
				config["gpu"] = map[string]any{"type_ids": []any{"NVIDIA L4"}}
			}
			state := apply(t, p, typeName, tfdrive.State{}, config, "create")
			name, member, nested := strings.Cut(o.Attribute, ".")
			unknown := map[string]any{name: tfdrive.Unknown}
			if object, _ := config[name].(map[string]any); nested {
				unknown[name] = withChanges(object, map[string]any{member: tfdrive.Unknown})
			}
			planned := p.Plan(typeName, state, withChanges(config, unknown))
			must.Hold(t, planned.Action == "update" && planned.Diagnostics.Err() == nil, typeName, o.Attribute, "planned to", planned.Action, planned.Diagnostics)
		}
	}
}

// oneVersion returns, by type, the attributes that only one version has.
func oneVersion(t *testing.T) map[string][]planrule.OneVersion {
	t.Helper()
	out := map[string][]planrule.OneVersion{}
	for _, kind := range resources.All {
		out[typeNameOf(t, kind)] = kind.OneVersion()
	}
	return out
}

func typeNameOf(t *testing.T, kind interface{ Resource() resource.Resource }) string {
	t.Helper()
	var metadata resource.MetadataResponse
	kind.Resource().Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: "gpucloud"}, &metadata)
	return metadata.TypeName
}

// If only one version has an attribute, its description says so in the words that kit's derivedDescription keeps.
func TestDescriptionsNameTheVersion(t *testing.T) {
	for _, kind := range resources.All {
		var resp resource.SchemaResponse
		kind.Resource().Schema(t.Context(), resource.SchemaRequest{}, &resp)
		for _, o := range kind.OneVersion() {
			a, ok := resp.Schema.Attributes[o.Attribute]
			want := fmt.Sprintf("API %s only.", o.Version)
			must.Hold(t, !ok || o.HandledByKind || strings.Contains(a.GetMarkdownDescription(), want), typeNameOf(t, kind), o.Attribute, "the description lacks the sentence", want, "which its data source keeps")
		}
	}
}

// A version that lacks an attribute accepts its default like an omission (Except of planrule.OneVersion).
func TestDefaultsOfOneVersion(t *testing.T) {
	found := 0
	for _, kind := range resources.All {
		var resp resource.SchemaResponse
		kind.Resource().Schema(t.Context(), resource.SchemaRequest{}, &resp)
		for _, o := range kind.OneVersion() {
			value := defaultOf(t.Context(), resp.Schema.Attributes[o.Attribute])
			if value == "" || o.HandledByKind {
				continue
			}
			found++
			must.Hold(t, slices.Contains(o.Except, value), o.Attribute, "has the default", value, "which the other version rejects: add it to Except of its planrule.OneVersion")
		}
	}
	must.Hold(t, found >= 2, found, "attributes of one version have a default")
}

// defaultOf returns the default of an attribute in the form of Except, or "".
func defaultOf(ctx context.Context, a schema.Attribute) string {
	switch a := a.(type) {
	case schema.BoolAttribute:
		if a.Default != nil {
			var resp defaults.BoolResponse
			a.Default.DefaultBool(ctx, defaults.BoolRequest{}, &resp)
			return resp.PlanValue.String()
		}
	case schema.Int64Attribute:
		if a.Default != nil {
			var resp defaults.Int64Response
			a.Default.DefaultInt64(ctx, defaults.Int64Request{}, &resp)
			return resp.PlanValue.String()
		}
	case schema.StringAttribute:
		if a.Default != nil {
			var resp defaults.StringResponse
			a.Default.DefaultString(ctx, defaults.StringRequest{}, &resp)
			return resp.PlanValue.ValueString()
		}
	}
	return ""
}

// isUnsupported reports whether only another version has the attribute.
func isUnsupported(only []planrule.OneVersion, attribute string, v api.Version) bool {
	return slices.ContainsFunc(only, func(o planrule.OneVersion) bool { return o.Attribute == attribute && o.Version != v })
}

// If a version lacks an attribute, a data source shows the true value or null. A plan without the
// attribute replaces the object, is rejected, or really removes the value.
func TestOneVersionReportsTrueValues(t *testing.T) {
	acctest.LeaveToCI(t, "TestOneVersionTable covers the attributes")
	for typeName, attributes := range oneVersion(t) {
		for _, o := range attributes {
			t.Run(fmt.Sprint(typeName, ".", o.Attribute), func(t *testing.T) {
				t.Parallel()
				values, isMember := oneVersionValues[typeName].members[o.Attribute]
				if !isMember {
					values[0] = map[string]any{o.Attribute: oneVersionValues[typeName].values[o.Attribute]}
				}
				d := acctest.Deploy(t)
				supporting, lacking := drive(t, d, o.Version), drive(t, d, otherVersion[o.Version])
				config := newConfig(t, supporting, typeName, d.Name("one"))
				configured := withChanges(config, values[0])
				if configured["registry"] == "$auth" {
					auth := apply(t, supporting, "gpucloud_registry_auth", tfdrive.State{}, map[string]any{"name": d.Name("a"), "username": "u", "password": "p"}, "create")
					configured["registry"] = auth.Get("id")
				}
				state := apply(t, supporting, typeName, tfdrive.State{}, configured, "create")
				checkShownValue(t, supporting, lacking, state, o.Attribute)
				checkRemoval(t, supporting, lacking, state, o.Attribute, withChanges(config, values[1]))
			})
		}
	}
}

func checkShownValue(t *testing.T, supporting, lacking *tfdrive.Provider, state tfdrive.State, attribute string) {
	t.Helper()
	name, _, _ := strings.Cut(attribute, ".")
	if !slices.ContainsFunc(supporting.DataSchemas()[state.Type].Block.Attributes, func(a *tfprotov6.SchemaAttribute) bool { return a.Name == name }) {
		return
	}
	byID := map[string]any{"id": state.Get("id")}
	want, got := readSource(t, supporting.Reconfigure(), state.Type, byID).Get(attribute), readSource(t, lacking.Reconfigure(), state.Type, byID).Get(attribute)
	must.Hold(t, got == nil || reflect.DeepEqual(got, want), "a data source on the other version shows", attribute, got, "but the object has", want,
		": let Read return null for attributes that the version doesn't return, or remove HandledByKind from the attribute's planrule.OneVersion")
}

func checkRemoval(t *testing.T, supporting, lacking *tfdrive.Provider, state tfdrive.State, attribute string, without map[string]any) {
	t.Helper()
	read := refresh(t, lacking, state)
	planned := lacking.Plan(state.Type, read, without)
	switch {
	case planned.Diagnostics.Err() != nil:
		return
	case planned.Action == "replace":
		got := planned.Diagnostics.Warnings()
		must.Hold(t, strings.Contains(got, " will be replaced"), "the plan replaces the object because of", planned.Replace, "and warns", got)
		if strings.Contains(got, "import it") {
			again := lacking.Plan(state.Type, importState(t, lacking, state.Type, state.Get("id").(string)), without)
			must.Hold(t, again.Action != "replace", "after the import that the warning advises, the plan replaces the object because of", again.Replace)
		}
		return
	case planned.Action == "update":
		read = tfdrive.Do(lacking.Apply(planned))(t)
	}
	read = refresh(t, supporting, read)
	if again := supporting.Plan(state.Type, read, without); again.Action != "no-op" {
		t.Errorf("the other version planned to %s without %s and reported success, but the object still has the attribute: on its own version the next plan is %s (%s).\n"+
			"Remove HandledByKind from the attribute's planrule.OneVersion, so that the change replaces the object, or let the kind's plan rule reject it.\nread: %s\nplan: %s",
			planned.Action, attribute, again.Action, again.Diagnostics, read.Value, again.Value)
	}
}

// The table has only attributes that exactly one version has. A plan for the other version rejects them.
func TestOneVersionTable(t *testing.T) {
	known := oneVersion(t)
	d := acctest.Deploy(t)
	for typeName, cases := range oneVersionValues {
		configs := map[string]map[string]any{}
		for attribute, value := range cases.values {
			configs[attribute] = map[string]any{attribute: value}
		}
		for path, pair := range cases.members {
			configs[path] = pair[0]
		}
		must.Equal(t, len(configs), len(known[typeName]), typeName, "needs a value of each attribute of one version: add it to oneVersionValues")
		for attribute, config := range configs {
			i := slices.IndexFunc(known[typeName], func(o planrule.OneVersion) bool { return o.Attribute == attribute })
			must.Require(t, i >= 0, typeName, attribute, "isn't an attribute of exactly one version: remove it from oneVersionValues")
			version := known[typeName][i].Version
			planned := drive(t, d, otherVersion[version]).Plan(typeName, tfdrive.State{}, withChanges(requiredAttributes[typeName], map[string]any{"name": "one"}, config))
			must.ErrorContains(t, planned.Diagnostics.Err(), attribute+": ", fmt.Sprintf("exists in management API %s only", version))
		}
	}
}

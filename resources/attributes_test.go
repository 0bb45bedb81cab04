package resources_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// eachNumber calls f for each numeric attribute, with its path and a function that configures a value.
func eachNumber(attributes []*tfprotov6.SchemaAttribute, path string, wrap func(any) map[string]any, f func(path string, config func(any) map[string]any)) {
	for _, a := range attributes {
		config := func(v any) map[string]any { return wrap(map[string]any{a.Name: v}) }
		switch {
		case !a.Optional && !a.Required:
		case a.NestedType != nil && a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeList:
			eachNumber(a.NestedType.Attributes, path+a.Name+"[0].", func(v any) map[string]any { return config([]any{v}) }, f)
		case a.NestedType != nil:
			eachNumber(a.NestedType.Attributes, path+a.Name+".", config, f)
		case a.Type.Is(tftypes.Number):
			f(path+a.Name, config)
		}
	}
}

// A plan checks the bounds of every number, even if the API documents none.
func TestNumbersHaveBounds(t *testing.T) {
	_, p := deploy(t)
	count := 0
	for _, typeName := range p.Types() {
		unwrapped := func(v any) map[string]any { return v.(map[string]any) }
		eachNumber(p.Schema(typeName).Block.Attributes, "", unwrapped, func(path string, config func(any) map[string]any) {
			if strings.HasSuffix(path, "_version") || path == "max_hourly_cost" { // any number is valid
				return
			}
			count++
			for _, huge := range []float64{1_000_001, 1e9, 1e12, 1e18, 1e30} {
				if path == "timeout" && huge < 1e9 { // milliseconds
					continue
				}
				must.ErrorContains(t, p.Plan(typeName, tfdrive.State{}, config(huge)).Diagnostics.Err(), "Invalid "+path+": expected ")
			}
			must.ErrorContains(t, p.Plan(typeName, tfdrive.State{}, config(-1)).Diagnostics.Err(), "Invalid "+path+": expected ")
		})
	}
	must.Hold(t, count >= 25, "found", count, "numbers")
}

// Every kind's plan rejects a text that no container engine accepts as an image reference.
func TestImageReferences(t *testing.T) {
	d, p := deploy(t)
	for _, kind := range []string{endpointType, podType, clusterType, "gpucloud_template"} {
		config := withChanges(requiredAttributes[kind], map[string]any{"name": d.Name("i")})
		for _, image := range []string{"my image:1", " worker:1", "worker:1\n", "worker:", "https://ghcr.io/acme/worker", "worker@sha256:12", "a//b"} {
			expectRejection(t, d, p, tfdrive.State{}, kind, withChanges(config, map[string]any{"image": image}), "image", "Invalid image: expected the reference of a container image, such as ghcr.io/acme/worker:1.2, got ")
		}
		for _, image := range []string{
			"nginx", "ghcr.io/acme/worker:1.2", "localhost:5000/a/b/c_d__e-f.g:Tag_1.x-y", "registry.example.com:443/Team/App:V1", "10.0.0.1:5000/x",
			"worker@sha256:" + strings.Repeat("0", 64), "ghcr.io/a/b:1@sha256:" + strings.Repeat("aF", 32), "[::1]:5000/x", strings.Repeat("a", 64), "a/" + strings.Repeat("b", 300),
		} {
			must.Succeed(t, p.Plan(kind, tfdrive.State{}, withChanges(config, map[string]any{"image": image})).Diagnostics.Err(), kind, image, "is rejected")
		}
	}
}

// Terraform drops a misspelled attribute of an object. If the object is then empty, the plan
// warns. It isn't an error, because a module may set all attributes of an object to null.
func TestMisspelledAttributesOfObjects(t *testing.T) {
	d := acctest.Deploy(t)
	w := d.Workspace(t, must.Do(tfcli.Default(t.Context()))(t), api.V2)
	config := ""
	for i, attribute := range []string{"workers = { maximum = 50 }", "scaling = { delay = 9 }", "wait_for = { wroker = true }", `timeouts = { creates = "1h" }`} {
		config += strings.Replace(endpointWith(attribute), `"x"`, fmt.Sprintf("%q", fmt.Sprint("x", i)), 1)
	}
	w.Write("main.tf", config)
	plan := unwrap(w.MustRun("plan"))
	must.Hold(t, strings.Count(plan, "drops a misspelled attribute") == 4 && strings.Contains(plan, "4 to add"), "expected 4 warnings about misspelled attributes and 4 to add, got", plan)

	// This holds for every object whose attributes are all optional.
	p := drive(t, d, api.V2)
	found := 0
	for _, kind := range p.Types() {
		for _, a := range p.Schema(kind).Block.Attributes {
			if a.NestedType == nil || a.NestedType.Nesting != tfprotov6.SchemaObjectNestingModeSingle || !a.Optional ||
				slices.ContainsFunc(a.NestedType.Attributes, func(m *tfprotov6.SchemaAttribute) bool { return m.Required }) {
				continue
			}
			found++
			diags := p.Plan(kind, tfdrive.State{}, map[string]any{a.Name: map[string]any{}}).Diagnostics
			must.Hold(t, strings.Contains(diags.String(), "drops a misspelled attribute"), kind, "no warning about an empty", a.Name, diags)
		}
	}
	must.Hold(t, found >= 10, found, "objects are tested")
}

// An unknown value that becomes null may need a replacement, which the plan can only warn about.
func TestUnknownMayBecomeNull(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	endpoint := map[string]any{"name": "e", "image": "i"}
	for attribute, c := range map[string]struct {
		typeName string
		config   map[string]any
		value    any
	}{
		"gpu":    {endpointType, endpoint, map[string]any{"pools": []any{"ADA_24"}}},
		"cpu":    {endpointType, endpoint, []any{map[string]any{"id": "cpu3c", "vcpu_count": 2}}},
		"mounts": {"gpucloud_template", withChanges(minimalTemplate, map[string]any{"name": d.Name("t")}), map[string]any{"persistent": map[string]any{"size": 10, "path": "/a"}}},
	} {
		state := apply(t, p, c.typeName, tfdrive.State{}, withChanges(c.config, map[string]any{attribute: c.value}), "create")
		unknown := withChanges(c.config, map[string]any{attribute: tfdrive.Unknown})
		expectPlan(t, p, c.typeName, state, unknown, "update", attribute+": Known only after the plan: "+attribute+" is unknown")
		expectPlan(t, p, c.typeName, state, c.config, "replace")
		imported := expectPlan(t, p, c.typeName, importState(t, p, c.typeName, state.Get("id").(string)), unknown, "update")
		must.Equal(t, imported.Diagnostics.Warnings(), "", "the plan of an imported object warns about", attribute)
	}
	created := apply(t, p, endpointType, tfdrive.State{}, endpoint, "create")
	expectPlan(t, p, endpointType, created, withChanges(endpoint, map[string]any{"gpu": tfdrive.Unknown, "cpu": tfdrive.Unknown}), "replace")
}

// deletion_protection works for pods, volumes, and endpoints.
func TestProtection(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	expectProtection(t, d, p, podType, gpuPod(nil), map[string]any{"cloud": "COMMUNITY"})
	expectProtection(t, d, p, "gpucloud_network_volume", map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"}, map[string]any{"data_center": "US-TX-3"})
	expectProtection(t, d, p, "gpucloud_endpoint", map[string]any{"name": "e", "image": "i"}, map[string]any{"type": "LOAD_BALANCER", "scaling": map[string]any{"type": "REQUEST_COUNT"}})
}

// expectProtection expects that deletion_protection prevents a deletion and a replacement until a separate apply.
func expectProtection(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, typeName string, config, replacing map[string]any) {
	t.Helper()
	protected := withChanges(config, map[string]any{"deletion_protection": true})
	state := apply(t, p, typeName, apply(t, p, typeName, tfdrive.State{}, config, "create"), protected, "update")
	expectRejection(t, d, p, state, typeName, withChanges(protected, replacing), "deletion_protection", "would be replaced")
	expectRejection(t, d, p, state, typeName, withChanges(config, replacing), "deletion_protection", "set deletion_protection = false and apply that first")
	must.ErrorContains(t, p.PlanReplace(typeName, state, protected).Diagnostics.Err(), "would be replaced, and deletion_protection is true")
	writes := d.Writes()
	must.ErrorContains(t, p.Destroy(state).Err(), "would be deleted, and deletion_protection is true")
	must.Equal(t, d.Writes(), writes, "a write was sent")
	state = apply(t, p, typeName, state, config, "update")
	must.Equal(t, d.Writes(), writes, "only the state has the protection, but a write was sent")
	expectPlan(t, p, typeName, state, withChanges(config, replacing), "replace")
	must.Succeed(t, p.PlanReplace(typeName, state, protected).Diagnostics.Err())
}

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

// numbers calls f for each numeric attribute, with its path and a function that returns a
// configuration with a value of the attribute.
func numbers(attributes []*tfprotov6.SchemaAttribute, path string, wrap func(any) map[string]any, f func(path string, config func(any) map[string]any)) {
	for _, a := range attributes {
		config := func(v any) map[string]any { return wrap(map[string]any{a.Name: v}) }
		switch {
		case !a.Optional && !a.Required:
		case a.NestedType != nil && a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeList:
			numbers(a.NestedType.Attributes, path+a.Name+"[0].", func(v any) map[string]any { return config([]any{v}) }, f)
		case a.NestedType != nil:
			numbers(a.NestedType.Attributes, path+a.Name+".", config, f)
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
		numbers(p.Schema(typeName).Block.Attributes, "", unwrapped, func(path string, config func(any) map[string]any) {
			if strings.HasSuffix(path, "_version") || path == "max_hourly_cost" { // any number is valid
				return
			}
			count++
			for _, huge := range []float64{1_000_001, 1e9, 1e12, 1e18, 1e30} {
				if path == "timeout" && huge < 1e9 { // milliseconds
					continue
				}
				err := p.Plan(typeName, tfdrive.State{}, config(huge)).Diagnostics.Err()
				must.Hold(t, err != nil && strings.Contains(err.Error(), "Invalid "+path+": expected "), typeName, path, huge, err)
			}
			err := p.Plan(typeName, tfdrive.State{}, config(-1)).Diagnostics.Err()
			must.Hold(t, err != nil && strings.Contains(err.Error(), "Invalid "+path+": expected "), typeName, path, "-1", err)
		})
	}
	must.Hold(t, count >= 25, "found", count, "numbers")
}

// The plan of every kind rejects a text that no container engine accepts as an image reference.
// The deployment decides about the others.
func TestImageReferences(t *testing.T) {
	d, p := deploy(t)
	kinds := map[string]map[string]any{
		endpointType:        {"name": "e"},
		podType:             {"name": "p", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}},
		clusterType:         {"name": "c", "type": "TRAINING", "compute": map[string]any{"gpu_type_id": "NVIDIA L4", "gpu_count_per_pod": 1, "pod_count": 2}},
		"gpucloud_template": {"name": d.Name("t")},
	}
	for kind, config := range kinds {
		for _, image := range []string{"my image:1", " worker:1", "worker:1\n", "worker:", "https://ghcr.io/acme/worker", "worker@sha256:12", "a//b"} {
			expectRefusal(t, d, p, tfdrive.State{}, kind, with(config, map[string]any{"image": image}), "image", "Invalid image: expected the reference of a container image, such as ghcr.io/acme/worker:1.2, got ")
		}
		for _, image := range []string{
			"nginx", "ghcr.io/acme/worker:1.2", "localhost:5000/a/b/c_d__e-f.g:Tag_1.x-y", "registry.example.com:443/Team/App:V1", "10.0.0.1:5000/x",
			"worker@sha256:" + strings.Repeat("0", 64), "ghcr.io/a/b:1@sha256:" + strings.Repeat("aF", 32), "[::1]:5000/x", strings.Repeat("a", 64), "a/" + strings.Repeat("b", 300),
		} {
			err := p.Plan(kind, tfdrive.State{}, with(config, map[string]any{"image": image})).Diagnostics.Err()
			must.Hold(t, err == nil, kind, image, "is refused", err)
		}
	}
}

// Terraform drops a misspelt attribute of an object. If this empties the object, the plan warns.
// It doesn't warn if the attributes are set to null, as modules do on purpose.
func TestMisspeltAttributesOfObjects(t *testing.T) {
	d := acctest.Deploy(t)
	cli := must.Do(tfcli.Default(t.Context()))(t)
	w := d.Workspace(t, cli, api.V2)
	config := ""
	for i, attribute := range []string{"workers = { maximum = 50 }", "scaling = { delay = 9 }", "wait_for = { wroker = true }", `timeouts = { creates = "1h" }`} {
		config += strings.Replace(endpointWith(attribute), `"x"`, fmt.Sprintf("%q", fmt.Sprint("x", i)), 1)
	}
	w.Write("main.tf", config)
	plan := unwrap(w.MustRun("plan"))
	must.Hold(t, strings.Count(plan, "drops a misspelt attribute") == 4 && strings.Contains(plan, "4 to add"), plan)

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
			must.Hold(t, strings.Contains(diags.String(), "drops a misspelt attribute"), kind, "no warning about an empty", a.Name, diags)
		}
	}
	must.Hold(t, found >= 10, found, "objects are tested")
}

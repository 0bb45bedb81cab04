package resources_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
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
		same := func(v any) map[string]any { return v.(map[string]any) }
		numbers(p.Schema(typeName).Block.Attributes, "", same, func(path string, config func(any) map[string]any) {
			if strings.HasSuffix(path, "_version") || path == "max_hourly_cost" { // any number is valid
				return
			}
			count++
			for _, huge := range []float64{1_000_001, 1e9, 1e12, 1e18, 1e30} {
				if path == "timeout" && huge < 1e9 { // milliseconds
					continue
				}
				err := p.Plan(typeName, tfdrive.State{}, config(huge)).Diagnostics.Err()
				if err == nil || !strings.Contains(err.Error(), "Invalid "+path+": expected ") {
					t.Errorf("%s.%s = %g: %v", typeName, path, huge, err)
				}
			}
			if err := p.Plan(typeName, tfdrive.State{}, config(-1)).Diagnostics.Err(); err == nil || !strings.Contains(err.Error(), "Invalid "+path+": expected ") {
				t.Errorf("%s.%s = -1: %v", typeName, path, err)
			}
		})
	}
	if count < 25 {
		t.Errorf("found %d numbers", count)
	}
}

// A pod's template must exist. It belongs to the account or is public.
func TestPodTemplateExists(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p := drive(t, d, v)
		config := map[string]any{"name": "p", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}}
		for _, id := range []string{"nope", "gone0123456789"} {
			expectRefusal(t, d, p, tfdrive.State{}, podType, with(config, map[string]any{"template_id": id}), "template_id", "does not exist")
		}
		public, err := d.Client(t, v).CatalogTemplates(t.Context())
		must.Succeed(t, err)
		for _, template := range public {
			planned := p.Plan(podType, tfdrive.State{}, with(config, map[string]any{"template_id": template.ID}))
			if err := planned.Diagnostics.Err(); (err != nil) != template.Serverless {
				t.Errorf("public template %s: %v", template.Name, err)
			}
		}
		if len(public) == 0 {
			t.Error("the deployment has no public template")
		}
		state := apply(t, p, podType, tfdrive.State{}, with(config, map[string]any{"image": "builtin/echo"}), "create")
		expectRefusal(t, d, p, state, podType, with(config, map[string]any{"template_id": "nope"}), "template_id", "does not exist")
	})
}

// Moving a variable from env to env_wo with the same value doesn't replace the container.
func TestVariableBecomesWriteOnly(t *testing.T) {
	_, p := deploy(t)
	config := cpuPod(with(waits(map[string]any{"running": true}, "5m"), map[string]any{"env": map[string]any{"A": "a", "B": "b"}}))
	state := apply(t, p, podType, tfdrive.State{}, config, "create")
	for value, warns := range map[string]bool{"b": false, "c": true} {
		for _, env := range []map[string]any{{"A": "a"}, nil} {
			written := map[string]any{"A": "a", "B": value}
			changed := with(config, map[string]any{"env": nil, "env_wo": written, "env_wo_version": 1})
			if env != nil {
				delete(written, "A")
				changed["env"] = env
			}
			planned := p.Plan(podType, state, changed)
			if got := strings.Contains(planned.Diagnostics.Warnings(), "The container of the pod will be replaced"); got != warns || planned.Action != "update" {
				t.Errorf("B = %q: planned to %s: %s", value, planned.Action, planned.Diagnostics)
			}
		}
	}
}

package resources_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// Terraform drops a misspelt attribute of an object. If this empties the object, the plan warns.
// It doesn't warn if the attributes are set to null, as modules do on purpose.
func TestMisspeltAttributesOfObjects(t *testing.T) {
	d := acctest.Deploy(t)
	cli, err := tfcli.Default(t.Context())
	must.Succeed(t, err)
	w := d.Workspace(t, cli, api.V2)
	config := ""
	for i, attribute := range []string{"workers = { maximum = 50 }", "scaling = { delay = 9 }", "wait_for = { wroker = true }", `timeouts = { creates = "1h" }`} {
		config += strings.Replace(endpointWith(attribute), `"x"`, fmt.Sprintf("%q", fmt.Sprint("x", i)), 1)
	}
	w.Write("main.tf", config)
	plan := unwrap(w.MustRun("plan"))
	if strings.Count(plan, "drops a misspelt attribute") != 4 || !strings.Contains(plan, "4 to add") {
		t.Error(plan)
	}

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
			if !strings.Contains(diags.String(), "drops a misspelt attribute") {
				t.Errorf("%s: no warning about an empty %s: %s", kind, a.Name, diags)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d objects are tested", found)
	}
}

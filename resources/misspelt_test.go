package resources_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// Terraform drops a misspelt attribute of an object. Where that leaves nothing of the
// object, it is refused.
func TestMisspeltAttributesOfObjects(t *testing.T) {
	d := acctest.Deploy(t)
	block := d.Block(api.V2)
	var steps []resource.TestStep
	for _, attribute := range []string{"workers = { maximum = 50 }", "scaling = { delay = 9 }", "wait_for = { wroker = true }", `timeouts = { creates = "1h" }`, `gpu = { pool = ["ADA_24"] }`} {
		steps = append(steps, fails(block+endpointWith(attribute), `(?s)drops\s+a\s+misspelt\s+attribute`))
	}
	acctest.Run(t, steps...)

	// So it is with every object of which each attribute may be left out.
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
			if err := diags.Err(); err == nil || !strings.Contains(err.Error(), "drops a misspelt attribute") {
				t.Errorf("%s: an empty %s is accepted: %v", kind, a.Name, err)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d objects are tested", found)
	}
}

package resources_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// A plan reverts changes that were made to an endpoint elsewhere, and shows them, whatever the
// source of the template.
func TestDriftOfEndpointWithTemplate(t *testing.T) {
	acctest.LeaveToCI(t, "TestEndpointTemplateDrift has it over the protocol")
	named := func(name string) string {
		return fmt.Sprintf(`
resource "gpucloud_template" "t" {
  name       = %q
  image      = "good:1"
  serverless = true
  env        = { LEVEL = "info", OTHER = "x" }
}
`, name)
	}
	eachCLIAndVersion(t, func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version) {
		endpoint := func(name, id string) string {
			return "resource \"gpucloud_endpoint\" \"" + name + "\" {\n  name        = \"" + name + "\"\n  template_id = " + id + "\n}\n"
		}
		const module = "output \"id\" { value = gpucloud_template.t.id }\nterraform {\n  required_providers { gpucloud = { source = \"gpucloud/gpucloud\" } }\n}\n"
		w.Write("module/main.tf", named("of the module")+module)
		literal := d.Workspace(t, w.CLI, v)
		literal.Write("main.tf", named("elsewhere"))
		literal.MustRun("apply", "-auto-approve")
		made, err := d.Client(t, v).Templates.List(t.Context())
		if err != nil || len(made) != 1 {
			t.Fatal(made, err)
		}
		w.Write("main.tf", named("mine")+endpoint("configuration", "gpucloud_template.t.id")+
			"module \"m\" {\n  source = \"./module\"\n}\n"+endpoint("module", "module.m.id")+endpoint("literal", `"`+made[0].ID+`"`))
		w.MustRun("get")
		w.MustRun("apply", "-auto-approve")
		c := d.Client(t, api.V2)
		endpoints, err := c.Endpoints.List(t.Context())
		if err != nil || len(endpoints) != 3 {
			t.Fatal(endpoints, err)
		}
		for _, have := range endpoints {
			want, container := have, *have.Container
			container.Image, container.Env = new("evil:1"), map[string]string{"LEVEL": "debug", "OTHER": "x"}
			want.Container = &container
			if _, err := c.Endpoints.Update(t.Context(), have, want); err != nil {
				t.Fatal(err)
			}
		}
		plan := unwrap(w.MustRun("plan"))
		shown := []string{`~ image = "evil:1" -> "good:1"`, `~ "LEVEL" = "digest:`}
		if v == api.V1 { // v1 shows that the link to the template was removed
			shown = []string{"+ template_id ="}
		}
		for _, text := range append(shown, "0 to add, 3 to change") {
			if n := strings.Count(plan, text); n != 3 && (n != 1 || strings.Contains(text, "~") || strings.Contains(text, "+ template")) {
				t.Errorf("%q is there %d times:\n%s", text, n, plan)
			}
		}
		if v == api.V2 && strings.Contains(plan, `"OTHER" =`) {
			t.Errorf("the plan shows what did not change:\n%s", plan)
		}
		w.MustRun("apply", "-auto-approve")
		for _, e := range endpoints {
			if got := image(t, d, e.ID); got != "good:1" {
				t.Errorf("%s: workers run %s", e.Name, got)
			}
		}
		w.MustRun("plan", "-detailed-exitcode")
		w.MustRun("destroy", "-auto-approve")
		literal.MustRun("destroy", "-auto-approve")
	})
}

// A state of an older release plans no change.
func TestStateOfAnOlderRelease(t *testing.T) {
	acctest.LeaveToCI(t, "provider.TestSchemaVersions upgrades states over the protocol")
	eachCLIAndVersion(t, func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace, _ api.Version) {
		w.Write("main.tf", `
resource "gpucloud_template" "t" {
  name       = "t"
  image      = "i"
  serverless = true
}
resource "gpucloud_endpoint" "e" {
  name        = "e"
  template_id = gpucloud_template.t.id
}
`)
		w.MustRun("apply", "-auto-approve")
		var state map[string]any
		text := w.MustRun("state", "pull")
		if err := json.Unmarshal(document(text), &state); err != nil {
			t.Fatal(err)
		}
		for _, r := range state["resources"].([]any) {
			instance := r.(map[string]any)["instances"].([]any)[0].(map[string]any)
			if attributes := instance["attributes"].(map[string]any); r.(map[string]any)["type"] == "gpucloud_endpoint" {
				delete(attributes, "from_template")
				attributes["template_applied"], attributes["template_seen"] = "t123+p456", "t123+p456"
				delete(instance, "private")
			}
		}
		old, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		w.Write("terraform.tfstate", string(old))
		w.MustRun("plan", "-detailed-exitcode")
		w.MustRun("destroy", "-auto-approve")
	})
}

// If only the other version can change a setting, no plan claims to change it.
func TestSettingOfTheOtherVersion(t *testing.T) {
	acctest.LeaveToCI(t, "TestSwitchingVersions has it over the protocol")
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		d := acctest.Deploy(t)
		w := d.Workspace(t, cli, api.V1)
		config := func(more string) {
			w.Write("main.tf", "resource \"gpucloud_template\" \"t\" {\n  name  = \"t\"\n  image = \"i\"\n"+more+"\n}\n")
		}
		config(`docker_entrypoint = ["/init"]` + "\n" + `readme = "hello"`)
		w.MustRun("apply", "-auto-approve")
		config("")
		v2 := w.At("GPUCLOUD_API_VERSION=v2")
		expectOutput(t, v2.MustRun("plan"), "must be replaced", "# forces replacement", "The template will be replaced", `apply this change once with api_version = "v1"`)
		v2.MustRun("apply", "-auto-approve")
		got, err := d.Client(t, api.V1).Templates.List(t.Context())
		if err != nil || len(got) != 1 || len(*got[0].Entrypoint) != 0 || *got[0].Readme != "" {
			t.Errorf("version 1 has %+v, %v", got, err)
		}
		v2.MustRun("plan", "-detailed-exitcode")
		v2.MustRun("destroy", "-auto-approve")
	})
}

// A plan that is never applied doesn't affect later runs. terraform test has several runs in one
// process.
func TestPlanThatIsNotApplied(t *testing.T) {
	eachCLIAndVersion(t, func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace, _ api.Version) {
		w.Write("main.tf", `
variable "image" { default = "img:1" }
resource "gpucloud_template" "t" {
  name       = "t"
  image      = var.image
  serverless = true
}
output "id" { value = gpucloud_template.t.id }
`)
		w.Write("endpoint/main.tf", `
terraform {
  required_providers { gpucloud = { source = "gpucloud/gpucloud" } }
}
variable "id" {}
resource "gpucloud_endpoint" "e" {
  name        = "e"
  template_id = var.id
}
`)
		w.Write("run.tftest.hcl", `
run "make" {}
run "endpoint" {
  module { source = "./endpoint" }
  variables { id = run.make.id }
}
run "only_planned" {
  command = plan
  variables { image = "img:2" }
}
run "endpoint_again" {
  module { source = "./endpoint" }
  variables { id = run.make.id }
  assert {
    condition     = gpucloud_endpoint.e.from_template.image == "img:1"
    error_message = "the plan was applied to the endpoint"
  }
}
`)
		w.MustRun("get")
		expectOutput(t, w.MustRun("test"), "4 passed, 0 failed")
	})
}

// A value that a template's configuration marks as sensitive is neither in an output nor in a
// private state.
func TestSecretsOfATemplate(t *testing.T) {
	acctest.LeaveToCI(t, "internal/test/scale.TestSecretsStayOut looks for more secrets")
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		d := acctest.Deploy(t)
		w := d.Workspace(t, cli, api.V2)
		w.Write("main.tf", `
variable "s" { sensitive = true }
resource "gpucloud_template" "t" {
  name       = "t"
  image      = "i"
  args       = "--token ${var.s}"
  env        = { PIN = var.s }
  serverless = true
}
resource "gpucloud_endpoint" "e" {
  name        = "e"
  template_id = gpucloud_template.t.id
}
`)
		out := w.MustRun("apply", "-auto-approve", "-var=s=hunter2")
		out += w.MustRun("plan", "-var=s=swordfish", "-out=saved") + w.MustRun("show") + w.MustRun("show", "saved")
		expectOutput(t, out, "~ from_template", "~ args = (sensitive value)", `~ "PIN" = "digest:`)
		out += w.MustRun("apply", "saved")
		var state struct {
			Resources []struct{ Instances []struct{ Private []byte } }
		}
		text := w.MustRun("state", "pull")
		if err := json.Unmarshal(document(text), &state); err != nil {
			t.Fatal(err)
		}
		for _, r := range state.Resources {
			out += string(r.Instances[0].Private)
		}
		for _, secret := range []string{"hunter2", "swordfish"} {
			if i := strings.Index(out, secret); i >= 0 {
				t.Errorf("%s is shown: …%s…", secret, out[max(0, i-200):i+20])
			}
		}
		w.MustRun("plan", "-detailed-exitcode", "-var=s=swordfish")
		w.MustRun("destroy", "-auto-approve", "-var=s=swordfish")
	})
}

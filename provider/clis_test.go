package provider_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

const (
	yes = "yes"
	no  = "no"
)

// cliFeature is a row of the table. try returns the content of a CLI's cell.
type cliFeature struct {
	title string
	try   func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string
}

const volume = `resource "gpucloud_network_volume" "v" {
  name        = "v"
  size        = 10
  data_center = "EU-RO-1"
}
`

var cliFeatures = []cliFeature{
	{"`password_wo` from an ephemeral variable is in no state or saved plan", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		const secret = "a-secret-of-this-test"
		w.Write("main.tf", `variable "token" {
  type      = string
  ephemeral = true
}
resource "gpucloud_registry_auth" "r" {
  name                = "r"
  username            = "u"
  password_wo         = var.token
  password_wo_version = 1
}
`)
		set := "-var=token=" + secret
		out, err := w.Run("plan", "-out=saved", set)
		if err != nil {
			return expectUnsupported(t, out, "not expected here")
		}
		shown := w.MustRun("show", "-json", "saved")
		w.MustRun("apply", set, "saved")
		state := must.ReadFile(t, filepath.Join(w.Dir, "terraform.tfstate"))
		must.Hold(t, !strings.Contains(shown, secret) && !strings.Contains(string(state), secret), "the secret is kept", shown, string(state))
		return yes
	}},
	{"provider functions: `provider::gpucloud::port(8888, \"http\")`", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", `output "all" {
  value = [
    provider::gpucloud::port(8888, "http"),
    provider::gpucloud::shell_join(["echo", "a b"]),
    one(provider::gpucloud::gpu_pools(["NVIDIA L4"])),
    provider::gpucloud::parse_image("acme/worker:2").tag,
    provider::gpucloud::run_url("e1", "https://queue.example.com"),
  ]
}
output "unknown" {
  value = provider::gpucloud::gpu_pools([terraform_data.t.output])
}
resource "terraform_data" "t" {
  input = "NVIDIA A40"
}
`)
		expect(t, w.MustRun("plan"), "+ unknown = (known after apply)")
		w.MustRun("apply", "-auto-approve")
		var outputs map[string]struct{ Value []string }
		must.Succeed(t, json.Unmarshal([]byte(w.MustRun("output", "-json")), &outputs))
		want := []string{"8888/http", "echo 'a b'", "ADA_24", "2", "https://queue.example.com/v2/e1/run"}
		must.Hold(t, slices.Equal(outputs["all"].Value, want) && slices.Equal(outputs["unknown"].Value, []string{"AMPERE_48"}), "outputs", outputs)
		return yes
	}},
	{"where an error in a function's argument is shown", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", "output \"port\" {\n  value = provider::gpucloud::port(\n    8888,\n    \"udp\",\n  )\n}\n")
		return whereItPoints(t, w, "expected \"http\" or \"tcp\"", "\"udp\"")
	}},
	{"provider actions: `action_trigger` after a change, and `apply -invoke`", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", `resource "gpucloud_endpoint" "e" {
  name  = "e"
  image = "builtin/conformance"
  lifecycle {
    action_trigger {
      events  = [after_create, after_update]
      actions = [action.gpucloud_job_run.smoke]
    }
  }
}
action "gpucloud_job_run" "smoke" {
  config {
    endpoint_id      = gpucloud_endpoint.e.id
    input            = jsonencode({ op = "echo" })
    expected_members = jsonencode({ op = "echo" })
  }
}
`)
		out, err := w.Run("apply", "-auto-approve")
		must.Equal(t, w.CLI.HasActionsAndQueries(), err == nil, "HasActionsAndQueries")
		if err != nil {
			return expectUnsupported(t, out, "Blocks of type \"action\" are not expected here")
		}
		expect(t, out, " is COMPLETED after ")
		expect(t, w.MustRun("apply", "-auto-approve"), "No changes.")
		w.Write("more.tf", "action \"gpucloud_endpoint_purge_queue\" \"all\" {\n  config {\n    endpoint_id = gpucloud_endpoint.e.id\n  }\n}\n")
		return expect(t, w.MustRun("apply", "-auto-approve", "-invoke=action.gpucloud_endpoint_purge_queue.all"), "Jobs removed from the queue of endpoint ")
	}},
	{"provider actions: `action_trigger` before a deletion, with `caller.id`", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", `resource "gpucloud_endpoint" "e" {
  name  = "e"
  image = "builtin/conformance"
  lifecycle {
    action_trigger {
      events  = [before_destroy]
      actions = [action.gpucloud_endpoint_purge_queue.all]
    }
  }
}
action "gpucloud_endpoint_purge_queue" "all" {
  config {
    endpoint_id = caller.id
  }
}
`)
		if out, err := w.Run("apply", "-auto-approve"); err != nil {
			return expectUnsupported(t, out, "Blocks of type \"action\" are not expected here")
		}
		return expect(t, w.MustRun("destroy", "-auto-approve"), "Jobs removed from the queue of endpoint ")
	}},
	{"ephemeral resource `gpucloud_job`", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", fmt.Sprintf(`ephemeral "gpucloud_job" "j" {
  endpoint_id = %q
  input       = jsonencode({ op = "echo" })
  lifecycle {
    postcondition {
      condition     = jsondecode(self.output).op == "echo"
      error_message = "wrong output"
    }
  }
}
`, makeEndpoint(t, d)))
		return expect(t, w.MustRun("apply", "-auto-approve"), "Apply complete!")
	}},
	{"`import` command", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		id := makeVolume(t, d)
		w.Write("main.tf", volume)
		w.MustRun("import", "gpucloud_network_volume.v", id)
		return expectUnchanged(t, w)
	}},
	{"`import` block", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", volume+importBlock(makeVolume(t, d)))
		w.MustRun("apply", "-auto-approve")
		return expectUnchanged(t, w)
	}},
	{"`import` block by identity", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", volume+strings.NewReplacer("id = ", "identity = { id = ", "\n}\n", " }\n}\n").Replace(importBlock(makeVolume(t, d))))
		out, err := w.Run("apply", "-auto-approve")
		if err != nil {
			return expectUnsupported(t, out, "An argument named \"identity\" is not expected here")
		}
		expect(t, out, "1 imported, 0 added, 0 changed, 0 destroyed")
		return expectUnchanged(t, w)
	}},
	{"`import` block by a unique name", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		makeVolume(t, d)
		w.Write("main.tf", volume+importBlock("v"))
		expect(t, w.MustRun("apply", "-auto-approve"), "1 imported, 0 added, 0 changed, 0 destroyed")
		return expectUnchanged(t, w)
	}},
	{"`query` finds objects and writes configuration that imports them without a change", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		makeVolume(t, d)
		w.Write("all.tfquery.hcl", "list \"gpucloud_network_volume\" \"all\" {\n  provider = gpucloud\n}\n")
		out, err := w.Run("query", "-generate-config-out=generated.tf")
		must.Equal(t, w.CLI.HasActionsAndQueries(), err == nil, "HasActionsAndQueries")
		if err != nil {
			return expectUnsupported(t, out, "no command named \"query\"")
		}
		expect(t, w.MustRun("apply", "-auto-approve"), "1 imported, 0 added, 0 changed, 0 destroyed")
		return expectUnchanged(t, w)
	}},
	{"`plan -generate-config-out` writes configuration for an `import` block", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", importBlock(makeVolume(t, d)))
		w.MustRun("plan", "-generate-config-out=generated.tf")
		w.MustRun("apply", "-auto-approve")
		return expectUnchanged(t, w)
	}},
	{"`moved` block renames a resource", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", volume)
		w.MustRun("apply", "-auto-approve")
		w.Write("main.tf", strings.Replace(volume, `"v"`, `"renamed"`, 1)+
			"moved {\n  from = gpucloud_network_volume.v\n  to   = gpucloud_network_volume.renamed\n}\n")
		return expect(t, w.MustRun("apply", "-auto-approve"), "0 added, 0 changed, 0 destroyed")
	}},
	{"`moved` block takes over an object of another provider ([guide](../guides/migrate.md))", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("terraform.tfstate", fmt.Sprintf(`{"version": 4, "terraform_version": "1.9.8", "serial": 1, "lineage": "l", "resources": [{
  "mode": "managed", "type": "runpod_network_volume", "name": "v", "provider": %q, "instances": [{"schema_version": 0, "attributes": {"id": %q, "data_center": null}}]
}]}`, w.Address("runpod/runpod"), makeVolume(t, d)))
		w.Serve("runpod/runpod")
		w.Write("main.tf", volume+"moved {\n  from = runpod_network_volume.v\n  to   = gpucloud_network_volume.v\n}\n")
		expect(t, w.MustRun("apply", "-auto-approve"), "0 added, 0 changed, 0 destroyed")
		return expectUnchanged(t, w)
	}},
	{"`removed` block keeps the object but stops managing it", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", volume)
		w.MustRun("apply", "-auto-approve")
		w.Write("main.tf", "removed {\n  from = gpucloud_network_volume.v\n  lifecycle {\n    destroy = false\n  }\n}\n")
		w.MustRun("apply", "-auto-approve")
		left, err := d.Client(t, api.V2).NetworkVolumes.List(t.Context())
		must.Require(t, err == nil && len(left) == 1, len(left), "volumes are left", err)
		must.Contain(t, w.MustRun("show"), "The state file is empty")
		return yes
	}},
	{"`test` command, with `run` blocks that apply", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", volume)
		w.Write("volume.tftest.hcl", "run \"create\" {\n  assert {\n    condition     = gpucloud_network_volume.v.size == 10\n    error_message = \"wrong size\"\n  }\n}\n")
		return expect(t, w.MustRun("test"), "1 passed, 0 failed")
	}},
	{"`run.NAME` in an assertion of a test", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", "output \"o\" {\n  value = 1\n}\n")
		w.Write("a.tftest.hcl", "run \"one\" {}\nrun \"two\" {\n  assert {\n    condition     = output.o == run.one.o\n    error_message = \"differs\"\n  }\n}\n")
		out, err := w.Run("test")
		if err != nil {
			return expectUnsupported(t, out, "There is no variable named \"run\"")
		}
		return expect(t, out, "2 passed, 0 failed")
	}},
	{"`test` command with `mock_provider` sends nothing", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", volume)
		w.Write("volume.tftest.hcl", "mock_provider \"gpucloud\" {}\nrun \"create\" {\n  assert {\n    condition     = gpucloud_network_volume.v.id != null\n    error_message = \"no id\"\n  }\n}\n")
		out := w.MustRun("test")
		must.Equal(t, d.Writes(), 0, "requests were sent")
		return expect(t, out, "1 passed, 0 failed")
	}},
	{"a failed assertion of a `check` block is a warning", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", volume+"check \"size\" {\n  assert {\n    condition     = gpucloud_network_volume.v.size >= 50\n    error_message = \"The volume is small.\"\n  }\n}\n")
		return expect(t, w.MustRun("apply", "-auto-approve"), "Warning: Check block assertion failed")
	}},
	{"warnings of the provider in a plan", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", "provider \"gpucloud\" {\n  api_version = \"v1\"\n}\n"+volume)
		return expect(t, w.MustRun("plan"), "Warning: Management API v1 is retired")
	}},
	{"where a plan's error about an attribute is shown", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", volume)
		w.MustRun("apply", "-auto-approve")
		w.Write("main.tf", strings.Replace(volume, "10", "9", 1))
		return whereItPoints(t, w, "can't shrink", "size        = 9")
	}},
	{"where a plan's error about a nested attribute is shown", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", `resource "gpucloud_endpoint" "e" {
  name  = "e"
  image = "i"
  scaling = {
    type        = "REQUEST_COUNT"
    queue_delay = 4
  }
}
`)
		return whereItPoints(t, w, "takes request_count", "queue_delay = 4")
	}},
	{"provider block with `for_each`, such as one per account", func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", fmt.Sprintf(`locals {
  accounts = { one = %q }
}
provider "gpucloud" {
  alias    = "of"
  for_each = local.accounts
  api_key  = each.value
}
resource "gpucloud_network_volume" "v" {
  for_each    = local.accounts
  provider    = gpucloud.of[each.key]
  name        = each.key
  size        = 10
  data_center = "EU-RO-1"
}
`, d.Key))
		out, err := w.Run("apply", "-auto-approve")
		if err != nil {
			return expectUnsupported(t, out, "for_each")
		}
		return expect(t, out, "1 added")
	}},
	{"`required_version` in a `.tf` file rejects older releases", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		return obeysRequiredVersion(t, w, "versions.tf")
	}},
	{"`required_version` in a `.tofu` file rejects older releases", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		return obeysRequiredVersion(t, w, "versions.tofu")
	}},
	{"encrypted state (`encryption` block)", func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace) string {
		w.Write("main.tf", volume+`terraform {
  encryption {
    key_provider "pbkdf2" "p" {
      passphrase = "a passphrase of this test"
    }
    method "aes_gcm" "m" {
      keys = key_provider.pbkdf2.p
    }
    state {
      method = method.aes_gcm.m
    }
  }
}
`)
		out, err := w.Run("apply", "-auto-approve")
		if err != nil {
			return expectUnsupported(t, out, "Blocks of type \"encryption\" are not expected")
		}
		state, err := os.ReadFile(filepath.Join(w.Dir, "terraform.tfstate"))
		must.Hold(t, err == nil && !strings.Contains(string(state), "gpucloud_network_volume"), "the state is not encrypted", err, string(state))
		return yes
	}},
}

// The table is correct for each CLI on this machine.
func TestCLIFeatures(t *testing.T) {
	text, columns, rows := readGuide(t)
	for _, release := range tfcli.Releases {
		must.Hold(t, strings.Contains(text, release.String()), cliGuide, "does not name", release, "which the tests run on")
	}
	documented := map[string]bool{}
	for i, f := range cliFeatures {
		documented[f.title] = true
		t.Run(f.title, func(t *testing.T) {
			if i%3 != 0 {
				acctest.LeaveToCI(t, "every third feature is the sample")
			}
			cells := rows[f.title]
			if len(cells) != len(columns) {
				t.Errorf("%s has no full row for this feature", cliGuide)
				cells = make([]string, len(columns))
			}
			acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
				column, ok := columns[series(cli)]
				if !ok {
					t.Skipf("%s has no column for %s", cliGuide, series(cli))
				}
				t.Parallel()
				d := acctest.Deploy(t)
				must.Equal(t, f.try(t, d, d.Workspace(t, cli, api.V2)), cells[column], cli, "has another cell in the table of", cliGuide)
			})
		})
	}
	for title := range rows {
		must.Hold(t, documented[title], cliGuide, "has a row without a test", title)
	}
}

func makeVolume(t *testing.T, d *acctest.Deployment) (id string) {
	t.Helper()
	return must.Do(d.Client(t, api.V2).NetworkVolumes.Create(t.Context(), api.NetworkVolume{Name: "v", Size: 10, DataCenter: "EU-RO-1"}))(t).ID
}

// makeEndpoint creates an endpoint whose handler performs the operation in a job's input.
func makeEndpoint(t *testing.T, d *acctest.Deployment) (id string) {
	t.Helper()
	created := must.Do(d.Client(t, api.V2).Endpoints.Create(t.Context(), api.Endpoint{
		Name: "jobs", Type: "QUEUE", Workers: api.Workers{Max: 1}, Container: &api.Container{Image: new("builtin/conformance")},
	}))(t)
	return created.ID
}

func importBlock(id string) string {
	return fmt.Sprintf("import {\n  to = gpucloud_network_volume.v\n  id = %q\n}\n", id)
}

func expectUnchanged(t *testing.T, w *acctest.Workspace) string {
	t.Helper()
	return expect(t, w.MustRun("plan"), "No changes.")
}

// expect expects output that every CLI prints.
func expect(t *testing.T, output, want string) string {
	t.Helper()
	must.Contain(t, output, want)
	return yes
}

// expectUnsupported expects a failure for the reason, because the CLI lacks the feature.
func expectUnsupported(t *testing.T, output, reason string) string {
	t.Helper()
	must.Contain(t, output, reason)
	return no
}

// obeysRequiredVersion returns whether the CLI fails if required_version in the file demands a later release.
func obeysRequiredVersion(t *testing.T, w *acctest.Workspace, file string) string {
	t.Helper()
	w.Write("main.tf", volume)
	w.Write(file, "terraform {\n  required_version = \">= 99\"\n}\n")
	out, err := w.Run("plan")
	if err == nil {
		return no
	}
	must.Contain(t, out, "required_version = \">= 99\"")
	return yes
}

// whereItPoints returns the line at which the CLI shows an error.
func whereItPoints(t *testing.T, w *acctest.Workspace, text, attribute string) string {
	t.Helper()
	out, err := w.Run("plan")
	must.Hold(t, err != nil && strings.Contains(out, text), "expected an error with", text, out)
	switch {
	case regexp.MustCompile(`\d: +` + regexp.QuoteMeta(attribute)).MatchString(out):
		return "at its line"
	case regexp.MustCompile(`\d: (resource|output) "`).MatchString(out):
		return "at the resource"
	}
	t.Errorf("the error points at no line of the configuration:\n%s", out)
	return ""
}

package resources_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// lifecycleOnV2 configures the kinds that v1 lacks. Replacing NAME is an in-place update.
const lifecycleOnV2 = `
resource "gpucloud_cluster" "o" {
  name    = "NAME"
  type    = "RAY"
  image   = "builtin/echo"
  disk    = 20
  compute = { gpu_type_id = "NVIDIA L4", gpu_count_per_pod = 1, pod_count = 2 }
}
resource "gpucloud_registry_delegation" "o" {
  resource = "arn:aws:ecr:us-east-2:123456789012:repository/team/app"
}
resource "gpucloud_ssh_keys" "o" {
  keys = ["ssh-ed25519 AAAAC3Nza NAME"]
}
`

const lifecycleConfig = `
resource "gpucloud_network_volume" "o" {
  name        = "NAME"
  size        = 10
  data_center = "EU-RO-1"
}
resource "gpucloud_registry_auth" "o" {
  name     = "PREFIX-auth"
  username = "NAME"
  password = "p"
}
resource "gpucloud_template" "o" {
  name       = "PREFIX-NAME"
  image      = "builtin/echo:NAME"
  env        = { TOKEN = sensitive("s3cret"), EMPTY = "", GRÜSSE = "äöü" }
  ports      = ["22/tcp", "8000/http"]
  serverless = true
}
resource "gpucloud_endpoint" "o" {
  name            = "NAME"
  template_id     = gpucloud_template.o.id
  network_volumes = [gpucloud_network_volume.o.id]
  workers         = { min = 0, max = 2, idle_timeout = 60 }
}
resource "gpucloud_pod" "o" {
  name  = "NAME"
  image = "builtin/echo"
  disk  = 10
  cpu   = { id = "cpu3c", vcpu_count = 2 }
}
`

// Terraform creates, changes, imports and destroys an object of each kind, and finds that it was
// deleted elsewhere. Tests with the protocol driver cover every attribute on each version.
func TestLifecycleThroughTerraform(t *testing.T) {
	t.Parallel()
	eachCLIAndVersion(t, func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version) {
		config, total := lifecycleConfig, 5
		if v == api.V2 {
			config, total = config+lifecycleOnV2, 8
		}
		write := func(name, more string) {
			w.Write("main.tf", strings.NewReplacer("NAME", name, "PREFIX", d.Name("p")).Replace(config)+more)
		}
		write("one", "")
		expectOutput(t, w.MustRun("apply", "-auto-approve"), fmt.Sprintf("%d added, 0 changed, 0 destroyed", total))
		w.MustRun("plan", "-detailed-exitcode")
		write("two", "")
		changed := total
		if v == api.V2 {
			changed-- // a delegation has no in-place update
		}
		expectOutput(t, w.MustRun("apply", "-auto-approve"), fmt.Sprintf("0 added, %d changed, 0 destroyed", changed))

		ids := stateIDs(t, w)
		if len(ids) != total || image(t, d, ids["gpucloud_endpoint"]) != "builtin/echo:two" {
			t.Errorf("the state has %v, and workers run %s", ids, image(t, d, ids["gpucloud_endpoint"]))
		}
		must.Succeed(t, d.Client(t, v).Pods.Delete(t.Context(), ids["gpucloud_pod"]))
		expectOutput(t, w.MustRun("apply", "-auto-approve"), "# gpucloud_pod.o will be created", "1 to add, 0 to change, 0 to destroy")

		imports := ""
		forget := []string{"state", "rm"}
		for kind, id := range stateIDs(t, w) {
			imports += fmt.Sprintf("import {\n  to = %s.o\n  id = %q\n}\n", kind, id)
			forget = append(forget, kind+".o")
		}
		w.MustRun(forget...)
		write("two", imports)
		// No response has an auth's password or, on v2, an endpoint's template, so the apply
		// records them.
		expectOutput(t, w.MustRun("apply", "-auto-approve"), fmt.Sprintf("%d imported, 0 added, ", total), "0 destroyed")
		w.MustRun("plan", "-detailed-exitcode")
		expectOutput(t, w.MustRun("destroy", "-auto-approve"), fmt.Sprintf("%d destroyed", total))
	})
}

// stateIDs returns the id of each kind's object.
func stateIDs(t *testing.T, w *acctest.Workspace) map[string]string {
	t.Helper()
	var state struct {
		Resources []struct {
			Type      string
			Instances []struct{ Attributes struct{ ID string } }
		}
	}
	must.Succeed(t, json.Unmarshal(document(w.MustRun("state", "pull")), &state))
	ids := map[string]string{}
	for _, r := range state.Resources {
		ids[r.Type] = r.Instances[0].Attributes.ID
	}
	return ids
}

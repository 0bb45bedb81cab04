package resources_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// Most tests in this file run the provider as a process of each CLI; the others drive it over the protocol.

// eachCLIAndVersion runs a test with the default CLI on each API version and with other CLIs on one, because they
// don't depend on it. With -short, only the default CLI runs, on the first version.
func eachCLIAndVersion(t *testing.T, test func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version)) {
	t.Helper()
	number := -1
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		number++
		for i, v := range acctest.Versions {
			if testing.Short() && i > 0 || number > 0 && i != number%len(acctest.Versions) {
				continue
			}
			t.Run(string(v), func(t *testing.T) {
				t.Parallel()
				d := acctest.Deploy(t)
				test(t, d, d.Workspace(t, cli, v), v)
			})
		}
	})
}

// expectOutput expects texts in the wrapped output of a command.
func expectOutput(t *testing.T, out string, texts ...string) {
	t.Helper()
	must.Contain(t, unwrap(out), texts...)
}

// unwrap removes line breaks and the frame around messages.
func unwrap(out string) string {
	return strings.Join(strings.FieldsFunc(out, func(r rune) bool { return r == ' ' || r == '\n' || r == '│' || r == '╷' || r == '╵' }), " ")
}

func endpointWith(attribute string) string {
	return "resource \"gpucloud_endpoint\" \"x\" {\n  name  = \"x\"\n  image = \"i\"\n  " + attribute + "\n}\n"
}

// document returns the JSON document at the end of a command's output.
func document(out string) []byte {
	_, rest, _ := strings.Cut(out, "{")
	return []byte("{" + rest)
}

// lifecycleOnV2 configures the kinds of v2 without write-only attributes. A change of NAME is an in-place update.
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
resource "gpucloud_global_volume" "o" {
  name = "NAME"
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

// Terraform creates, changes, imports and destroys an object of each kind except secrets, and finds
// that a pod was deleted elsewhere. Tests with the protocol driver cover every attribute on each version.
func TestLifecycleThroughTerraform(t *testing.T) {
	t.Parallel()
	eachCLIAndVersion(t, func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version) {
		config, total := lifecycleConfig, 5
		if v == api.V2 {
			config, total = config+lifecycleOnV2, 9
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
		must.Equal(t, len(ids), total, "the state has", ids)
		must.Equal(t, workerImage(t, d, ids["gpucloud_endpoint"]), "builtin/echo:two", "workers run")
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
		// The apply records an auth's password and, on v2, an endpoint's template, which no response has.
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

// If Terraform can't show the location of an attribute, the text names it.
func TestMessagesNameTheirAttribute(t *testing.T) {
	t.Parallel()
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		w := acctest.Deploy(t).Workspace(t, cli, api.V2)
		type message struct{ config, says string }
		unreported := []message{
			{`resource "gpucloud_network_volume" "x" {
  name        = "x"
  size        = 10.5
  data_center = "EU-RO-1"
}`, "Invalid size: expected a whole number, got 10.5."},
			{`resource "gpucloud_network_volume" "x" {
  name        = "x"
  size        = 1e30
  data_center = "EU-RO-1"
}`, "Invalid size: expected a 64-bit integer, got 1e+30."},
			{endpointWith(`workers = { max = 2.5 }`), "Invalid workers.max: expected a whole number, got 2.5."},
			{endpointWith(`cpu = [{ id = "cpu3c", vcpu_count = 4.5 }]`), "Invalid cpu[0].vcpu_count: expected a whole number, got 4.5."},
			{endpointWith(`cpu = [{ id = "cpu3c", vcpu_count = 3 }]`), "Invalid cpu[0].vcpu_count: expected a power of two from 2 up, got 3."},
			{endpointWith(`gpu = { pool = ["ADA_24"] }`), "gpu needs gpu.pools (API v2) or gpu.type_ids. Terraform drops a misspelled attribute"},
			{endpointWith(`gpu = { pools = ["ADA_24"], type_ids = ["NVIDIA L4"] }`), "gpu.pools conflicts with gpu.type_ids"},
			{endpointWith(`gpu = { type_ids = ["NVIDIA L4"], excluded_types = ["NVIDIA L4"] }`), "gpu.excluded_types needs gpu.pools"},
			{endpointWith(`gpu = { pools = ["ADA_24"], excluded_types = ["NVIDIA B200"] }`), "Invalid gpu.excluded_types: expected GPU types of the pools ADA_24"},
			{endpointWith(`gpu = { pools = ["ADA_24"], min_cuda_version = "12" }`), "Invalid gpu.min_cuda_version: expected a CUDA version"},
			{endpointWith(`workers = { min = 4 }`), "workers.min is 4 and workers.max is 3"},
			{endpointWith(`env = { "A=B" = "x" }`), `Invalid env["A=B"]: expected a name of at least one character, without = and NUL`},
			{`resource "gpucloud_template" "x" {
  name   = "x"
  image  = "i"
  mounts = { persistent = { size = 5, path = "/x" } }
}`, "mounts.persistent.size: A persistent mount has at least 10 GB"},
			{`resource "gpucloud_registry_auth" "x" {
  name     = "x"
  username = "u"
}`, "Set password_wo and password_wo_version, or password"},
		}
		// The first plan reports invalid settings. The second, without these, runs the plan rules.
		for range 2 {
			config := ""
			for i, c := range unreported {
				config += strings.Replace(c.config, `"x"`, fmt.Sprintf(`"x%d"`, i), 1) + "\n"
			}
			w.Write("main.tf", config)
			out, err := w.Run("plan")
			must.Hold(t, err != nil, "planned", config)
			unreported = slices.DeleteFunc(unreported, func(c message) bool { return strings.Contains(unwrap(out), c.says) })
			for _, bad := range []string{"%!", "always an error in the provider", "<."} {
				must.Hold(t, !strings.Contains(out, bad), bad, "is in", out)
			}
		}
		for _, c := range unreported {
			t.Errorf("no plan says %q of\n%s", c.says, c.config)
		}
	})
}

// A plan that isn't applied doesn't affect later runs. terraform test has several in one process.
func TestPlanThatIsNotApplied(t *testing.T) {
	t.Parallel()
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

func page(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Server", "nginx/1.24")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

var foreignServers = map[string]struct {
	response http.HandlerFunc
	says     string
}{
	"ingress":           {page(404, "text/html", "<html><head><title>404 Not Found</title></head></html>"), `a web site (page title "404 Not Found"), served by nginx/1.24`},
	"in the API's form": {page(404, "application/json", `{"title":"Not Found","status":404,"detail":"no route","message":"no Route matched"}`), "another server's, because no list of the management API can be read there"},
	"default backend":   {page(404, "text/plain", "default backend - 404"), "a server that answers in plain text"},
	"without a body":    {page(404, "", ""), "a server that answers without a body"},
	"a page for all":    {page(200, "text/html", "<html><title>Welcome</title></html>"), `a web site (page title "Welcome")`},
}

// A 404 from a server that isn't the API doesn't mean that the object is gone. A read, the
// plan of a create, and a delete fail, the state stays, and the message describes the server.
func TestForeignAddress(t *testing.T) {
	d := acctest.Deploy(t)
	config := map[string]any{"name": d.Name("v"), "size": 10, "data_center": "EU-RO-1"}
	state := apply(t, drive(t, d, api.V2), volumeType, tfdrive.State{}, config, "create")
	for name, c := range foreignServers {
		for _, v := range acctest.Versions {
			server := httptest.NewServer(c.response)
			settings := map[string]any{"base_url": server.URL, "api_key": d.Key, "api_version": string(v)}
			for operation, call := range map[string]func(*tfdrive.Provider) (tfdrive.State, tfdrive.Diagnostics){
				"read":   func(p *tfdrive.Provider) (tfdrive.State, tfdrive.Diagnostics) { return p.Read(state) },
				"delete": func(p *tfdrive.Provider) (tfdrive.State, tfdrive.Diagnostics) { return state, p.Destroy(state) },
				"plan of a create": func(p *tfdrive.Provider) (tfdrive.State, tfdrive.Diagnostics) {
					return state, p.Plan(volumeType, tfdrive.State{}, config).Diagnostics
				},
			} {
				p := tfdrive.Start(t, provider.New("test")(), settings)
				after, diags := state, p.ConfigureDiagnostics
				if diags.Err() == nil { // on an error, Terraform stops here
					after, diags = call(p)
				}
				text := diags.String()
				must.Hold(t, diags.Err() != nil && strings.Contains(text, c.says) && strings.Contains(text, server.URL), v, name, operation, "reports", text, "expected", c.says, server.URL)
				must.Hold(t, after.Exists(), v, name, operation, "the state no longer has the object")
			}
			server.Close()
		}
	}
}

// A wrong key or address causes one error for any number of objects, and the state stays.
func TestOneErrorForAllObjects(t *testing.T) {
	acctest.LeaveToCI(t, "TestForeignAddress and provider.TestProviderTitles test the errors over the protocol")
	ingress, closed := httptest.NewServer(foreignServers["ingress"].response), httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(ingress.Close)
	closed.Close()
	eachCLIAndVersion(t, func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace, _ api.Version) {
		w.Write("main.tf", `
provider "gpucloud" {}
resource "gpucloud_template" "t" {
  count = 5
  name  = "t${count.index}"
  image = "i"
}
resource "gpucloud_network_volume" "v" {
  count       = 5
  name        = gpucloud_template.t[count.index].id
  size        = 10
  data_center = "EU-RO-1"
}
`)
		expectErrors := func(commands ...[]string) {
			t.Helper()
			for variable, says := range map[string]string{
				"GPUCLOUD_API_KEY=wrong":           "The API key from GPUCLOUD_API_KEY is wrong or was revoked",
				"GPUCLOUD_BASE_URL=" + closed.URL:  "connection refused",
				"GPUCLOUD_BASE_URL=" + ingress.URL: foreignServers["ingress"].says,
			} {
				for _, command := range commands {
					out, err := w.WithEnv(variable).Run(command...)
					must.Hold(t, err != nil && strings.Count(out, "Error: ") == 1 && strings.Count(out, "\n") <= 40, "expected one error in at most 40 lines with", variable, "of", command, "got", err, out)
					expectOutput(t, out, says)
				}
			}
		}
		expectErrors([]string{"plan"})
		w.MustRun("apply", "-auto-approve")
		state := w.MustRun("state", "pull")
		expectErrors([]string{"plan"}, []string{"destroy", "-auto-approve"}, []string{"apply", "-auto-approve", "-refresh=false", "-replace=gpucloud_template.t[0]"})
		must.Equal(t, w.MustRun("state", "pull"), state, "the state was")
		w.MustRun("destroy", "-auto-approve")
	})
}

// At another deployment, the objects of the state don't exist. The refresh warns with the previous address.
func TestAnotherDeployment(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p, other := drive(t, d, v), acctest.Deploy(t)
		state := apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{"name": d.Name("t"), "image": "i"}, "create")
		read, diags := drive(t, other, v).Read(state)
		must.Hold(t, !read.Exists() && diags.Err() == nil, "expected no object and no error at the other deployment, got", read.Value, diags)
		must.Contain(t, diags.Warnings(), "Another deployment than before", "was seen at "+d.URL, "The provider's address is "+other.URL)
		_, diags = p.Reconfigure().Read(state)
		must.Hold(t, len(diags) == 0, "a read at the object's own deployment reports", diags)
	})
}

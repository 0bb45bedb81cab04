package resources_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/tfcli"
)

// These tests run the provider as a process of each command line of this
// machine.

// eachCLIAndVersion runs a test with each command line on each version; a short
// run has the default one alone.
func eachCLIAndVersion(t *testing.T, test func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version)) {
	t.Helper()
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		for i, v := range acctest.Versions {
			if testing.Short() && i > 0 {
				break
			}
			t.Run(string(v), func(t *testing.T) {
				t.Parallel()
				d := acctest.Deploy(t)
				test(t, d, d.Workspace(t, cli, v), v)
			})
		}
	})
}

// says expects that text appears in what a command printed, whose lines are
// wrapped.
func says(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(unwrapped(out), text) {
			t.Errorf("%q is not in:\n%s", text, out)
		}
	}
}

// unwrapped takes out line breaks and the frame around messages.
func unwrapped(out string) string {
	return strings.Join(strings.FieldsFunc(out, func(r rune) bool { return r == ' ' || r == '\n' || r == '│' || r == '╷' || r == '╵' }), " ")
}

// secretStore passes requests on, and keeps the password of each auth that was
// stored, by id.
type secretStore struct {
	*httptest.Server
	mu        sync.Mutex
	passwords map[string]string
}

func keepSecrets(t *testing.T, d *acctest.Deployment) *secretStore {
	t.Helper()
	target, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := &secretStore{passwords: map[string]string{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		var sent struct{ Password string }
		var got struct{ ID string }
		s.mu.Lock()
		if r.Method == http.MethodPost && answer.Code/100 == 2 && json.Unmarshal(body, &sent) == nil && sent.Password != "" && json.Unmarshal(answer.Body.Bytes(), &got) == nil {
			s.passwords[got.ID] = sent.Password
		}
		s.mu.Unlock()
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(s.Close)
	return s
}

// A rotated password is stored, also where create_before_destroy is handed down
// to the auth; the plan says that the auth is made again.
func TestRotationUnderCreateBeforeDestroy(t *testing.T) {
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		for _, v := range acctest.Versions {
			t.Run(string(v), func(t *testing.T) {
				t.Parallel()
				d := acctest.Deploy(t)
				store := keepSecrets(t, d)
				w := acctest.NewWorkspace(t, cli, "gpucloud", "GPUCLOUD_BASE_URL="+store.URL, "GPUCLOUD_API_KEY="+d.Key, "GPUCLOUD_API_VERSION="+string(v))
				config := func(version int) {
					w.Write("main.tf", fmt.Sprintf(`
variable "token" {
  ephemeral = true
  default   = null
}
resource "gpucloud_registry_auth" "r" {
  name                = "ci"
  username            = "robot"
  password_wo         = var.token
  password_wo_version = %d
}
resource "gpucloud_template" "t" {
  name       = "t"
  image      = "registry.example.com/private"
  serverless = true
  registry   = gpucloud_registry_auth.r.id
  lifecycle { create_before_destroy = true }
}
`, version))
				}
				config(1)
				w.MustRun("apply", "-auto-approve", "-var=token=old-token")
				w.MustRun("plan", "-detailed-exitcode") // without the password: nothing needs it
				config(2)
				says(t, w.MustRun("plan", "-var=token=new-token"), "will be made again", "deletes it and creates it again under its name", "~ id")
				if out, err := w.Run("plan"); err == nil {
					t.Errorf("a rotation without the password is planned:\n%s", out)
				}
				w.MustRun("apply", "-auto-approve", "-var=token=new-token")
				w.MustRun("plan", "-detailed-exitcode")
				auths, err := d.Client(t, v).RegistryAuths.List(t.Context())
				if err != nil || len(auths) != 1 || store.passwords[auths[0].ID] != "new-token" {
					t.Errorf("the deployment has %v, %v, and was given %v", auths, err, store.passwords)
				}
				if templates, err := d.Client(t, v).Templates.List(t.Context()); err != nil || len(templates) != 1 || templates[0].Registry != auths[0].ID {
					t.Errorf("the template is %+v, %v", templates, err)
				}
				w.MustRun("destroy", "-auto-approve") // without the password
			})
		}
	})
}

// What another configuration made is neither taken over nor destroyed, equal
// or not; the plan and the apply name it.
func TestEqualObjectOfAnotherConfiguration(t *testing.T) {
	eachCLIAndVersion(t, func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version) {
		const config = `
resource "gpucloud_template" "t" {
  name  = "t"
  image = "i"
}
resource "gpucloud_registry_auth" "r" {
  name     = "r"
  username = "u"
  password = "hunter22"
}
`
		w.Write("main.tf", config)
		theirs := d.Workspace(t, w.CLI, v)
		theirs.Write("main.tf", config)
		theirs.MustRun("apply", "-auto-approve")
		says(t, w.MustRun("plan"), "The name of the template is taken", w.CLI.Name+" import gpucloud_template.NAME", w.CLI.Name+" import gpucloud_registry_auth.NAME")
		out, err := w.Run("apply", "-auto-approve")
		if err == nil {
			t.Errorf("the apply succeeds:\n%s", out)
		}
		says(t, out, "another template has the name", w.CLI.Name+" import gpucloud_template.NAME")
		w.MustRun("destroy", "-auto-approve")
		theirs.MustRun("plan", "-detailed-exitcode")
		theirs.MustRun("destroy", "-auto-approve")
	})
}

// A 404 of something else than the API is no absence: no plan creates, no
// destroy forgets, nothing is written, and the message says what answers.
func TestForeignAddress(t *testing.T) {
	page := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Server", "nginx/1.24")
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	type server struct {
		answer http.HandlerFunc
		says   string
	}
	foreign := map[string]server{
		"ingress":           {page(404, "text/html", "<html><head><title>404 Not Found</title></head></html>"), `a web site (page title "404 Not Found"), served by nginx/1.24`},
		"in the API's form": {page(404, "application/json", `{"title":"Not Found","status":404,"detail":"no route","message":"no Route matched"}`), "an address at which no list of the management API can be read"},
	}
	once := map[string]server{ // what is no matter of the command line
		"default backend": {page(404, "text/plain", "default backend - 404"), "a server that answers in plain text"},
		"without a body":  {page(404, "", ""), "a server that answers without a body"},
		"a page for all":  {page(200, "text/html", "<html><title>Welcome</title></html>"), `a web site (page title "Welcome")`},
	}
	var first sync.Once
	eachCLIAndVersion(t, func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace, _ api.Version) {
		w.Write("main.tf", `
resource "gpucloud_network_volume" "v" {
  count       = 3
  name        = "v${count.index}"
  size        = 10
  data_center = "EU-RO-1"
}
resource "gpucloud_template" "t" {
  name  = "t"
  image = "i"
}
`)
		w.MustRun("apply", "-auto-approve")
		state := w.MustRun("state", "pull")
		tried := maps.Clone(foreign)
		if !testing.Short() {
			first.Do(func() { maps.Copy(tried, once) })
		}
		for name, c := range tried {
			server := httptest.NewServer(c.answer)
			elsewhere := w.At("GPUCLOUD_BASE_URL=" + server.URL)
			for _, command := range [][]string{{"plan"}, {"destroy", "-auto-approve"}, {"apply", "-auto-approve", "-refresh=false", "-replace=gpucloud_template.t"}} {
				out, err := elsewhere.Run(command...)
				if err == nil || strings.Count(out, "Error: ") != 1 && command[len(command)-1] != "-replace=gpucloud_template.t" {
					t.Errorf("%s: %v: %v\n%s", name, command, err, out)
				}
				says(t, out, c.says, server.URL)
			}
			server.Close()
			if now := w.MustRun("state", "pull"); now != state {
				t.Errorf("%s: the state was\n%s\nand is\n%s", name, state, now)
			}
		}
		w.MustRun("destroy", "-auto-approve")
	})
}

// What is changed of an endpoint elsewhere is planned back, and the plan shows
// what: wherever the template comes from.
func TestDriftBesideATemplate(t *testing.T) {
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
		endpoint := func(id string) string {
			return "resource \"gpucloud_endpoint\" \"e\" {\n  name        = \"e\"\n  template_id = " + id + "\n}\n"
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
		for name, config := range map[string]string{
			"in the configuration": named("mine") + endpoint("gpucloud_template.t.id"),
			"in a module":          "module \"m\" {\n  source = \"./module\"\n}\n" + endpoint("module.m.id"),
			"a literal id":         endpoint(`"` + made[0].ID + `"`),
		} {
			w.Write("main.tf", config)
			w.MustRun("get")
			w.MustRun("apply", "-auto-approve")
			c := d.Client(t, api.V2)
			endpoints, err := c.Endpoints.List(t.Context())
			if err != nil || len(endpoints) != 1 {
				t.Fatal(endpoints, err)
			}
			want := endpoints[0]
			container := *want.Container
			container.Image, container.Env = new("evil:1"), map[string]string{"LEVEL": "debug", "OTHER": "x"}
			want.Container = &container
			if _, err := c.Endpoints.Update(t.Context(), endpoints[0], want); err != nil {
				t.Fatal(err)
			}
			out, err := w.Run("plan", "-detailed-exitcode")
			if err == nil {
				t.Errorf("%s: the plan is empty:\n%s", name, out)
			}
			if v == api.V2 {
				says(t, out, `~ image = "evil:1" -> "good:1"`, `~ "LEVEL" = "sha256:`)
				if strings.Contains(unwrapped(out), `"OTHER" =`) {
					t.Errorf("%s: the plan shows what did not change:\n%s", name, out)
				}
			} else { // v1 shows that the link to the template is cut
				says(t, out, "+ template_id =")
			}
			w.MustRun("apply", "-auto-approve")
			if got := image(t, d, endpoints[0].ID); got != "good:1" {
				t.Errorf("%s: workers run %s", name, got)
			}
			w.MustRun("plan", "-detailed-exitcode")
			w.MustRun("destroy", "-auto-approve")
		}
		literal.MustRun("destroy", "-auto-approve")
	})
}

// A template and its endpoint in the hands of two configurations of the
// provider, which are two processes: a change of the template reaches the
// endpoint in the same apply.
func TestTemplateOfAnotherAlias(t *testing.T) {
	eachCLIAndVersion(t, func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version) {
		config := func(image string) {
			w.Write("main.tf", fmt.Sprintf(`
provider "gpucloud" {}
provider "gpucloud" {
  alias = "other"
}
resource "gpucloud_template" "t" {
  provider   = gpucloud.other
  name       = "t"
  image      = %q
  serverless = true
}
resource "gpucloud_endpoint" "e" {
  name        = "e"
  template_id = gpucloud_template.t.id
}
`, image))
		}
		config("img:1")
		w.MustRun("apply", "-auto-approve")
		config("img:2")
		says(t, w.MustRun("plan"), "0 to add, 2 to change", `~ image = "img:1" -> "img:2"`)
		w.MustRun("apply", "-auto-approve")
		w.MustRun("plan", "-detailed-exitcode")
		config("img:3")
		w.MustRun("plan", "-out=saved")
		w.MustRun("apply", "saved")
		w.MustRun("plan", "-detailed-exitcode")
		endpoints, err := d.Client(t, v).Endpoints.List(t.Context())
		if err != nil || len(endpoints) != 1 || image(t, d, endpoints[0].ID) != "img:3" {
			t.Errorf("%+v, %v", endpoints, err)
		}
		w.MustRun("destroy", "-auto-approve")
	})
}

// A wrong key, an address where nothing answers: the first plan of a
// configuration says so, once, however many objects it has.
func TestFirstPlanAsks(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		d := acctest.Deploy(t)
		w := d.Workspace(t, cli, api.V2)
		w.Write("main.tf", `
provider "gpucloud" {}
resource "gpucloud_template" "t" {
  count = 50
  name  = "t${count.index}"
  image = "i"
}
resource "gpucloud_network_volume" "v" {
  count       = 50
  name        = gpucloud_template.t[count.index].id
  size        = 10
  data_center = "EU-RO-1"
}
`)
		broken := map[string]struct{ env, says string }{
			"wrong key":         {"GPUCLOUD_API_KEY=wrong", "The API key from GPUCLOUD_API_KEY is wrong or was revoked"},
			"nothing answers":   {"GPUCLOUD_BASE_URL=" + closed.URL, "connection refused"},
			"no such host":      {"GPUCLOUD_BASE_URL=http://gpucloud.invalid", "Check that the deployment is running and that its address is right"},
			"key with a blank":  {"GPUCLOUD_API_KEY=a b", "Invalid api_key"},
			"not an address":    {"GPUCLOUD_BASE_URL=gpucloud", "Invalid base_url"},
			"version of no API": {"GPUCLOUD_API_VERSION=v3", "Invalid api_version"},
		}
		once := func(what string, commands ...[]string) {
			t.Helper()
			for name, c := range broken {
				for _, command := range commands {
					out, err := w.At(c.env).Run(command...)
					errors := strings.Count(out, "Error: ") - strings.Count(out, "Error: Not tried, for the same reason")
					lines := strings.Count(out, "\n") - strings.Count(out, ": Refreshing state...")
					if most := map[bool]int{true: 50, false: 8 * 100}[what == "with a state"]; err == nil || errors != 1 || lines > most {
						t.Errorf("%s, %s: %v: %v, %d errors in %d lines\n%s", name, what, command, err, errors, lines, out)
					}
					says(t, out, c.says)
				}
			}
		}
		once("with an empty state", []string{"plan"}, []string{"apply", "-auto-approve"})
		w.MustRun("apply", "-auto-approve")
		state := w.MustRun("state", "pull")
		once("with a state", []string{"plan"}, []string{"destroy", "-auto-approve"})
		if w.MustRun("state", "pull") != state {
			t.Error("the state has changed")
		}
		w.MustRun("destroy", "-auto-approve")
	})
}

// A state that an older release wrote plans no change.
func TestStateOfAnOlderRelease(t *testing.T) {
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
		if err := json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &state); err != nil {
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

// What only the other version can reach is not changed in the plan alone.
func TestSettingOfTheOtherVersion(t *testing.T) {
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
		says(t, v2.MustRun("plan"), "must be replaced", "# forces replacement", "The template will be replaced", `apply this change once with api_version = "v1"`)
		v2.MustRun("apply", "-auto-approve")
		got, err := d.Client(t, api.V1).Templates.List(t.Context())
		if err != nil || len(got) != 1 || len(*got[0].Entrypoint) != 0 || *got[0].Readme != "" {
			t.Errorf("version 1 has %+v, %v", got, err)
		}
		v2.MustRun("plan", "-detailed-exitcode")
		v2.MustRun("destroy", "-auto-approve")
	})
}

// Deletions and replacements that lose something say so, in the plan.
func TestLossIsSaid(t *testing.T) {
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		d := acctest.Deploy(t)
		w := d.Workspace(t, cli, api.V2)
		config := func(center, compute string) {
			w.Write("main.tf", fmt.Sprintf(`
resource "gpucloud_network_volume" "v" {
  name        = "v"
  size        = 10
  data_center = %q
}
resource "gpucloud_endpoint" "e" {
  name  = "e"
  image = "i"
  %s
}
`, center, compute))
		}
		config("EU-RO-1", "")
		w.MustRun("apply", "-auto-approve")
		says(t, w.MustRun("plan", "-destroy"), "The network volume will be deleted", "with everything on it")
		config("EU-CZ-1", `cpu = [{ id = "cpu3c", vcpu_count = 4 }]`)
		says(t, w.MustRun("plan"), "The network volume will be replaced", "The endpoint will be replaced", "with its queue, jobs and results")
		config("EU-RO-1", `type = "LOAD_BALANCER"`)
		says(t, w.MustRun("plan"), "The endpoint will be replaced")
		w.Write("main.tf", "")
		says(t, w.MustRun("apply", "-auto-approve"), "The network volume will be deleted")
	})
}

// What Terraform can't point at is named in the text.
func TestMessagesNameTheirAttribute(t *testing.T) {
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		d := acctest.Deploy(t)
		w := d.Workspace(t, cli, api.V2)
		for _, c := range []struct{ config, says string }{
			{`resource "gpucloud_network_volume" "x" {
  name        = "x"
  size        = 10.5
  data_center = "EU-RO-1"
}`, "Invalid size: expected a whole number, got 10.5."},
			{`resource "gpucloud_network_volume" "x" {
  name        = "x"
  size        = 1e30
  data_center = "EU-RO-1"
}`, "Invalid size: expected a whole number, got 1e+30."},
			{endpointWith(`workers = { max = 2.5 }`), "Invalid workers.max: expected a whole number, got 2.5."},
			{endpointWith(`cpu = [{ id = "cpu3c", vcpu_count = 4.5 }]`), "Invalid cpu[0].vcpu_count: expected a whole number, got 4.5."},
			{endpointWith(`cpu = [{ id = "cpu3c", vcpu_count = 3 }]`), "Invalid cpu[0].vcpu_count: expected a power of two from 2 up, got 3."},
			{endpointWith(`gpu = { }`), "gpu needs gpu.pools (API v2) or gpu.type_ids"},
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
		} {
			w.Write("main.tf", c.config)
			out, err := w.Run("plan")
			if err == nil {
				t.Errorf("planned:\n%s\n%s", c.config, out)
			}
			says(t, out, c.says)
			for _, bad := range []string{"%!", "always an error in the provider", "<."} {
				if strings.Contains(out, bad) {
					t.Errorf("%q is in:\n%s", bad, out)
				}
			}
		}
	})
}

func endpointWith(attribute string) string {
	return "resource \"gpucloud_endpoint\" \"x\" {\n  name  = \"x\"\n  image = \"i\"\n  " + attribute + "\n}\n"
}

package resources_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

func page(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Server", "nginx/1.24")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

type foreignServer struct {
	answer http.HandlerFunc
	says   string
}

var (
	foreignServers = map[string]foreignServer{
		"ingress":           {page(404, "text/html", "<html><head><title>404 Not Found</title></head></html>"), `a web site (page title "404 Not Found"), served by nginx/1.24`},
		"in the API's form": {page(404, "application/json", `{"title":"Not Found","status":404,"detail":"no route","message":"no Route matched"}`), "another server's, as no list of the management API can be read there"},
	}
	foreignServersWithOneCLI = map[string]foreignServer{ // no CLI treats these differently
		"default backend": {page(404, "text/plain", "default backend - 404"), "a server that answers in plain text"},
		"without a body":  {page(404, "", ""), "a server that answers without a body"},
		"a page for all":  {page(200, "text/html", "<html><title>Welcome</title></html>"), `a web site (page title "Welcome")`},
	}
)

// A 404 from a server that isn't the API doesn't mean that the object is gone. A refresh, a plan,
// a create and a delete fail, the state stays, and the message describes the server.
func TestForeignAddress(t *testing.T) {
	d := acctest.Deploy(t)
	config := map[string]any{"name": d.Name("v"), "size": 10, "data_center": "EU-RO-1"}
	state := apply(t, drive(t, d, api.V2), volumeType, tfdrive.State{}, config, "create")
	all := maps.Clone(foreignServers)
	maps.Copy(all, foreignServersWithOneCLI)
	for name, c := range all {
		for _, v := range acctest.Versions {
			server := httptest.NewServer(c.answer)
			at := map[string]any{"base_url": server.URL, "api_key": d.Key, "api_version": string(v)}
			for what, call := range map[string]func(*tfdrive.Provider) (tfdrive.State, tfdrive.Diagnostics){
				"read":   func(p *tfdrive.Provider) (tfdrive.State, tfdrive.Diagnostics) { return p.Read(state) },
				"delete": func(p *tfdrive.Provider) (tfdrive.State, tfdrive.Diagnostics) { return state, p.Destroy(state) },
				"replace": func(p *tfdrive.Provider) (tfdrive.State, tfdrive.Diagnostics) {
					planned := p.Plan(volumeType, tfdrive.State{}, config)
					return state, planned.Diagnostics
				},
			} {
				p := tfdrive.Start(t, provider.New("test")(), at)
				after, diags := state, p.Configured
				if diags.Err() == nil { // on an error, Terraform stops here
					after, diags = call(p)
				}
				if text := diags.String(); diags.Err() == nil || !strings.Contains(text, c.says) || !strings.Contains(text, server.URL) {
					t.Errorf("%s, %s, %s: got %s, expected to read %q and %s", v, name, what, text, c.says, server.URL)
				}
				if !after.Exists() {
					t.Errorf("%s, %s, %s: the state no longer has the object", v, name, what)
				}
			}
			server.Close()
		}
	}
}

// One error is enough for all objects of a configuration, and Terraform's state stays.
func TestForeignAddressThroughTerraform(t *testing.T) {
	acctest.LeaveToCI(t, "TestForeignAddress has it over the protocol")
	var first sync.Once
	eachCLIAndVersion(t, func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace, _ api.Version) {
		w.Write("main.tf", `
provider "gpucloud" {}
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
		tried := maps.Clone(foreignServers)
		if !testing.Short() {
			first.Do(func() { maps.Copy(tried, foreignServersWithOneCLI) })
		}
		for name, c := range tried {
			server := httptest.NewServer(c.answer)
			elsewhere := w.At("GPUCLOUD_BASE_URL=" + server.URL)
			for _, command := range [][]string{{"plan"}, {"destroy", "-auto-approve"}, {"apply", "-auto-approve", "-refresh=false", "-replace=gpucloud_template.t"}} {
				out, err := elsewhere.Run(command...)
				if err == nil || strings.Count(out, "Error: ") != 1 {
					t.Errorf("%s: %v: %v\n%s", name, command, err, out)
				}
				expectOutput(t, out, c.says, server.URL)
			}
			server.Close()
			if now := w.MustRun("state", "pull"); now != state {
				t.Errorf("%s: the state was\n%s\nand is\n%s", name, state, now)
			}
		}
		w.MustRun("destroy", "-auto-approve")
	})
}

// The first plan reports a wrong key or an unreachable address once, for any number of objects.
func TestFirstPlanReportsFailureOnce(t *testing.T) {
	acctest.LeaveToCI(t, "provider.TestProviderSettings has the errors over the protocol")
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	broken := map[string]struct{ env, says string }{
		"wrong key":       {"GPUCLOUD_API_KEY=wrong", "The API key from GPUCLOUD_API_KEY is wrong or was revoked"},
		"nothing answers": {"GPUCLOUD_BASE_URL=" + closed.URL, "connection refused"},
	}
	// CLIs don't differ here; provider.TestProviderSettings tests all settings.
	withOneCLI := map[string]struct{ env, says string }{
		"not an address":    {"GPUCLOUD_BASE_URL=gpucloud", "Invalid base_url"},
		"no such host":      {"GPUCLOUD_BASE_URL=http://gpucloud.invalid", "Check that the deployment is running and that its address is right"},
		"key with a blank":  {"GPUCLOUD_API_KEY=a b", "Invalid api_key"},
		"version of no API": {"GPUCLOUD_API_VERSION=v3", "Invalid api_version"},
	}
	first, count := !testing.Short(), 50
	if testing.Short() {
		count = 5
	}
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		broken := maps.Clone(broken)
		if first {
			maps.Copy(broken, withOneCLI)
		}
		first = false
		t.Parallel()
		d := acctest.Deploy(t)
		w := d.Workspace(t, cli, api.V2)
		w.Write("main.tf", strings.ReplaceAll(`
provider "gpucloud" {}
resource "gpucloud_template" "t" {
  count = COUNT
  name  = "t${count.index}"
  image = "i"
}
resource "gpucloud_network_volume" "v" {
  count       = COUNT
  name        = gpucloud_template.t[count.index].id
  size        = 10
  data_center = "EU-RO-1"
}
`, "COUNT", fmt.Sprint(count)))
		once := func(what string, commands ...[]string) {
			t.Helper()
			for name, c := range broken {
				for _, command := range commands {
					out, err := w.At(c.env).Run(command...)
					if errors, lines := strings.Count(out, "Error: "), strings.Count(out, "\n"); err == nil || errors != 1 || lines > 40 {
						t.Errorf("%s, %s: %v: %v, %d errors in %d lines\n%s", name, what, command, err, errors, lines, out)
					}
					expectOutput(t, out, c.says)
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

// If the provider's address changes to another deployment, the objects of the state don't exist
// there. The refresh warns with the previous address.
func TestAnotherDeployment(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p, other := drive(t, d, v), acctest.Deploy(t)
		state := apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{"name": d.Name("t"), "image": "i"}, "create")
		read, diags := drive(t, other, v).Read(state)
		if read.Exists() || diags.Err() != nil {
			t.Errorf("got %v, %s", read.Value, diags)
		}
		for _, text := range []string{"Another deployment than before", "was seen at " + d.URL, "The provider's address is " + other.URL} {
			if !strings.Contains(diags.Warnings(), text) {
				t.Errorf("%q is not in %s", text, diags)
			}
		}
		if _, diags := p.Walk().Read(state); len(diags) > 0 {
			t.Errorf("at its own deployment: %s", diags)
		}
	})
}

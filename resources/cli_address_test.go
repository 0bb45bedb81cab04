package resources_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
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

var foreignServers = map[string]struct {
	answer http.HandlerFunc
	says   string
}{
	"ingress":           {page(404, "text/html", "<html><head><title>404 Not Found</title></head></html>"), `a web site (page title "404 Not Found"), served by nginx/1.24`},
	"in the API's form": {page(404, "application/json", `{"title":"Not Found","status":404,"detail":"no route","message":"no Route matched"}`), "another server's, as no list of the management API can be read there"},
	"default backend":   {page(404, "text/plain", "default backend - 404"), "a server that answers in plain text"},
	"without a body":    {page(404, "", ""), "a server that answers without a body"},
	"a page for all":    {page(200, "text/html", "<html><title>Welcome</title></html>"), `a web site (page title "Welcome")`},
}

// A 404 from a server that isn't the API doesn't mean that the object is gone. A refresh, a plan,
// a create and a delete fail, the state stays, and the message describes the server.
func TestForeignAddress(t *testing.T) {
	d := acctest.Deploy(t)
	config := map[string]any{"name": d.Name("v"), "size": 10, "data_center": "EU-RO-1"}
	state := apply(t, drive(t, d, api.V2), volumeType, tfdrive.State{}, config, "create")
	for name, c := range foreignServers {
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
				text := diags.String()
				must.Hold(t, diags.Err() != nil && strings.Contains(text, c.says) && strings.Contains(text, server.URL), v, name, what, text, "expected to read", c.says, server.URL)
				must.Hold(t, after.Exists(), v, name, what, "the state no longer has the object")
			}
			server.Close()
		}
	}
}

// A wrong key or address causes one error for any number of objects, and the state stays.
func TestOneErrorForAllObjects(t *testing.T) {
	acctest.LeaveToCI(t, "TestForeignAddress and provider.TestProviderTitles test the errors over the protocol")
	ingress, closed := httptest.NewServer(foreignServers["ingress"].answer), httptest.NewServer(http.NotFoundHandler())
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
		once := func(commands ...[]string) {
			t.Helper()
			for variable, says := range map[string]string{
				"GPUCLOUD_API_KEY=wrong":           "The API key from GPUCLOUD_API_KEY is wrong or was revoked",
				"GPUCLOUD_BASE_URL=" + closed.URL:  "connection refused",
				"GPUCLOUD_BASE_URL=" + ingress.URL: foreignServers["ingress"].says,
			} {
				for _, command := range commands {
					out, err := w.At(variable).Run(command...)
					must.Hold(t, err != nil && strings.Count(out, "Error: ") == 1 && strings.Count(out, "\n") <= 40, variable, command, err, out)
					expectOutput(t, out, says)
				}
			}
		}
		once([]string{"plan"})
		w.MustRun("apply", "-auto-approve")
		state := w.MustRun("state", "pull")
		once([]string{"plan"}, []string{"destroy", "-auto-approve"}, []string{"apply", "-auto-approve", "-refresh=false", "-replace=gpucloud_template.t[0]"})
		must.Equal(t, w.MustRun("state", "pull"), state, "the state was")
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
		must.Hold(t, !read.Exists() && diags.Err() == nil, read.Value, diags)
		must.Contain(t, diags.Warnings(), "Another deployment than before", "was seen at "+d.URL, "The provider's address is "+other.URL)
		if _, diags := p.Walk().Read(state); len(diags) > 0 {
			t.Errorf("at its own deployment: %s", diags)
		}
	})
}

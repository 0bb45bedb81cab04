package resources_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
)

// secretStore is a proxy that records the password of each stored auth, by id.
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

// A rotated password is stored, even if the auth inherits create_before_destroy. The plan says
// that the auth is created again.
func TestRotationUnderCreateBeforeDestroy(t *testing.T) {
	acctest.LeaveToCI(t, "TestRotationWhileAPodHasTheAuth has the rotation over the protocol")
	eachCLIAndVersion(t, func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version) {
		store := keepSecrets(t, d)
		w = w.At("GPUCLOUD_BASE_URL=" + store.URL)
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
		w.MustRun("plan", "-detailed-exitcode") // without the password, which nothing needs
		config(2)
		expectOutput(t, w.MustRun("plan", "-var=token=new-token"), "will be made again", "deletes it and creates it again under its name", "~ id")
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

// An object that another configuration created is neither adopted nor destroyed, even if it is
// equal. The plan and the apply name it.
func TestEqualObjectOfAnotherConfiguration(t *testing.T) {
	acctest.LeaveToCI(t, "TestCreateRejectsTakenName has it over the protocol")
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
		expectOutput(t, w.MustRun("plan"), "The name of the template is taken", "terraform import gpucloud_template.NAME", "terraform import gpucloud_registry_auth.NAME")
		out, err := w.Run("apply", "-auto-approve")
		if err == nil {
			t.Errorf("the apply succeeds:\n%s", out)
		}
		expectOutput(t, out, "another template has the name", "terraform import gpucloud_template.NAME")
		w.MustRun("destroy", "-auto-approve")
		theirs.MustRun("plan", "-detailed-exitcode")
		theirs.MustRun("destroy", "-auto-approve")
	})
}

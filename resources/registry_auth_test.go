package resources_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

func TestRegistryAuth(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, _ api.Version) {
		config := map[string]any{"name": d.Name("ci"), "username": "robot", "password": "hunter2"}
		state := apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, config, "create")
		for _, c := range []struct{ attribute, value, action string }{{"password", "hunter3", "update"}, {"username", "robot2", "update"}, {"name", d.Name("ci2"), "replace"}} {
			before := state.Get("id")
			config[c.attribute] = c.value
			state = apply(t, p, state.Type, state, config, c.action)
			must.Hold(t, state.Get("id") != before, "with another", c.attribute, "it is still", before)
		}
	})
}

// An import returns no credentials. The next apply records only the version of password_wo, but sends password,
// which creates the auth again. The plan warns of either.
func TestRegistryAuthImport(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, _ api.Version) {
		for name, c := range map[string]struct {
			config map[string]any
			warns  string
			sent   int64
		}{
			"plain":      {map[string]any{"name": d.Name("plain"), "username": "robot", "password": "hunter2"}, "will be created again", 2},
			"write-only": {map[string]any{"name": d.Name("write-only"), "username": "robot", "password_wo": "hunter2", "password_wo_version": 7}, "The password is not sent", 0},
		} {
			created := apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, c.config, "create")
			state, diags := p.Import("gpucloud_registry_auth", created.Get("id").(string))
			must.Require(t, diags.Err() == nil, name, "import", diags)
			warnings := p.Plan(state.Type, state, c.config).Diagnostics.Warnings()
			must.Hold(t, strings.Contains(warnings, c.warns), name, "the plan says", warnings)
			writes := d.Writes()
			state = apply(t, p, "gpucloud_registry_auth", state, c.config, "update")
			sent := d.Writes() - writes
			must.Hold(t, sent == c.sent && (state.Get("id") == created.Get("id")) == (c.sent == 0),
				name, sent, "requests changed something, and the id is", state.Get("id"), "after", created.Get("id"))
			state = apply(t, p, "gpucloud_registry_auth", state, withChanges(c.config, map[string]any{"username": "robot2"}), "update")
			must.Succeed(t, p.Destroy(state).Err())
		}
	})
}

// The configuration that Terraform generates for an auth has only its name, as no API returns credentials.
func TestRegistryAuthImportWithoutCredentials(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, _ api.Version) {
		config := map[string]any{"name": d.Name("ci"), "username": "robot", "password": "hunter2"}
		generated := map[string]any{"name": d.Name("ci")}
		first := apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, config, "create")
		imported := importState(t, p, "gpucloud_registry_auth", first.Get("id").(string))
		apply(t, p, imported.Type, imported, generated, "no-op")
		expectRejection(t, d, p, imported, imported.Type, map[string]any{"name": d.Name("other")}, "username", "keeps its name")
		expectRejection(t, d, p, first, first.Type, generated, "username", "Only an imported auth")
		recorded := apply(t, p, imported.Type, imported, map[string]any{"name": d.Name("ci"), "username": "robot", "password_wo": "hunter2", "password_wo_version": 1}, "update")
		must.Equal(t, recorded.Get("id"), first.Get("id"), "the auth was created again as")
	})
}

// password_wo is required only if it is sent.
func TestRegistryAuthWithoutItsPassword(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, _ api.Version) {
		config := map[string]any{"name": d.Name("ci"), "username": "robot", "password_wo": "hunter2", "password_wo_version": 1}
		withoutPassword := withChanges(config, map[string]any{"password_wo": nil})
		expectRejection(t, d, p, tfdrive.State{}, "gpucloud_registry_auth", withoutPassword, "password_wo", "needs its password")
		state := apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, config, "create")
		apply(t, p, "gpucloud_registry_auth", state, withoutPassword, "no-op")
		expectRejection(t, d, p, state, "gpucloud_registry_auth", withChanges(withoutPassword, map[string]any{"password_wo_version": 2}), "password_wo", "value for this run. Terraform passes null")
		expectRejection(t, d, p, state, "gpucloud_registry_auth", withChanges(withoutPassword, map[string]any{"username": "robot2"}), "password_wo", "needs its password")
		must.Succeed(t, p.Destroy(state).Err())
	})
}

// If all responses of a rotation are lost, the state has the one auth with the old version, and the next apply rotates.
func TestRotationWhoseResponsesAreLost(t *testing.T) {
	t.Parallel()
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		w := newLossyProxy(t, d)
		p := drive(t, d, v)
		config := map[string]any{"name": d.Name("ci"), "username": "robot", "password_wo": "old-token", "password_wo_version": 1}
		state := apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, config, "create")
		rotated := withChanges(config, map[string]any{"password_wo": "new-token", "password_wo_version": 2})
		w.toDrop.Store(100)
		state, diags := p.Apply(p.Reconfigure().Plan(state.Type, state, rotated))
		err := diags.Err()
		must.Hold(t, err != nil && !strings.Contains(err.Error(), "token"), "expected an error without the password, got", err)
		w.toDrop.Store(0)
		auths := must.Do(d.Client(t, v).RegistryAuths.List(t.Context()))(t)
		must.Hold(t, len(auths) == 1 && auths[0].ID == state.Get("id") && state.Get("password_wo_version") == 1.0,
			"the auths are", auths, "and the state has", state.Get("id"), "with version", state.Get("password_wo_version"))
		expectPlan(t, p.Reconfigure(), state.Type, state, config, "update") // without the rotation, the old password is sent again
		before := state.Get("id")
		state = apply(t, p.Reconfigure(), state.Type, state, rotated, "update")
		auths = must.Do(d.Client(t, v).RegistryAuths.List(t.Context()))(t)
		must.Hold(t, len(auths) == 1 && auths[0].ID == state.Get("id") && state.Get("id") != before,
			"the auths are", auths, "and the state has", state.Get("id"), "after", before)
		must.Succeed(t, p.Destroy(state).Err())
	})
}

func TestRegistryAuthRules(t *testing.T) {
	d, p := deploy(t)
	config := map[string]any{"name": d.Name("ci"), "username": "robot", "password": "hunter2"}
	expectRejections(t, d, p, "gpucloud_registry_auth", config, []rejection{
		{map[string]any{"name": ""}, "name", "1 to 191 characters"},
		{map[string]any{"name": strings.Repeat("é", 192)}, "name", "1 to 191 characters, got 192 characters"},
		{map[string]any{"username": ""}, "username", "1 to 191 characters"},
		{map[string]any{"username": strings.Repeat("u", 192)}, "username", "1 to 191 characters, got 192 characters"},
		{map[string]any{"username": nil, "password": nil}, "username", "Only an imported auth"},
		{map[string]any{"username": nil}, "username", "A password needs its username"},
		{map[string]any{"username": nil, "password": nil, "password_wo_version": 1}, "username", "A password needs its username"},
		{map[string]any{"password": nil}, "password_wo", "Set password_wo and password_wo_version, or password"},
		{map[string]any{"password": ""}, "password", "1 to 16384 characters"},
		{map[string]any{"password": strings.Repeat("p", 16385)}, "password", "1 to 16384 characters, got 16385 characters"},
		{map[string]any{"password": nil, "password_wo": strings.Repeat("p", 16385), "password_wo_version": 1}, "password_wo", "1 to 16384 characters, got 16385 characters"},
		{map[string]any{"password_wo": "x", "password_wo_version": 1}, "password", "password conflicts with password_wo"},
		{map[string]any{"password": nil, "password_wo": "x"}, "password_wo_version", "password_wo needs password_wo_version"},
		{map[string]any{"password_wo_version": 1}, "password", "password conflicts with password_wo"},
	}...)
	longest := map[string]any{"name": strings.Repeat("é", 191), "username": strings.Repeat("é", 191), "password": strings.Repeat("é", 16384)}
	apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, longest, "create")
	apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, config, "create")
	duplicate := p.Reconfigure().Plan("gpucloud_registry_auth", tfdrive.State{}, config)
	must.Contain(t, duplicate.Diagnostics.Warnings(), "has this name, which is unique. The apply fails")
	err := tfdrive.Err(p.Apply(duplicate))
	must.Hold(t, err != nil && strings.Contains(err.Error(), "ci") && !strings.Contains(err.Error(), "hunter2"), "expected an error without the password for a second auth of the same name, got", err)
}

// The API rejects the rotation of an auth that a pod uses, so the plan rejects it with advice.
func TestRotationWhileAPodHasTheAuth(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		passwords := recordPasswords(t, d)
		p := drive(t, d, v)
		config := map[string]any{"name": d.Name("ci"), "username": "robot", "password_wo": "old-token", "password_wo_version": 1}
		state := apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, config, "create")
		plain := map[string]any{"name": d.Name("plain"), "username": "robot", "password": "old-token"}
		stored := apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, plain, "create")
		pod := apply(t, p, podType, tfdrive.State{}, cpuPod(map[string]any{"registry": state.Get("id")}), "create")
		template := apply(t, p, "gpucloud_template", tfdrive.State{}, map[string]any{"name": d.Name("t"), "image": "builtin/echo", "registry": stored.Get("id")}, "create")
		copied := apply(t, p, podType, tfdrive.State{}, cpuPod(map[string]any{"name": "q", "image": nil, "disk": nil, "template_id": template.Get("id")}), "create")
		p.Reconfigure()
		for at, changes := range map[string]map[string]any{
			"password_wo_version": {"password_wo": "new-token", "password_wo_version": 2}, "username": {"username": "robot2"}, "name": {"name": d.Name("other")},
		} {
			expectRejection(t, d, p, state, state.Type, withChanges(config, changes), at, "p ("+pod.Get("id").(string)+"). Create a second gpucloud_registry_auth")
		}
		expectPlan(t, p, state.Type, tfdrive.State{}, plain, "create", copied.Get("id").(string)+"). If this plan replaces the auth, the apply fails: run terraform untaint") // the replacement of a tainted auth
		expectRejection(t, d, p, stored, state.Type, withChanges(plain, map[string]any{"password": "new-token"}), "password", copied.Get("id").(string))
		imported := importState(t, p, stored.Type, stored.Get("id").(string))
		expectRejection(t, d, p, imported, state.Type, plain, "username", "set password_wo and password_wo_version instead of password")
		must.Equal(t, p.Plan(state.Type, imported, plain).Diagnostics.Warnings(), "", "a rejected plan warns")
		recorded := withChanges(plain, map[string]any{"password": nil, "password_wo": "old-token", "password_wo_version": 1})
		expectPlan(t, p, state.Type, imported, recorded, "update")
		apply(t, p, podType, pod, cpuPod(nil), "update")
		state = apply(t, p, state.Type, state, withChanges(config, map[string]any{"password_wo": "new-token", "password_wo_version": 2}), "update")
		must.Equal(t, passwords()[state.Get("id").(string)], "new-token", "the deployment was given the password")
	})
}

// A list may have a deleted pod, which doesn't use its auth.
func TestRotationAfterAPodHadTheAuth(t *testing.T) {
	status := regexp.MustCompile(`("(?:status|desiredStatus)":)"[A-Z]+"`)
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		var deleted atomic.Bool
		d.Intercept(t, func(w http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
			response := httptest.NewRecorder()
			forward.ServeHTTP(response, r)
			w.WriteHeader(response.Code)
			text := response.Body.Bytes()
			if deleted.Load() {
				text = status.ReplaceAll(text, []byte(`$1"TERMINATED"`))
			}
			_, _ = w.Write(text)
		})
		p := drive(t, d, v)
		config := map[string]any{"name": d.Name("ci"), "username": "robot", "password": "old-token"}
		auth := apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, config, "create")
		apply(t, p, podType, tfdrive.State{}, cpuPod(map[string]any{"registry": auth.Get("id")}), "create")
		deleted.Store(true)
		p.Reconfigure()
		expectPlan(t, p, auth.Type, auth, withChanges(config, map[string]any{"password": "new-token"}), "update")
	})
}

// A rotated password is stored, even with an inherited create_before_destroy. The plan announces a new auth.
func TestRotationWithCreateBeforeDestroy(t *testing.T) {
	acctest.LeaveToCI(t, "TestRotationWhileAPodHasTheAuth covers the rotation over the protocol")
	eachCLIAndVersion(t, func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version) {
		passwords := recordPasswords(t, d)
		w = w.WithEnv("GPUCLOUD_BASE_URL=" + d.URL)
		writeConfig := func(version int) {
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
		writeConfig(1)
		w.MustRun("apply", "-auto-approve", "-var=token=old-token")
		w.MustRun("plan", "-detailed-exitcode") // without the password, which nothing needs
		writeConfig(2)
		expectOutput(t, w.MustRun("plan", "-var=token=new-token"), "will be created again", "deletes it and creates it again under its name", "~ id")
		out, err := w.Run("plan")
		must.Hold(t, err != nil, "a rotation without the password is planned", out)
		w.MustRun("apply", "-auto-approve", "-var=token=new-token")
		w.MustRun("plan", "-detailed-exitcode")
		auths, err := d.Client(t, v).RegistryAuths.List(t.Context())
		must.Hold(t, err == nil && len(auths) == 1 && passwords()[auths[0].ID] == "new-token",
			"the deployment has", auths, err, "and was given", passwords())
		templates := must.Do(d.Client(t, v).Templates.List(t.Context()))(t)
		must.Hold(t, len(templates) == 1 && templates[0].Registry == auths[0].ID, "the template is", templates)
		w.MustRun("destroy", "-auto-approve") // without the password
	})
}

// recordPasswords returns a function that returns the password of each created auth, by id.
func recordPasswords(t *testing.T, d *acctest.Deployment) func() map[string]string {
	t.Helper()
	var mu sync.Mutex
	passwords := map[string]string{}
	d.Intercept(t, func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler) {
		response := httptest.NewRecorder()
		forward.ServeHTTP(response, r)
		var sent struct{ Password string }
		var got struct{ ID string }
		mu.Lock()
		if r.Method == http.MethodPost && response.Code/100 == 2 && json.Unmarshal(body, &sent) == nil && sent.Password != "" && json.Unmarshal(response.Body.Bytes(), &got) == nil {
			passwords[got.ID] = sent.Password
		}
		mu.Unlock()
		maps.Copy(w.Header(), response.Header())
		w.WriteHeader(response.Code)
		_, _ = w.Write(response.Body.Bytes())
	})
	return func() map[string]string {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(passwords)
	}
}

const delegationType = "gpucloud_registry_delegation"

const repository = "arn:aws:ecr:us-east-2:123456789012:repository/team/app"

func TestRegistryDelegation(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	config := map[string]any{"resource": repository}
	created := apply(t, p, delegationType, tfdrive.State{}, config, "create")
	expectState(t, created, map[string]any{
		"aws_region": "us-east-2", "repository": "team/app", "tag": "latest", "docker_registry_uri": "123456789012.dkr.ecr.us-east-2.amazonaws.com", "name": nil,
	})
	expectImport(t, p, created, config, false)
	// Another spelling of the same repository.
	state := apply(t, p, delegationType, created, map[string]any{"resource": repository + ":latest"}, "update")
	expectState(t, state, map[string]any{"id": created.Get("id")})
	config["resource"] = repository + ":v1"
	state = apply(t, p, delegationType, state, config, "replace")
	expectState(t, state, map[string]any{"tag": "v1"})
	expectImport(t, p, state, config, false)
	config["name"] = "app"
	state = apply(t, p, delegationType, state, config, "replace")
	expectImport(t, p, state, config, false)
	must.Succeed(t, p.Destroy(state).Err())
	must.Equal(t, must.Do(d.Client(t, api.V2).Delegations.List(t.Context()))(t), nil, "the delegations after the deletion")
}

func TestRegistryDelegationPlan(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	for _, arn := range []string{"", "team/app", "123456789012.dkr.ecr.us-east-2.amazonaws.com/team/app", "arn:aws:ecr:us-east-2:1234:repository/app", "arn:aws:s3:us-east-2:123456789012:repository/app", repository + ":"} {
		expectRejection(t, d, p, tfdrive.State{}, delegationType, map[string]any{"resource": arn}, "resource", "expected the ARN of an ECR repository")
	}
	expectRejectionOnV1(t, d, delegationType, map[string]any{"resource": repository})
	expectPlan(t, p, delegationType, tfdrive.State{}, map[string]any{"resource": tfdrive.Unknown}, "create")
}

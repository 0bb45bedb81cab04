package resources_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const secretType = "gpucloud_secret"

func secretsOf(t *testing.T, d *acctest.Deployment) []api.Secret {
	t.Helper()
	return must.Do(d.Client(t, api.V2).Secrets.List(t.Context()))(t)
}

// A new version sends the value in place; a new value alone isn't sent. A new name replaces the secret.
func TestSecret(t *testing.T) {
	d, p := deploy(t)
	config := map[string]any{"name": "token", "value_wo": "planted-1", "value_wo_version": 1}
	state := apply(t, p, secretType, tfdrive.State{}, config, "create")
	id, updated := state.Get("id"), state.Get("value_last_updated_at")
	expectState(t, state, map[string]any{"name": "token", "description": nil, "value_wo": nil})
	apply(t, p, secretType, state, withChanges(config, map[string]any{"value_wo": "planted-2"}), "no-op")
	config = withChanges(config, map[string]any{"value_wo": nil, "description": "of the registry"}) // changing the description needs no value
	state = apply(t, p, secretType, state, config, "update")
	expectState(t, state, map[string]any{"id": id, "description": "of the registry", "value_last_updated_at": updated})
	attributeCase{removal: "update"}.expectOmission(t, p, state, map[string]any{"name": "token"})
	config = withChanges(config, map[string]any{"value_wo": "planted-3", "value_wo_version": 2, "description": nil})
	state = apply(t, p, secretType, state, config, "update")
	expectState(t, state, map[string]any{"id": id, "description": nil})
	must.Hold(t, state.Get("value_last_updated_at") != updated, "the value was not sent")
	must.Hold(t, !state.Contains("planted"), "the state has a value", state.Value)
	state = apply(t, p, secretType, state, withChanges(config, map[string]any{"name": "other"}), "replace")
	all := secretsOf(t, d)
	must.Hold(t, len(all) == 1 && all[0].Name == "other" && all[0].ID != id, "there is", all)
	must.Succeed(t, p.Destroy(state).Err())
	must.Equal(t, secretsOf(t, d), nil, "the secrets after the deletion")
}

func TestSecretRules(t *testing.T) {
	acctest.LeaveToCI(t, "TestSecret covers the value")
	d, p := deploy(t)
	config := map[string]any{"name": "token", "value_wo": "planted-1", "value_wo_version": 1}
	withoutValue := withChanges(config, map[string]any{"value_wo": nil})
	expectRejection(t, d, p, tfdrive.State{}, secretType, withoutValue, "value_wo", "needs its value")
	expectRejection(t, d, p, tfdrive.State{}, secretType, withChanges(config, map[string]any{"value_wo_version": nil}), "value_wo_version", "needs value_wo_version")
	for _, name := range []string{"", "1a", "a b", "ä", "RUNPOD_x", "runpodx", strings.Repeat("a", 192)} {
		expectRejection(t, d, p, tfdrive.State{}, secretType, withChanges(config, map[string]any{"name": name}), "name", "expected")
	}
	expectRejection(t, d, p, tfdrive.State{}, secretType, withChanges(config, map[string]any{"value_wo": ""}), "value_wo", "at least one character")
	expectRejection(t, d, p, tfdrive.State{}, secretType, withChanges(config, map[string]any{"value_wo": strings.Repeat("é", 1<<23)}), "value_wo", "at most 16777215 bytes, got 16777216 bytes")
	expectRejection(t, d, p, tfdrive.State{}, secretType, withChanges(config, map[string]any{"description": strings.Repeat("é", 32768)}), "description", "at most 65535 bytes")
	state := apply(t, p, secretType, tfdrive.State{}, config, "create")
	expectRejection(t, d, p, state, secretType, withChanges(withoutValue, map[string]any{"value_wo_version": 2}), "value_wo", "value for this run. Terraform passes null")
	expectRejection(t, d, p, state, secretType, withChanges(withoutValue, map[string]any{"name": "other"}), "value_wo", "needs its value")
	// Another secret has the same name in lower case, so the apply fails.
	_, diags := p.Apply(p.Reconfigure().Plan(secretType, tfdrive.State{}, withChanges(config, map[string]any{"name": "TOKEN"})))
	must.Hold(t, diags.Err() != nil && strings.Contains(diags.String(), "TOKEN") && !strings.Contains(diags.String(), "planted"),
		"expected an error with the taken name and without the value, got", diags)
}

// After an import, the first value_wo_version is recorded without sending the value.
func TestSecretImport(t *testing.T) {
	d, p := deploy(t)
	created := must.Do(d.Client(t, api.V2).Secrets.Create(t.Context(), api.Secret{Name: "token", Value: "planted-old"}))(t)
	state, diags := p.Import(secretType, "token")
	must.Require(t, diags.Err() == nil && state.Get("id") == created.ID, diags, state.Value)
	config := map[string]any{"name": "token"}
	state = apply(t, p, secretType, state, config, "no-op") // an imported secret needs no value
	config = withChanges(config, map[string]any{"value_wo": "planted-new", "value_wo_version": 7})
	must.Contain(t, p.Plan(secretType, state, config).Diagnostics.Warnings(), "The value is not sent")
	writes := d.Writes()
	state = apply(t, p, secretType, state, config, "update")
	must.Equal(t, d.Writes(), writes, "the import sent something")
	state = apply(t, p, secretType, state, map[string]any{"name": "token"}, "update") // the next version isn't the first: its value is sent
	state = apply(t, p, secretType, state, withChanges(config, map[string]any{"value_wo_version": 8}), "update")
	must.Hold(t, state.Get("value_last_updated_at") != created.ValueLastUpdatedAt && d.Writes() == writes+1, "the value was not sent once", state.Value)
}

// If all responses of a create are lost, the state has the one secret, and the next apply sends its value again. If
// only the first is lost, the next plan is empty.
func TestSecretWhoseCreateIsLost(t *testing.T) {
	t.Parallel()
	for _, lost := range []int64{1, 100} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			d := acctest.Deploy(t)
			w := newLossyProxy(t, d)
			p := drive(t, d, api.V2)
			config := map[string]any{"name": "token", "value_wo": "planted-1", "value_wo_version": 1}
			w.toDrop.Store(lost)
			state, diags := p.Apply(p.Plan(secretType, tfdrive.State{}, config))
			w.toDrop.Store(0)
			must.Hold(t, !strings.Contains(diags.String(), "planted"), "a diagnostic has the value", diags)
			all := secretsOf(t, d)
			must.Require(t, diags.Err() == nil && len(all) == 1 && all[0].ID == state.Get("id"),
				diags, "there is", all, "and the state has", state.Value)
			action := "update"
			if lost == 1 {
				action = "no-op"
			}
			apply(t, p.Reconfigure(), secretType, state, config, action)
			all = secretsOf(t, d)
			must.Hold(t, len(all) == 1 && all[0].ID == state.Get("id"), "there is", all)
		})
	}
}

// An update that fails may have stored its value. The next apply sends a value again, even if the
// configuration has the old one again.
func TestSecretUpdateThatFails(t *testing.T) {
	t.Parallel()
	d := acctest.Deploy(t)
	var fails atomic.Bool
	d.Intercept(t, func(out http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
		if r.Method == http.MethodPatch && fails.Load() {
			forward.ServeHTTP(httptest.NewRecorder(), r)
			out.WriteHeader(http.StatusInternalServerError)
			return
		}
		forward.ServeHTTP(out, r)
	})
	p := drive(t, d, api.V2)
	config := map[string]any{"name": "S", "value_wo": "old", "value_wo_version": 1}
	state := apply(t, p, secretType, tfdrive.State{}, config, "create")
	fails.Store(true)
	state, diags := p.Apply(p.Reconfigure().Plan(secretType, state, withChanges(config, map[string]any{"value_wo": "new", "value_wo_version": 2})))
	must.Require(t, diags.Err() != nil, "the update succeeded")
	fails.Store(false)
	state = apply(t, p.Reconfigure(), secretType, state, config, "update")
	expectPlan(t, p.Reconfigure(), secretType, state, config, "no-op")
}

package resources_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const secretType = "gpucloud_secret"

// secretsOf returns the secrets of a deployment.
func secretsOf(t *testing.T, d *acctest.Deployment) []api.Secret {
	t.Helper()
	all := must.Do(d.Client(t, api.V2).Secrets.List(t.Context()))(t)
	return all
}

// A new version sends the value in place. A new value with the same version isn't sent. A new
// name replaces the secret.
func TestSecret(t *testing.T) {
	d, p := deploy(t)
	config := map[string]any{"name": "token", "value_wo": "planted-1", "value_wo_version": 1}
	state := apply(t, p, secretType, tfdrive.State{}, config, "create")
	id, updated := state.Get("id"), state.Get("value_last_updated_at")
	expectState(t, state, map[string]any{"name": "token", "description": nil, "value_wo": nil})

	apply(t, p, secretType, state, with(config, map[string]any{"value_wo": "planted-2"}), "no-op")
	config = with(config, map[string]any{"value_wo": nil, "description": "of the registry"}) // changing the description needs no value
	state = apply(t, p, secretType, state, config, "update")
	expectState(t, state, map[string]any{"id": id, "description": "of the registry", "value_last_updated_at": updated})
	config = with(config, map[string]any{"value_wo": "planted-3", "value_wo_version": 2, "description": nil})
	state = apply(t, p, secretType, state, config, "update")
	if expectState(t, state, map[string]any{"id": id, "description": nil}); state.Get("value_last_updated_at") == updated {
		t.Error("the value was not sent")
	}
	must.Hold(t, !state.Holds("planted"), "the state has a value", state.Value)
	state = apply(t, p, secretType, state, with(config, map[string]any{"name": "other"}), "replace")
	all := secretsOf(t, d)
	must.Hold(t, len(all) == 1 && all[0].Name == "other" && all[0].ID != id, "there is", all)
	if err := p.Destroy(state).Err(); err != nil || len(secretsOf(t, d)) != 0 {
		t.Errorf("%v, and there is %v", err, secretsOf(t, d))
	}
}

func TestSecretIsChecked(t *testing.T) {
	acctest.LeaveToCI(t, "TestSecret covers the value")
	d, p := deploy(t)
	config := map[string]any{"name": "token", "value_wo": "planted-1", "value_wo_version": 1}
	without := with(config, map[string]any{"value_wo": nil})
	expectRefusal(t, d, p, tfdrive.State{}, secretType, without, "value_wo", "needs its value")
	expectRefusal(t, d, p, tfdrive.State{}, secretType, with(config, map[string]any{"value_wo_version": nil}), "value_wo_version", "needs value_wo_version")
	for _, name := range []string{"", "1a", "a b", "ä", "RUNPOD_x", "runpodx", strings.Repeat("a", 192)} {
		expectRefusal(t, d, p, tfdrive.State{}, secretType, with(config, map[string]any{"name": name}), "name", "expected")
	}
	expectRefusal(t, d, p, tfdrive.State{}, secretType, with(config, map[string]any{"value_wo": ""}), "value_wo", "at least one character")
	expectRefusal(t, d, p, tfdrive.State{}, secretType, with(config, map[string]any{"value_wo": strings.Repeat("é", 1<<23)}), "value_wo", "at most 16777215 bytes, got 16777216 bytes")
	expectRefusal(t, d, p, tfdrive.State{}, secretType, with(config, map[string]any{"description": strings.Repeat("é", 32768)}), "description", "at most 65535 bytes")
	state := apply(t, p, secretType, tfdrive.State{}, config, "create")
	expectRefusal(t, d, p, state, secretType, with(without, map[string]any{"value_wo_version": 2}), "value_wo", "needs its value")
	expectRefusal(t, d, p, state, secretType, with(without, map[string]any{"name": "other"}), "value_wo", "needs its value")
	// Another secret has the same name in lower case, so the apply fails.
	planned := p.Walk().Plan(secretType, tfdrive.State{}, with(config, map[string]any{"name": "TOKEN"}))
	if _, diags := p.Apply(planned); diags.Err() == nil || !strings.Contains(diags.String(), "TOKEN") || strings.Contains(diags.String(), "planted") {
		t.Errorf("a name that is taken: %s", diags)
	}
}

// After an import, the first version is only recorded.
func TestSecretImport(t *testing.T) {
	d, p := deploy(t)
	created := must.Do(d.Client(t, api.V2).Secrets.Create(t.Context(), api.Secret{Name: "token", Value: "planted-old"}))(t)
	state, diags := p.Import(secretType, "token")
	if diags.Err() != nil || state.Get("id") != created.ID {
		t.Fatal(diags, state.Value)
	}
	config := map[string]any{"name": "token"}
	state = apply(t, p, secretType, state, config, "no-op") // an imported secret needs no value
	config = with(config, map[string]any{"value_wo": "planted-new", "value_wo_version": 7})
	planned := p.Plan(secretType, state, config)
	must.Contain(t, planned.Diagnostics.Warnings(), "The value is not sent")
	writes := d.Writes()
	state = apply(t, p, secretType, state, config, "update")
	must.Equal(t, d.Writes(), writes, "the import sent something")
	state = apply(t, p, secretType, state, with(config, map[string]any{"value_wo_version": 8}), "update")
	must.Hold(t, state.Get("value_last_updated_at") != created.ValueLastUpdatedAt && d.Writes() == writes+1, "the value was not sent once", state.Value)
}

// If all responses of a create are lost, one secret exists and is in the state. The next apply sends
// the value again, because no response shows whether it was stored.
func TestSecretWhoseCreateIsLost(t *testing.T) {
	t.Parallel()
	for _, lost := range []int64{1, 100} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			d := acctest.Deploy(t)
			w := wireTo(t, d)
			p := drive(t, d, api.V2)
			config := map[string]any{"name": "token", "value_wo": "planted-1", "value_wo_version": 1}
			w.lose.Store(lost)
			state, diags := p.Apply(p.Plan(secretType, tfdrive.State{}, config))
			w.lose.Store(0)
			must.Hold(t, !strings.Contains(diags.String(), "planted"), "a diagnostic has the value", diags)
			if all := secretsOf(t, d); diags.Err() != nil || len(all) != 1 || all[0].ID != state.Get("id") {
				t.Fatalf("%s; there is %v, and the state has %v", diags, all, state.Value)
			}
			action := "update"
			if lost == 1 {
				action = "no-op"
			}
			apply(t, p.Walk(), secretType, state, config, action)
			all := secretsOf(t, d)
			must.Hold(t, len(all) == 1 && all[0].ID == state.Get("id"), "there is", all)
		})
	}
}

package resources_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const (
	annesKey  = "ssh-ed25519 AAAAC3Nza anne@example.com"
	bensKey   = "ssh-rsa AAAAB3Nza"
	othersKey = "ecdsa-sha2-nistp256 AAAAE2Vj other@example.com"
)

func keysAre(t *testing.T, d *acctest.Deployment, want ...string) {
	t.Helper()
	got, err := d.Client(t, api.V2).SSHKeys.Get(t.Context())
	slices.Sort(got)
	slices.Sort(want)
	must.Hold(t, err == nil && slices.Equal(got, want), "the account has", got, err, want)
}

func addKey(t *testing.T, d *acctest.Deployment, key string) {
	t.Helper()
	must.Do(d.Client(t, api.V2).SSHKeys.Edit(t.Context(), func(keys []string) []string { return append(keys, key) }))(t)
}

func TestSSHKeys(t *testing.T) {
	t.Parallel()
	const typeName = "gpucloud_ssh_keys"
	d, p := deploy(t)
	config := func(keys ...any) map[string]any { return map[string]any{"keys": keys} }
	state := apply(t, p, typeName, tfdrive.State{}, config(annesKey), "create")
	expectState(t, state, map[string]any{"id": "account"})
	keysAre(t, d, annesKey)
	state = apply(t, p, typeName, state, config(annesKey, bensKey), "update")
	keysAre(t, d, annesKey, bensKey)
	addKey(t, d, othersKey) // the next apply removes a key that somebody else added
	state = applyRestore(t, p, state, config(annesKey, bensKey))
	keysAre(t, d, annesKey, bensKey)
	state = apply(t, p, typeName, state, config(bensKey), "update")
	keysAre(t, d, bensKey)
	diags := p.Destroy(state)
	must.Hold(t, diags.Err() == nil, diags)
	keysAre(t, d)
}

// With keep_others, no create, update or deletion removes the keys of others.
func TestSSHKeysBesideOthers(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	addKey(t, d, othersKey)
	const typeName = "gpucloud_ssh_keys"
	withOthers := func(keys ...any) map[string]any { return map[string]any{"keys": keys, "keep_others": true} }

	state := apply(t, p, typeName, tfdrive.State{}, withOthers(annesKey), "create")
	keysAre(t, d, othersKey, annesKey)
	state = apply(t, p, typeName, state, withOthers(bensKey), "update")
	keysAre(t, d, othersKey, bensKey)
	addKey(t, d, annesKey) // added by somebody else
	expectEmptyPlan(t, p, state, withOthers(bensKey))
	must.Do(d.Client(t, api.V2).SSHKeys.Set(t.Context(), []string{othersKey}))(t)
	if removed, diags := p.Walk().Read(state); diags.Err() != nil || len(removed.Get("keys").([]any)) != 0 {
		t.Errorf("a key that somebody else removed: %v, %v", removed.Get("keys"), diags)
	}
	state = apply(t, p, typeName, state, map[string]any{"keys": []any{bensKey}}, "update") // the resource now manages all keys
	keysAre(t, d, bensKey)
	addKey(t, d, othersKey)
	state, _ = p.Walk().Read(state)
	state = apply(t, p, typeName, state, withOthers(bensKey), "update") // the resource manages only its own keys again
	keysAre(t, d, bensKey, othersKey)
	must.Succeed(t, p.Destroy(state).Err())
	keysAre(t, d, othersKey)
}

// The plan of a create, and of an update that no longer keeps them, warns if it removes the keys
// of others. It rejects a text that isn't a public key.
func TestSSHKeysPlan(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	addKey(t, d, othersKey)
	const typeName = "gpucloud_ssh_keys"
	plan := func(config map[string]any) string {
		return p.Plan(typeName, tfdrive.State{}, config).Diagnostics.Warnings()
	}
	must.Contain(t, plan(map[string]any{"keys": []any{annesKey}}), "removes them: ecdsa-sha2-nistp256 other@example.com")
	for name, config := range map[string]map[string]any{
		"keeps them":  {"keys": []any{annesKey}, "keep_others": true},
		"has them":    {"keys": []any{annesKey, othersKey}},
		"may have it": {"keys": []any{annesKey, tfdrive.Unknown}},
		"unknown":     {"keys": tfdrive.Unknown},
	} {
		must.Equal(t, plan(config), "", name, "the plan warns")
	}
	kept := apply(t, p, typeName, tfdrive.State{}, map[string]any{"keys": []any{annesKey}, "keep_others": true}, "create")
	if warning := p.Plan(typeName, kept, map[string]any{"keys": []any{bensKey}}).Diagnostics.Warnings(); !strings.Contains(warning, "removes them: ecdsa-sha2-nistp256 other@example.com.") {
		t.Errorf("the plan without keep_others warns: %q", warning)
	}
	for _, key := range []string{"", "AAAA", "ssh-rsa", annesKey + "\n", "-----BEGIN OPENSSH PRIVATE KEY-----"} {
		expectRefusal(t, d, p, tfdrive.State{}, typeName, map[string]any{"keys": []any{key}}, "keys.*", "expected a public key")
	}
	expectRefusalOnV1(t, d, typeName, map[string]any{"keys": []any{annesKey}})
}

// expectRefusalOnV1 expects a plan error because API v1 lacks the kind.
func expectRefusalOnV1(t *testing.T, d *acctest.Deployment, typeName string, config map[string]any) {
	t.Helper()
	err := drive(t, d, api.V1).Plan(typeName, tfdrive.State{}, config).Diagnostics.Err()
	must.Fail(t, err, `in management API v2 only. Remove the resource, or set api_version = "v2"`)
}

package resources_test

import (
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const (
	sshKeysType = "gpucloud_ssh_keys"
	annesKey    = "ssh-ed25519 AAAAC3Nza anne@example.com"
	bensKey     = "ssh-rsa AAAAB3Nza"
	othersKey   = "ecdsa-sha2-nistp256 AAAAE2Vj other@example.com"
)

func expectKeys(t *testing.T, d *acctest.Deployment, want ...string) {
	t.Helper()
	got, err := d.Client(t, api.V2).SSHKeys.Get(t.Context())
	slices.Sort(got)
	slices.Sort(want)
	must.Hold(t, err == nil && slices.Equal(got, want), "the account has", got, err, "expected", want)
}

func addKey(t *testing.T, d *acctest.Deployment, key string) {
	t.Helper()
	must.Do(d.Client(t, api.V2).SSHKeys.Edit(t.Context(), nil, func(keys, _ []string) []string { return append(keys, key) }))(t)
}

func TestSSHKeys(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	config := func(keys ...any) map[string]any { return map[string]any{"keys": keys} }
	state := apply(t, p, sshKeysType, tfdrive.State{}, config(annesKey), "create")
	expectState(t, state, map[string]any{"id": "account"})
	expectKeys(t, d, annesKey)
	state = apply(t, p, sshKeysType, state, config(annesKey, bensKey), "update")
	expectKeys(t, d, annesKey, bensKey)
	addKey(t, d, othersKey) // the next apply removes a key that somebody else added
	state = applyRestore(t, p, state, config(annesKey, bensKey))
	expectKeys(t, d, annesKey, bensKey)
	state = apply(t, p, sshKeysType, state, config(bensKey), "update")
	expectKeys(t, d, bensKey)
	// A replacement with create_before_destroy: deleting the old state keeps the keys that the same apply added.
	tfdrive.Do(p.Apply(p.Plan(sshKeysType, tfdrive.State{}, config(bensKey))))(t)
	must.Succeed(t, p.Destroy(state).Err())
	expectKeys(t, d, bensKey)
	must.Succeed(t, p.Reconfigure().Destroy(state).Err())
	expectKeys(t, d)
}

// With keep_others, no create, update or deletion removes the keys of others.
func TestSSHKeysKeepOthers(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	addKey(t, d, othersKey)
	withOthers := func(keys ...any) map[string]any { return map[string]any{"keys": keys, "keep_others": true} }

	state := apply(t, p, sshKeysType, tfdrive.State{}, withOthers(annesKey), "create")
	expectKeys(t, d, othersKey, annesKey)
	state = apply(t, p, sshKeysType, state, withOthers(bensKey), "update")
	expectKeys(t, d, othersKey, bensKey)
	addKey(t, d, annesKey) // added by somebody else
	expectEmptyPlan(t, p, state, withOthers(bensKey))
	must.Do(d.Client(t, api.V2).SSHKeys.Set(t.Context(), []string{othersKey}))(t)
	must.Equal(t, len(refresh(t, p, state).Get("keys").([]any)), 0, "a key that somebody else removed")
	state = apply(t, p, sshKeysType, state, map[string]any{"keys": []any{bensKey}}, "update") // the resource now manages all keys
	expectKeys(t, d, bensKey)
	addKey(t, d, othersKey)
	state = apply(t, p, sshKeysType, refresh(t, p, state), withOthers(bensKey), "update") // the resource manages only its own keys again
	expectKeys(t, d, bensKey, othersKey)
	must.Succeed(t, p.Destroy(state).Err())
	expectKeys(t, d, othersKey)
}

// The plan warns if it removes the keys of others, and rejects a text that isn't a public key.
func TestSSHKeysPlan(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	addKey(t, d, othersKey)
	plan := func(config map[string]any) string {
		return p.Plan(sshKeysType, tfdrive.State{}, config).Diagnostics.Warnings()
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
	kept := apply(t, p, sshKeysType, tfdrive.State{}, map[string]any{"keys": []any{annesKey}, "keep_others": true}, "create")
	expectPlan(t, p, sshKeysType, kept, map[string]any{"keys": []any{bensKey}}, "update", "removes them: ecdsa-sha2-nistp256 other@example.com.")
	for _, key := range []string{"", "AAAA", "ssh-rsa", annesKey + "\n", "-----BEGIN OPENSSH PRIVATE KEY-----"} {
		expectRejection(t, d, p, tfdrive.State{}, sshKeysType, map[string]any{"keys": []any{key}}, "keys.*", "expected a public key")
	}
	expectRejectionOnV1(t, d, sshKeysType, map[string]any{"keys": []any{annesKey}})
}

func TestSSHKeysSource(t *testing.T) {
	_, p := deploy(t)
	must.Equal(t, readSource(t, p, sshKeysType, nil).Get("keys").([]any), nil, "an empty deployment has")
	apply(t, p, sshKeysType, tfdrive.State{}, map[string]any{"keys": []any{annesKey}}, "create")
	got := readSource(t, p.Reconfigure(), sshKeysType, nil)
	keys := got.Get("keys").([]any)
	must.Hold(t, got.Get("id") == "account" && slices.Equal(keys, []any{annesKey}), "expected only Anne's key, got", got.Value)
}

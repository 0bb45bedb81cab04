package store_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const plantedValue = "planted-value-of-a-secret"

func openSecrets(t *testing.T, dir string) (*store.Store, func()) {
	t.Helper()
	s, closeStore := open(t, dir)
	must.Succeed(t, s.UseSecretKey("", dir))
	return s, closeStore
}

func resolve(t *testing.T, s *store.Store, env map[string]string) map[string]string {
	t.Helper()
	out, _, err := s.ResolveSecrets(t.Context(), env)
	must.Succeed(t, err)
	return out
}

func TestResolveSecrets(t *testing.T) {
	s, _ := openSecrets(t, t.TempDir())
	a := must.Do(s.CreateSecret(t.Context(), store.Secret{Head: store.Head{Name: "A.b-c/d"}}, plantedValue))(t)
	must.Do(s.CreateSecret(t.Context(), store.Secret{Head: store.Head{Name: "nested"}}, "{{ RUNPOD_SECRET_A.b-c/d }}"))(t)
	env := map[string]string{
		"WHOLE": "{{ RUNPOD_SECRET_A.b-c/d }}", "PART": "a={{RUNPOD_SECRET_A.b-c/d}};b={{\tRUNPOD_SECRET_a.B-C/D  }}", "ABSENT": "x{{ RUNPOD_SECRET_absent }}y",
		"NESTED": "{{ RUNPOD_SECRET_nested }}", "OTHER": "{{ A.b-c/d }} {{ RUNPOD_SECRET_ }} { RUNPOD_SECRET_nested } {{ runpod_secret_nested }}", "PLAIN": "1",
	}
	before := maps.Clone(env)
	want := map[string]string{
		"WHOLE": plantedValue, "PART": "a=" + plantedValue + ";b=" + plantedValue, "ABSENT": "xy", "NESTED": "{{ RUNPOD_SECRET_A.b-c/d }}", "OTHER": env["OTHER"], "PLAIN": "1",
	}
	got := resolve(t, s, env)
	must.Hold(t, maps.Equal(got, want) && maps.Equal(env, before), "resolved to", got, "want", want)
	_, values, _ := s.ResolveSecrets(t.Context(), env)
	must.Hold(t, slices.Contains(values, plantedValue), "the values are", values)
	must.Succeed(t, store.Delete[store.Secret](t.Context(), s, a.ID))
	must.Equal(t, resolve(t, s, env)["WHOLE"], "", "a deleted secret resolves to")
}

// Neither the database nor a backup ever contains a value in clear text.
func TestSecretsAreEncrypted(t *testing.T) {
	dir := t.TempDir()
	s, closeStore := openSecrets(t, dir)
	secret := must.Do(s.CreateSecret(t.Context(), store.Secret{Head: store.Head{Name: "a"}}, plantedValue))(t)
	must.Do(s.UpdateSecret(t.Context(), secret.ID, store.SecretChange{Value: new(plantedValue + "2")}))(t)
	expectNoPlaintext(t, dir)
	backup := t.TempDir()
	must.Succeed(t, sqldb.Backup(dir, backup))
	expectNoPlaintext(t, backup)
	closeStore()
	expectNoPlaintext(t, dir)
	info := must.Do(os.Stat(filepath.Join(dir, store.SecretKeyFile)))(t)
	must.Equal(t, info.Mode().Perm()&0o077, 0, "the key file", info)
	s, _ = openSecrets(t, dir)
	must.Succeed(t, s.CheckSecretKey(t.Context()))
	must.Equal(t, resolve(t, s, map[string]string{"A": "{{ RUNPOD_SECRET_a }}"})["A"], plantedValue+"2", "after a restart it resolves to")
}

func expectNoPlaintext(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	must.Require(t, err == nil && len(files) != 0, files, err)
	for _, file := range files {
		text := must.ReadFile(t, file)
		for _, form := range []string{plantedValue, base64.StdEncoding.EncodeToString([]byte(plantedValue))[:28]} {
			must.Hold(t, !bytes.Contains(text, []byte(form)), filepath.Base(file), "has a value")
		}
	}
}

// Without the right key, secrets can only be deleted. The error says where the key belongs.
func TestSecretsNeedTheirKey(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"removed": os.Remove,
		"another": func(path string) error {
			return os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600)
		},
		"unreadable": func(path string) error { return os.WriteFile(path, []byte("short"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, closeStore := openSecrets(t, dir)
			secret := must.Do(s.CreateSecret(t.Context(), store.Secret{Head: store.Head{Name: "a"}}, plantedValue))(t)
			closeStore()
			must.Succeed(t, damage(filepath.Join(dir, store.SecretKeyFile)))
			s, _ = openSecrets(t, dir)
			expectKeyError(t, s.CheckSecretKey(t.Context()))
			_, _, err := s.ResolveSecrets(t.Context(), map[string]string{"A": "{{ RUNPOD_SECRET_a }}"})
			expectKeyError(t, err)
			_, err = s.CreateSecret(t.Context(), store.Secret{Head: store.Head{Name: "b"}}, plantedValue)
			expectKeyError(t, err)
			_, err = s.UpdateSecret(t.Context(), secret.ID, store.SecretChange{Value: new(plantedValue)})
			expectKeyError(t, err)
			all := must.Do(store.List[store.Secret](t.Context(), s))(t)
			must.Hold(t, len(all) == 1, "there are", all)
			must.Succeed(t, store.Delete[store.Secret](t.Context(), s, secret.ID))
			if name == "unreadable" {
				must.Hold(t, s.UseSecretKey(filepath.Join(dir, store.SecretKeyFile), dir) != nil, "a key file without a key is accepted")
			}
		})
	}
}

func expectKeyError(t *testing.T, err error) {
	t.Helper()
	var key store.KeyError
	must.Hold(t, errors.As(err, &key) && strings.Contains(err.Error(), store.SecretKeyFile) && !strings.Contains(err.Error(), plantedValue), "want a KeyError that names the key's file and no value, got", err)
}

// If the key's folder doesn't exist, the error says so, and doesn't say that the secrets have another key.
func TestSecretKeyWithoutFolder(t *testing.T) {
	s, _ := open(t, t.TempDir())
	must.Succeed(t, s.CheckSecretKey(t.Context()))
	must.Succeed(t, s.UseSecretKey(filepath.Join(t.TempDir(), "missing", store.SecretKeyFile), ""))
	_, err := s.CreateSecret(t.Context(), store.Secret{Head: store.Head{Name: "a"}}, plantedValue)
	expectKeyError(t, err)
	must.Hold(t, !strings.Contains(err.Error(), "another key"), "the error must not say that the secrets have another key:", err)
}

// Nodes on one database read each other's secrets if they have the same key.
func TestSecretsOfSeveralNodes(t *testing.T) {
	url := pgtest.Start(t)
	openNode := func(keyFile string) *store.Store {
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: url}))(t)
		t.Cleanup(func() { _ = db.Close() }) // an error loses nothing
		s := must.Do(store.Open(t.Context(), db, new(clock.Clock)))(t)
		must.Succeed(t, s.UseSecretKey(keyFile, ""))
		return s
	}
	path := filepath.Join(t.TempDir(), store.SecretKeyFile)
	a, b, nodeWithOtherKey := openNode(path), openNode(path), openNode(filepath.Join(t.TempDir(), store.SecretKeyFile))
	must.Do(a.CreateSecret(t.Context(), store.Secret{Head: store.Head{Name: "a"}}, plantedValue))(t)
	must.Equal(t, resolve(t, b, map[string]string{"A": "{{ RUNPOD_SECRET_a }}"})["A"], plantedValue, "another node resolves it to")
	_, err := b.CreateSecret(t.Context(), store.Secret{Head: store.Head{Name: "A"}}, plantedValue)
	var conflict store.Conflict
	must.Hold(t, errors.As(err, &conflict), "a name in another case", err)
	_, _, err = nodeWithOtherKey.ResolveSecrets(t.Context(), map[string]string{"A": "{{ RUNPOD_SECRET_a }}"})
	expectKeyError(t, err)
	_, err = nodeWithOtherKey.CreateSecret(t.Context(), store.Secret{Head: store.Head{Name: "c"}}, plantedValue)
	expectKeyError(t, err)
}

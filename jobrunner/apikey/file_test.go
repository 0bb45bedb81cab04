package apikey_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

func requestWith(key string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	return r
}

func add(t *testing.T, f *apikey.File, name string, endpoints ...string) string {
	t.Helper()
	key, err := f.Add(name, endpoints)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// openKeys opens the keys of a deployment whose own key is "own", and its log.
func openKeys(t *testing.T, dir string) (*apikey.Keys, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	keys, err := apikey.New("own").With(apikey.At(dir), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return keys, log
}

// A running deployment accepts a key as soon as it is added, and refuses it as
// soon as it is removed.
func TestAddAndRemoveWhileRunning(t *testing.T) {
	dir := t.TempDir()
	keys, _ := openKeys(t, dir)
	expect := func(key string, want apikey.Identity) {
		t.Helper()
		who, err := keys.Authorize(requestWith(key))
		if err != nil && !errors.Is(err, apikey.ErrUnknown) || (err != nil) != (want.Owner == "") || !reflect.DeepEqual(who, want) {
			t.Errorf("got %+v, %v", who, err)
		}
	}
	var unknown apikey.Identity
	expect("own", apikey.Identity{Owner: "default"})
	expect("", unknown)

	commands := apikey.At(dir) // another process
	all := add(t, commands, "all")
	expect(all, apikey.Identity{Owner: "all"})
	some := add(t, commands, "some", "e1", "e2")
	expect(some, apikey.Identity{Owner: "some", Endpoints: []string{"e1", "e2"}})
	expect(all, apikey.Identity{Owner: "all"})
	expect("own", apikey.Identity{Owner: "default"})
	expect(some+"x", unknown)
	expect(some[1:], unknown)
	expect(strings.ToLower(some), unknown)
	expect("", unknown)

	if err := commands.Remove("all"); err != nil {
		t.Fatal(err)
	}
	expect(all, unknown)
	expect(some, apikey.Identity{Owner: "some", Endpoints: []string{"e1", "e2"}})
	again := add(t, commands, "all")
	expect(all, unknown)
	expect(again, apikey.Identity{Owner: "all"})
	if err := os.Remove(filepath.Join(dir, apikey.FileName)); err != nil {
		t.Fatal(err)
	}
	expect(some, unknown)
	expect("own", apikey.Identity{Owner: "default"})
}

func TestEmptyKeyIsUnknown(t *testing.T) {
	for _, sent := range []string{"", "x"} {
		if who, err := apikey.New("").Authorize(requestWith(sent)); !errors.Is(err, apikey.ErrUnknown) {
			t.Errorf("%q: %+v, %v", sent, who, err)
		}
	}
}

func TestMayUse(t *testing.T) {
	all, some := apikey.Identity{Owner: "a"}, apikey.Identity{Owner: "b", Endpoints: []string{"e1", "e2"}}
	if all.Restricted() || !all.MayUse("e3") || !some.Restricted() || !some.MayUse("e1") || !some.MayUse("e2") || some.MayUse("e3") || some.MayUse("") {
		t.Error("MayUse or Restricted is wrong")
	}
}

// The file is readable by its owner only, and has the key's hash instead of the key.
func TestStoredFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	key := add(t, apikey.At(dir), "ci", "e1")
	path := filepath.Join(dir, apikey.FileName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(key))
	if bytes.Contains(text, []byte(key)) || !bytes.Contains(text, []byte(hex.EncodeToString(hash[:]))) || len(key) < 26 {
		t.Errorf("the key is %s, and the file %s", key, text)
	}
	for path, mode := range map[string]os.FileMode{path: 0o600, dir: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	f := apikey.At(dir)
	add(t, f, "ci")
	for _, name := range []string{"", " ", "a b", "-a", "a\n", "a/b", strings.Repeat("a", 65), "default", "ci"} {
		if key, err := f.Add(name, nil); err == nil || key != "" {
			t.Errorf("%q: %q, %v", name, key, err)
		}
	}
	for _, id := range []string{"", " ", "a,b", "a/b"} {
		if key, err := f.Add("new", []string{"e1", id}); err == nil || key != "" {
			t.Errorf("endpoint %q: %q, %v", id, key, err)
		}
	}
	if err := f.Remove("new"); err == nil {
		t.Error("a key that is not there was removed")
	}
	if err := apikey.At(filepath.Join(dir, "nowhere")).Remove("ci"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("in no folder: %v", err)
	}
	if keys, err := f.List(); err != nil || len(keys) != 1 || keys[0].Name != "ci" {
		t.Errorf("there is %v, %v", keys, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

// While the file can't be read its keys are unknown, which is logged once, and no
// command replaces it.
func TestBrokenFile(t *testing.T) {
	for name, text := range map[string]string{
		"cut off": `{"keys": [{"na`, "empty": "", "short hash": `{"keys": [{"name": "a", "sha256": "ab"}]}`,
		"misspelt": `{"keys": [{"name": "a", "sha256": "` + strings.Repeat("ab", 32) + `", "endpoint": ["e"]}]}`,
	} {
		dir := t.TempDir()
		key := add(t, apikey.At(dir), "ci")
		keys, log := openKeys(t, dir)
		path := filepath.Join(dir, apikey.FileName)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if who, err := keys.Authorize(requestWith(key)); !errors.Is(err, apikey.ErrUnknown) {
				t.Errorf("%s: %+v, %v", name, who, err)
			}
		}
		if who, err := keys.Authorize(requestWith("own")); err != nil || who.Owner != "default" {
			t.Errorf("%s: the deployment's own key: %+v, %v", name, who, err)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, path) || strings.Contains(got, key) {
			t.Errorf("%s: the log is %s", name, got)
		}
		if _, err := apikey.At(dir).Add("new", nil); err == nil {
			t.Errorf("%s: a key was added", name)
		}
		if _, err := apikey.New("own").With(apikey.At(dir), slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: a deployment starts with it", name)
		}
		if content, err := os.ReadFile(path); err != nil || string(content) != text {
			t.Errorf("%s: the file is now %q, %v", name, content, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		key = add(t, apikey.At(dir), "ci")
		if who, err := keys.Authorize(requestWith(key)); err != nil || who.Owner != "ci" {
			t.Errorf("%s: after the repair: %+v, %v", name, who, err)
		}
	}
}

// Concurrent commands lose no key, while a deployment reads.
func TestConcurrentCommands(t *testing.T) {
	dir := t.TempDir()
	first := add(t, apikey.At(dir), "first")
	keys, _ := openKeys(t, dir)
	const many = 20
	var made [many]string
	var group sync.WaitGroup
	for n := range many {
		group.Go(func() {
			key, err := apikey.At(dir).Add(fmt.Sprintf("n%d", n), nil)
			if err != nil {
				t.Error(err)
			}
			made[n] = key
			if who, err := keys.Authorize(requestWith(first)); err != nil || who.Owner != "first" {
				t.Errorf("meanwhile: %+v, %v", who, err)
			}
		})
	}
	group.Wait()
	for n, key := range made {
		if who, err := keys.Authorize(requestWith(key)); err != nil || who.Owner != fmt.Sprintf("n%d", n) {
			t.Errorf("key %d: %+v, %v", n, who, err)
		}
	}
}

// The error names the file that an interrupted command left, which stays.
func TestInterruptedCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		temp := filepath.Join(dir, apikey.FileName+".new")
		if err := os.WriteFile(temp, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := apikey.At(dir).Add("ci", nil); err == nil || !strings.Contains(err.Error(), "remove "+temp) {
			t.Errorf("expected an error that says to remove %s, got %v", temp, err)
		}
		if _, err := os.Stat(temp); err != nil {
			t.Error("the file of another command was removed")
		}
	})
}

package apikey_test

import (
	"bytes"
	"context"
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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

func requestWith(key string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	return r
}

func addKey(t *testing.T, f *apikey.File, name string, endpoints ...string) string {
	t.Helper()
	return must.Do(f.Add(apikey.Key{Name: name, Endpoints: endpoints}))(t)
}

// openKeys opens the keys of a deployment whose own key is "own", and its log.
func openKeys(t *testing.T, dir string) (*apikey.Keys, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	return must.Do(apikey.New("own").With(apikey.FileIn(dir), time.Now, slog.New(slog.NewTextHandler(log, nil))))(t), log
}

// A running deployment accepts a key as soon as it is added, and rejects it as soon as it is removed.
func TestAddAndRemoveWhileRunning(t *testing.T) {
	dir := t.TempDir()
	keys, _ := openKeys(t, dir)
	expectIdentity := func(key string, want apikey.Identity) {
		t.Helper()
		caller, err := keys.Authorize(requestWith(key))
		must.Hold(t, (err == nil || errors.Is(err, apikey.ErrUnknown)) && (err != nil) == (want.Owner == "") && reflect.DeepEqual(caller, want), "the caller is", caller, err, "want", want)
	}
	var noIdentity apikey.Identity
	expectIdentity("own", apikey.Identity{Owner: "default", Management: apikey.All, Jobs: apikey.All})
	expectIdentity("", noIdentity)

	commands := apikey.FileIn(dir) // as another process would
	allKey := addKey(t, commands, "all")
	expectIdentity(allKey, apikey.Identity{Owner: "all", Management: apikey.All, Jobs: apikey.All})
	restrictedKey := addKey(t, commands, "some", "e1", "e2")
	expectIdentity(restrictedKey, apikey.Identity{Owner: "some", Management: apikey.None, Jobs: apikey.All, Endpoints: []string{"e1", "e2"}})
	expectIdentity(allKey, apikey.Identity{Owner: "all", Management: apikey.All, Jobs: apikey.All})
	expectIdentity(restrictedKey+"x", noIdentity)
	expectIdentity(restrictedKey[1:], noIdentity)
	expectIdentity(strings.ToLower(restrictedKey), noIdentity)
	expectIdentity("", noIdentity)

	must.Succeed(t, commands.Remove("all"))
	expectIdentity(allKey, noIdentity)
	expectIdentity(restrictedKey, apikey.Identity{Owner: "some", Management: apikey.None, Jobs: apikey.All, Endpoints: []string{"e1", "e2"}})
	secondKey := addKey(t, commands, "all")
	expectIdentity(allKey, noIdentity)
	expectIdentity(secondKey, apikey.Identity{Owner: "all", Management: apikey.All, Jobs: apikey.All})
	must.Succeed(t, os.Remove(filepath.Join(dir, apikey.FileName)))
	expectIdentity(restrictedKey, noIdentity)
	expectIdentity("own", apikey.Identity{Owner: "default", Management: apikey.All, Jobs: apikey.All})
}

func TestEmptyKeyIsUnknown(t *testing.T) {
	for _, header := range []string{"", "Bearer ", "Bearer x"} {
		caller, err := apikey.New("").Authorize(&http.Request{Header: http.Header{"Authorization": {header}}})
		must.Hold(t, errors.Is(err, apikey.ErrUnknown), "the key in", header, "must be unknown, got", caller, err)
	}
}

func TestScopes(t *testing.T) {
	dir := t.TempDir()
	keys, _ := openKeys(t, dir)
	for i, c := range []struct {
		key  apikey.Key
		want string // r, m: read and manage; e, E and o, O: read and all for the endpoint e1 and for another one
	}{
		{apikey.Key{}, "rmeEoO"},
		{apikey.Key{Endpoints: []string{"e1"}}, "eE"},
		{apikey.Key{Management: apikey.Read}, "reEoO"},
		{apikey.Key{Management: apikey.None}, "eEoO"},
		{apikey.Key{Jobs: apikey.Read}, "rmeo"},
		{apikey.Key{Jobs: apikey.None}, "rm"},
		{apikey.Key{Management: apikey.Read, Jobs: apikey.Read}, "reo"},
		{apikey.Key{Management: apikey.None, Jobs: apikey.None}, ""},
		{apikey.Key{Management: apikey.All, Jobs: apikey.Read, Endpoints: []string{"e1"}}, "rme"},
	} {
		c.key.Name, c.key.Owner = fmt.Sprint("key", i), "somebody"
		key := must.Do(apikey.FileIn(dir).Add(c.key))(t)
		caller, err := keys.Authorize(requestWith(key))
		got := ""
		for _, right := range []struct {
			letter  string
			allowed bool
		}{{"r", caller.MayRead()}, {"m", caller.MayManage()}, {"e", caller.MayUse("e1", apikey.Read)}, {"E", caller.MayUse("e1", apikey.All)}, {"o", caller.MayUse("e2", apikey.Read)}, {"O", caller.MayUse("e2", apikey.All)}} {
			if right.allowed {
				got += right.letter
			}
		}
		if refusal := caller.Refusal("e1"); strings.Contains(refusal, "for endpoint") || strings.Contains(refusal, "not for the job API") == strings.Contains(c.want, "e") {
			t.Errorf("%+v: refused at its own endpoint with %q", c.key, refusal)
		}
		refusal := caller.Refusal("e2")
		must.Hold(t, strings.Contains(refusal, "not for endpoint e2") == (len(c.key.Endpoints) > 0), c.key, "refused at another endpoint with", refusal)
		must.Hold(t, err == nil && got == c.want && caller.Owner == "somebody", c.key, "has the rights", got, "and the owner", caller.Owner, err, "want", c.want)
	}
}

// A key is rejected from its expiry on, and the error says so.
func TestExpiredKey(t *testing.T) {
	dir := t.TempDir()
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	key := must.Do(apikey.FileIn(dir).Add(apikey.Key{Name: "ci", Expires: end}))(t)
	now := end.Add(-time.Nanosecond)
	keys := must.Do(apikey.New("own").With(apikey.FileIn(dir), func() time.Time { return now }, slog.New(slog.DiscardHandler)))(t)
	caller := must.Do(keys.Authorize(requestWith(key)))(t)
	must.Hold(t, caller.Owner == "ci", "before its expiry", caller)
	now = end
	caller, err := keys.Authorize(requestWith(key))
	must.Hold(t, errors.Is(err, apikey.ErrUnknown) && strings.Contains(fmt.Sprint(err), "the API key expired at ") && caller.Owner == "", "at its expiry:", caller, err)
	must.ErrorContains(t, must.Err(apikey.FileIn(dir).Add(apikey.Key{Name: "late", Expires: time.Now()})), "invalid expiry")
	var asleep time.Duration // of the machine, whose monotonic clock stood still
	c := clock.New(func() time.Time { return time.Now().Add(asleep) })
	asleep = end.Sub(c.Now())
	c.MeasureJump()
	keys, _, err = apikey.Open(t.Context(), "own", dir, must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t), c, slog.New(slog.DiscardHandler))
	must.Succeed(t, err)
	must.ErrorIs(t, must.Err(keys.Authorize(requestWith(key))), apikey.ErrUnknown, "after the machine slept until the expiry")
}

// Keys from releases without scopes keep their rights.
func TestKeysWithoutScopes(t *testing.T) {
	dir := t.TempDir()
	hash := func(key string) string { h := sha256.Sum256([]byte(key)); return hex.EncodeToString(h[:]) }
	text := fmt.Sprintf(`{"keys":[{"name":"a","sha256":%q,"created":"2026-01-01T00:00:00Z"},{"name":"b","sha256":%q,"endpoints":["e1"],"created":"2026-01-01T00:00:00Z"}]}`, hash("one"), hash("two"))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, apikey.FileName), []byte(text), 0o600))
	keys, _ := openKeys(t, dir)
	for key, want := range map[string]apikey.Identity{
		"one": {Owner: "a", Management: apikey.All, Jobs: apikey.All},
		"two": {Owner: "b", Management: apikey.None, Jobs: apikey.All, Endpoints: []string{"e1"}},
	} {
		must.Equal(t, must.Do(keys.Authorize(requestWith(key)))(t), want, key)
	}
}

// The file is readable by its owner only, and has the key's hash instead of the key.
func TestStoredFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	key := addKey(t, apikey.FileIn(dir), "ci", "e1")
	path := filepath.Join(dir, apikey.FileName)
	text := must.ReadFile(t, path)
	hash := sha256.Sum256([]byte(key))
	must.Hold(t, !bytes.Contains(text, []byte(key)) && bytes.Contains(text, []byte(hex.EncodeToString(hash[:]))) && len(key) >= 26,
		"the key is", key, "and the file", string(text))
	for path, mode := range map[string]os.FileMode{path: 0o600, dir: 0o700} {
		info, err := os.Stat(path)
		must.Hold(t, err == nil && info.Mode().Perm() == mode, path, info.Mode(), err)
	}
	entries := must.Do(os.ReadDir(dir))(t)
	must.Hold(t, len(entries) == 1, "the folder has", entries)
}

func TestInvalidChanges(t *testing.T) {
	dir := t.TempDir()
	f := apikey.FileIn(dir)
	addKey(t, f, "ci")
	for _, name := range []string{"", " ", "a b", "-a", "a\n", "a/b", strings.Repeat("a", 65), "default", "ci"} {
		key, err := f.Add(apikey.Key{Name: name})
		must.Hold(t, err != nil && key == "", "adding the name", name, "returned", key, err)
	}
	for _, id := range []string{"", " ", "a,b", "a/b"} {
		key, err := f.Add(apikey.Key{Name: "new", Endpoints: []string{"e1", id}})
		must.Hold(t, err != nil && key == "", "adding a key for the endpoint", id, "returned", key, err)
	}
	must.Hold(t, f.Remove("new") != nil, "an unknown key was removed")
	must.ErrorContains(t, apikey.FileIn(filepath.Join(dir, "nowhere")).Remove("ci"), "does not exist")
	keys := must.Do(f.List())(t)
	must.Hold(t, len(keys) == 1 && keys[0].Name == "ci", "there is", keys)
	entries := must.Do(os.ReadDir(dir))(t)
	must.Hold(t, len(entries) == 1, "the folder has", entries)
}

// While the file can't be read, its keys are unknown, one error is logged, and commands don't replace it.
func TestBrokenFile(t *testing.T) {
	for name, text := range map[string]string{
		"cut off": `{"keys": [{"na`, "empty": "", "short hash": `{"keys": [{"name": "a", "sha256": "ab"}]}`,
		"misspelled":    `{"keys": [{"name": "a", "sha256": "` + strings.Repeat("ab", 32) + `", "endpoint": ["e"]}]}`,
		"unknown scope": `{"keys": [{"name": "a", "sha256": "` + strings.Repeat("ab", 32) + `", "jobs": "some"}]}`,
	} {
		dir := t.TempDir()
		key := addKey(t, apikey.FileIn(dir), "ci")
		keys, log := openKeys(t, dir)
		path := filepath.Join(dir, apikey.FileName)
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		must.Hold(t, must.Err(keys.List()) != nil, name, "the keys are listed")
		for range 3 {
			caller, err := keys.Authorize(requestWith(key))
			must.Hold(t, errors.Is(err, apikey.ErrUnknown), name, caller, err)
		}
		caller := must.Do(keys.Authorize(requestWith("own")))(t)
		must.Hold(t, caller.Owner == "default", name, "the deployment's own key", caller)
		got := log.String()
		must.Hold(t, strings.Count(got, "\n") == 1 && strings.Contains(got, path) && !strings.Contains(got, key), name, "the log is", got)
		must.Hold(t, must.Err(apikey.FileIn(dir).Add(apikey.Key{Name: "new"})) != nil, name, "a key was added")
		must.Hold(t, must.Err(apikey.New("own").With(apikey.FileIn(dir), time.Now, slog.New(slog.DiscardHandler))) != nil, name, "a deployment starts with the file")
		must.Equal(t, string(must.ReadFile(t, path)), text, name, "the file is now")
		must.Succeed(t, os.Remove(path))
		key = addKey(t, apikey.FileIn(dir), "ci")
		caller = must.Do(keys.Authorize(requestWith(key)))(t)
		must.Hold(t, caller.Owner == "ci", name, "after the repair", caller)
	}
}

// Concurrent commands lose no key while a deployment reads the file.
func TestConcurrentCommands(t *testing.T) {
	dir := t.TempDir()
	first := addKey(t, apikey.FileIn(dir), "first")
	keys, _ := openKeys(t, dir)
	const many = 20
	var created [many]string
	var group sync.WaitGroup
	for n := range many {
		group.Go(func() {
			key, err := apikey.FileIn(dir).Add(apikey.Key{Name: fmt.Sprintf("n%d", n)})
			must.Succeed(t, err)
			created[n] = key
			caller, err := keys.Authorize(requestWith(first))
			must.Hold(t, err == nil && caller.Owner == "first", "during the changes:", caller, err)
		})
	}
	group.Wait()
	for n, key := range created {
		caller := must.Do(keys.Authorize(requestWith(key)))(t)
		must.Hold(t, caller.Owner == fmt.Sprintf("n%d", n), "key", n, caller)
	}
}

// The error names the file that an interrupted command left. The file isn't removed.
func TestInterruptedCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		temp := filepath.Join(dir, apikey.FileName+".new")
		must.Succeed(t, os.WriteFile(temp, nil, 0o600))
		_, err := apikey.FileIn(dir).Add(apikey.Key{Name: "ci"})
		must.Hold(t, err != nil && strings.Contains(err.Error(), "remove "+temp), "expected an error that says to remove", temp, "got", err)
		must.Equal(t, must.Err(os.Stat(temp)), nil, "finding the file of another command")
	})
}

// A table takes over the keys of two nodes' folders once, except removed ones and second keys of a name. Only a
// key whose restriction this version can't read is rejected.
func TestTableTakesOver(t *testing.T) {
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: pgtest.Start(t), NoNotify: true}))(t)
	defer db.Close()
	openTable := func() *apikey.Table { return must.Do(apikey.OpenTable(t.Context(), db))(t) }
	firstNode, secondNode := openTable(), openTable()
	folders := []*apikey.File{apikey.FileIn(t.TempDir()), apikey.FileIn(t.TempDir())}
	keys := map[string]string{}
	for i, names := range [][]string{{"shared-name", "a"}, {"shared-name", "b"}} {
		for _, name := range names {
			keys[name+string(rune('0'+i))] = must.Do(folders[i].Add(apikey.Key{Name: name, Jobs: apikey.Read}))(t)
		}
	}
	authorize := func(table *apikey.Table, key string) (apikey.Identity, error) {
		all := must.Do(apikey.New("").With(table, time.Now, slog.New(slog.NewTextHandler(t.Output(), nil))))(t)
		r := must.Do(http.NewRequestWithContext(context.Background(), http.MethodGet, "http://x", nil))(t)
		r.Header.Set("Authorization", key)
		return all.Authorize(r)
	}
	takeOver := func(table *apikey.Table, f *apikey.File, want int, conflicts ...string) {
		t.Helper()
		added, gotConflicts, err := table.TakeOver(f)
		must.Hold(t, err == nil && added == want && slices.Equal(gotConflicts, conflicts), "took over", added, "conflicts", gotConflicts, err, "want", want, conflicts)
	}
	takeOver(firstNode, folders[0], 2)
	takeOver(secondNode, folders[1], 1, "shared-name")
	must.Succeed(t, secondNode.Remove("a"))
	takeOver(firstNode, folders[0], 0)
	takeOver(secondNode, folders[0], 0)
	must.Hold(t, must.Err(authorize(firstNode, keys["a0"])) != nil, "a removed key is taken over again")
	caller := must.Do(authorize(firstNode, keys["b1"]))(t)
	must.Hold(t, caller.Owner == "b" && caller.Jobs == apikey.Read, "a key of the other folder", caller)
	must.Hold(t, must.Err(authorize(secondNode, keys["shared-name1"])) != nil, "a key with the name of another one is accepted")
	must.Equal(t, must.Err(secondNode.Add(apikey.Key{Name: "a"})), nil, "adding a key with the name of a removed key")
	must.Succeed(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
		return must.Err(tx.Exec("UPDATE api_keys SET content = REPLACE(content, '\"jobs\"', '\"tasks\"') WHERE name = 'b'"))
	}))
	must.Succeed(t, firstNode.Reload(t.Context()))
	must.Hold(t, must.Err(firstNode.List()) != nil, "an unreadable key is not reported")
	must.Equal(t, must.Err(authorize(secondNode, keys["b1"])), nil, "authorizing at a table that hasn't reloaded")
}

// If the table can't be read again after an addition, the caller still gets the key, which is stored.
// The reloads for unknown keys, which fail, have pauses.
func TestAddedKeyIsReturnedWithoutReload(t *testing.T) {
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
	defer db.Close()
	table := must.Do(apikey.OpenTable(t.Context(), db))(t)
	renameColumn := func(from, to string) {
		must.Succeed(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
			return must.Err(tx.Exec("ALTER TABLE api_keys RENAME COLUMN " + from + " TO " + to))
		}))
	}
	renameColumn("k", "hidden") // only reading needs it
	key := must.Do(table.Add(apikey.Key{Name: "a"}))(t)
	all, start := must.Do(apikey.New("").With(table, time.Now, slog.New(slog.DiscardHandler)))(t), time.Now()
	for range 3 {
		must.ErrorIs(t, must.Err(all.Authorize(requestWith("unknown"))), apikey.ErrUnknown)
	}
	must.Hold(t, time.Since(start) > 200*time.Millisecond, "three failed reloads took", time.Since(start))
	renameColumn("hidden", "k")
	must.Succeed(t, table.Reload(t.Context()))
	must.Hold(t, key != "" && len(must.Do(table.List())(t)) == 1, "the key", key, "isn't stored")
}

// A key is accepted as soon as it is added. Many unknown keys cause few reloads.
func TestAddedKeyIsAcceptedAtOnce(t *testing.T) {
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: pgtest.Start(t), NoNotify: true}))(t)
	defer db.Close()
	var tables [2]*apikey.Table
	for i := range tables {
		tables[i] = must.Do(apikey.OpenTable(t.Context(), db))(t)
	}
	all := must.Do(apikey.New("").With(tables[0], time.Now, slog.New(slog.NewTextHandler(t.Output(), nil))))(t)
	authorize := func(key string) error { return must.Err(all.Authorize(requestWith(key))) }
	var flood sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer flood.Wait()
	defer stop()
	for range 8 {
		flood.Go(func() {
			for ctx.Err() == nil {
				must.ErrorIs(t, authorize("unknown"), apikey.ErrUnknown, "an unknown key")
			}
		})
	}
	for i := range 10 {
		key := must.Do(tables[1].Add(apikey.Key{Name: fmt.Sprint("k", i)}))(t)
		must.Equal(t, authorize(key), nil, "key", i, "added at another node")
	}
}

// endsDuringReload ends after a request with an unknown key has begun to wait for a reload.
type endsDuringReload struct {
	context.Context
	waits atomic.Bool
}

func (e *endsDuringReload) Done() <-chan struct{} {
	if !e.waits.Swap(true) {
		return nil
	}
	return e.Context.Done()
}

// If the client whose request reloads the table disconnects, other requests that wait for the reload are authorized.
func TestReloadOutlivesItsRequest(t *testing.T) {
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: pgtest.Start(t), NoNotify: true}))(t)
	defer db.Close()
	table, other := must.Do(apikey.OpenTable(t.Context(), db))(t), must.Do(apikey.OpenTable(t.Context(), db))(t)
	keys := must.Do(apikey.New("").With(table, time.Now, slog.New(slog.DiscardHandler)))(t)
	key := must.Do(other.Add(apikey.Key{Name: "k"}))(t)
	ctx, disconnect := context.WithCancel(t.Context())
	disconnect()
	go keys.Authorize(requestWith("unknown").WithContext(&endsDuringReload{Context: ctx}))
	time.Sleep(20 * time.Millisecond) // until that request waits
	must.Succeed(t, must.Err(keys.Authorize(requestWith(key))))
}

// A request is authorized only with a key of the deployment, with or without the scheme.
func FuzzAuthorize(f *testing.F) {
	file := apikey.FileIn(f.TempDir())
	scopedKey := must.Do(file.Add(apikey.Key{Name: "scoped", Endpoints: []string{"ep"}}))(f)
	keys := must.Do(apikey.New("the-own-key").With(file, time.Now, slog.New(slog.DiscardHandler)))(f)
	fuzz.Run(f, func(t *testing.T, header string) {
		header = strings.ReplaceAll(header, "$SCOPED", scopedKey)
		key := strings.TrimSpace(header)
		if len(key) > 6 && strings.EqualFold(key[:6], "bearer") && key[6] == ' ' {
			key = strings.TrimSpace(key[7:])
		}
		caller, err := keys.Authorize(&http.Request{Header: http.Header{"Authorization": {header}}})
		switch {
		case key == "the-own-key" && (err != nil || !reflect.DeepEqual(caller, apikey.Identity{Owner: apikey.DefaultOwner, Management: apikey.All, Jobs: apikey.All})),
			key == scopedKey && (err != nil || !reflect.DeepEqual(caller, apikey.Identity{Owner: "scoped", Management: apikey.None, Jobs: apikey.All, Endpoints: []string{"ep"}})),
			key != scopedKey && key != "the-own-key" && err == nil:
			t.Errorf("%q is authorized as %+v, %v", header, caller, err)
		}
		must.Hold(t, err == nil || !strings.Contains(err.Error(), "the-own-key"), header, "the error has the key")
	},
		fuzz.Seed{"Bearer the-own-key"}, fuzz.Seed{"the-own-key"}, fuzz.Seed{"bearer  $SCOPED "}, fuzz.Seed{"Basic the-own-key"}, fuzz.Seed{"Bearer"}, fuzz.Seed{""}, fuzz.Seed{"Bearer Bearer the-own-key"},
	)
}

// Whatever the file has, only its entries' keys are authorized, and an unreadable file prevents the start.
func FuzzKeysFile(f *testing.F) {
	dir := f.TempDir()
	file := apikey.FileIn(dir)
	addedKey := must.Do(file.Add(apikey.Key{Name: "name", Endpoints: []string{"ep"}}))(f)
	validFile := must.ReadFile(f, filepath.Join(dir, apikey.FileName))
	hash := string(validFile[bytes.Index(validFile, []byte(`"sha256": "`))+11:][:64])
	fuzz.Run(f, func(t *testing.T, text string) {
		dir := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, apikey.FileName), []byte(strings.ReplaceAll(text, "$HASH", hash)), 0o600))
		list, err := apikey.FileIn(dir).List()
		if err != nil {
			must.Hold(t, must.Err(apikey.New("own").With(apikey.FileIn(dir), time.Now, slog.New(slog.DiscardHandler))) != nil, text, "a deployment starts with the file")
			return
		}
		keys := must.Do(apikey.New("own").With(apikey.FileIn(dir), time.Now, slog.New(slog.DiscardHandler)))(t)
		var want apikey.Identity
		for _, key := range list {
			if h, _ := key.Hash.MarshalText(); string(h) == hash {
				want = apikey.Identity{Owner: key.Owner, Management: key.Management, Jobs: key.Jobs, Endpoints: key.Endpoints}
				if key.Expired(time.Now()) {
					want = apikey.Identity{}
				}
			}
		}
		caller, err := keys.Authorize(requestWith(addedKey))
		must.Hold(t, err != nil || reflect.DeepEqual(caller, want), text, "the key is", caller, err, "expected", want)
		must.Hold(t, must.Err(keys.Authorize(requestWith("another"))) != nil, text, "a key that is not in the file is authorized")
	},
		fuzz.Seed{strings.ReplaceAll(string(validFile), hash, "$HASH")}, fuzz.Seed{`{"keys":[]}`},
		fuzz.Seed{`{"keys":[{"name":"a","owner":"o","sha256":"$HASH","management":"read","jobs":"none","created":"2026-01-01T00:00:00Z","expires":"2026-01-02T00:00:00Z"}]}`},
		fuzz.Seed{`{"keys":[{"name":"a","sha256":"$HASH","jobs":"some"}]}`},
		fuzz.Seed{`{"keys":[{"name":"a","sha256":"$HASH","created":"2026-01-01T00:00:00Z"},{"name":"b","sha256":"$HASH","endpoints":["x"],"created":"2026-01-01T00:00:00Z"}]}`},
	)
}

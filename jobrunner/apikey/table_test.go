package apikey_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// A table takes over the keys of two deployments' folders: each key once, a removed key never
// again, and only the first of two keys with the same name. If this version can't read a key's
// restriction, only that key is rejected.
func TestTableTakesOver(t *testing.T) {
	db, err := sqldb.Open(t.Context(), sqldb.Config{URL: pgtest.Start(t), NoHints: true})
	must.Succeed(t, err)
	defer db.Close()
	open := func() *apikey.Table {
		table := must.Do(apikey.OpenTable(t.Context(), db))(t)
		return table
	}
	one, two := open(), open()
	folders := []*apikey.File{apikey.At(t.TempDir()), apikey.At(t.TempDir())}
	keys := map[string]string{}
	for i, names := range [][]string{{"shared-name", "a"}, {"shared-name", "b"}} {
		for _, name := range names {
			key := must.Do(folders[i].Add(apikey.Key{Name: name, Jobs: apikey.Read}))(t)
			keys[name+string(rune('0'+i))] = key
		}
	}
	authorize := func(table *apikey.Table, key string) (apikey.Identity, error) {
		all := must.Do(apikey.New("").With(table, time.Now, slog.New(slog.NewTextHandler(t.Output(), nil))))(t)
		r := must.Do(http.NewRequestWithContext(context.Background(), http.MethodGet, "http://x", nil))(t)
		r.Header.Set("Authorization", key)
		return all.Authorize(r)
	}
	taken := func(table *apikey.Table, f *apikey.File, want int, conflicts ...string) {
		t.Helper()
		if n, got, err := table.TakeOver(f); err != nil || n != want || !slices.Equal(got, conflicts) {
			t.Errorf("took over %d, conflicts %v, %v; want %d, %v", n, got, err, want, conflicts)
		}
	}
	taken(one, folders[0], 2)
	taken(two, folders[1], 1, "shared-name")
	must.Succeed(t, two.Remove("a"))
	taken(one, folders[0], 0)
	taken(two, folders[0], 0)
	must.Hold(t, must.Err(authorize(one, keys["a0"])) != nil, "a removed key is taken over again")
	who := must.Do(authorize(one, keys["b1"]))(t)
	must.Hold(t, who.Owner == "b" && who.Jobs == apikey.Read, "a key of the other folder", who)
	must.Hold(t, must.Err(authorize(two, keys["shared-name1"])) != nil, "a key with the name of another one is accepted")
	if _, err := two.Add(apikey.Key{Name: "a"}); err != nil {
		t.Errorf("adding a key with the name of a removed key: %v", err)
	}
	err = db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec("UPDATE api_keys SET content = REPLACE(content, '\"jobs\"', '\"tasks\"') WHERE name = 'b'")
		return err
	})
	must.Succeed(t, err)
	must.Succeed(t, one.Reload(t.Context()))
	must.Hold(t, must.Err(one.List()) != nil, "an unreadable key is not reported")
	if _, err := authorize(two, keys["b1"]); err != nil {
		t.Errorf("a table that has not reloaded: %v", err)
	}
}

// A key is accepted as soon as it is added, even right after another unknown key caused a reload. Many
// unknown keys cause few reloads.
func TestAddedKeyIsAcceptedAtOnce(t *testing.T) {
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: pgtest.Start(t), NoHints: true}))(t)
	defer db.Close()
	var tables [2]*apikey.Table
	for i := range tables {
		tables[i] = must.Do(apikey.OpenTable(t.Context(), db))(t)
	}
	all := must.Do(apikey.New("").With(tables[0], time.Now, slog.New(slog.NewTextHandler(t.Output(), nil))))(t)
	authorize := func(key string) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x", nil)
		if err != nil {
			t.Error(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		_, err = all.Authorize(r)
		return err
	}
	var flood sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer flood.Wait()
	defer stop()
	for range 8 {
		flood.Go(func() {
			for ctx.Err() == nil {
				must.FailWith(t, authorize("unknown"), apikey.ErrUnknown, "an unknown key")
			}
		})
	}
	for i := range 10 {
		key := must.Do(tables[1].Add(apikey.Key{Name: fmt.Sprint("k", i)}))(t)
		err := authorize(key)
		must.Hold(t, err == nil, "key", i, "added at another node", err)
	}
}

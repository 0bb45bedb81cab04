package apikey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

var tableSchema = []string{`
CREATE TABLE api_keys (
	k       {key},
	sha256  TEXT   NOT NULL UNIQUE,
	name    TEXT   NOT NULL,
	content TEXT   NOT NULL, -- the key as JSON, as in the file of keys
	removed BIGINT NOT NULL  -- 1: revoked; the row keeps a file from adding the key again
);
CREATE UNIQUE INDEX api_keys_name ON api_keys (name) WHERE removed = 0;`}

const (
	selectKeys = `SELECT name, content FROM api_keys WHERE removed = 0 ORDER BY k`
	countHash  = `SELECT COUNT(*) FROM api_keys WHERE sha256 = ?`
	insertKey  = `INSERT INTO api_keys (sha256, name, content, removed) VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING`
	removeKey  = `UPDATE api_keys SET removed = 1, content = '' WHERE name = ? AND removed = 0`
)

// reloadAfter is the shortest interval between reloads of the table for unknown keys.
const reloadAfter = 100 * time.Millisecond

// Table stores the keys that `jobrunner keys add` created, in a database that several nodes
// share. Each node has a copy in memory, which Reload updates.
type Table struct {
	db *sqldb.DB

	mu            sync.Mutex
	keys          []Key
	err           error
	errUnreported bool // current hasn't returned err yet
	readAt        time.Time

	sharedMu       sync.Mutex // held by the request that reloads for all requests with unknown keys
	sharedReloadAt time.Time  // start of the last such reload
	sharedReloadOK bool       // whether it succeeded
}

// OpenTable opens the table of a database, and creates it if it doesn't exist.
func OpenTable(ctx context.Context, db *sqldb.DB) (*Table, error) {
	if err := db.Migrate(ctx, "keys", tableSchema); err != nil {
		return nil, err
	}
	t := &Table{db: db}
	return t, t.Reload(ctx)
}

// Reload reads the table. After a failure the last keys stay valid; one bad key doesn't affect others.
func (t *Table) Reload(ctx context.Context) error {
	start := time.Now()
	var keys []Key
	var invalid error
	err := t.db.Each(ctx, func(row sqldb.Row) error {
		var name, content string
		if err := row.Scan(&name, &content); err != nil {
			return err
		}
		k, err := decodeKey(content)
		if err != nil {
			invalid = errors.Join(invalid, fmt.Errorf("reading the API key %q in the database: %w; remove it, and add another one", name, err))
			return nil
		}
		keys = append(keys, k)
		return nil
	}, selectKeys)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if start.After(t.readAt) {
		t.errUnreported = t.errUnreported || fmt.Sprint(invalid) != fmt.Sprint(t.err)
		t.keys, t.err, t.readAt = keys, invalid, start
	}
	return nil
}

func decodeKey(content string) (k Key, err error) {
	if err := decodeStrict([]byte(content), &k); err != nil {
		return k, err
	}
	full := k.withDefaults()
	return k, errors.Join(full.Management.check(), full.Jobs.check())
}

// List returns all keys, the oldest first.
func (t *Table) List() ([]Key, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return allWithDefaults(t.keys), t.err
}

func (t *Table) current() (keys []Key, errChanged bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	errChanged, t.errUnreported = t.errUnreported, false
	return t.keys, errChanged, t.err
}

// reloadForUnknownKey reloads the copy because a request has an unknown key. It waits until reloadAfter has
// passed since the last reload. All waiting requests share one reload. It returns whether the reload succeeded.
func (t *Table) reloadForUnknownKey(ctx context.Context) bool {
	start := time.Now()
	t.sharedMu.Lock()
	defer t.sharedMu.Unlock()
	if t.sharedReloadAt.After(start) {
		return t.sharedReloadOK
	}
	t.mu.Lock()
	wait := reloadAfter - min(time.Since(t.readAt), time.Since(t.sharedReloadAt)) // a reload that fails counts, too
	t.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return false
	}
	reloadStart := time.Now()
	t.sharedReloadOK = t.Reload(context.WithoutCancel(ctx)) == nil // other requests need it, even if this client disconnects
	t.sharedReloadAt = reloadStart
	return t.sharedReloadOK
}

// Add creates a key and returns it; see File.Add.
func (t *Table) Add(k Key) (key string, err error) {
	if key, err = k.complete(); err != nil {
		return "", err
	}
	var n int64
	err = t.change(func(tx *sqldb.Tx) (err error) {
		n, err = insert(tx, k)
		return err
	})
	if err == nil && n == 0 {
		err = nameTaken(k.Name)
	}
	if err != nil {
		return "", err
	}
	return key, nil
}

func (t *Table) Remove(name string) error {
	var n int64
	err := t.change(func(tx *sqldb.Tx) (err error) {
		n, err = tx.Exec(removeKey, name)
		return err
	})
	if err == nil && n == 0 {
		err = notFound(name)
	}
	return err
}

// TakeOver adds a file's keys to the table, except keys that the table has or had. A marker file
// then disables the file. conflicts are the names that other keys in the table already use.
func (t *Table) TakeOver(f *File) (added int, conflicts []string, err error) {
	keys, err := f.List()
	if err != nil {
		return 0, nil, err
	}
	err = t.change(func(tx *sqldb.Tx) error {
		added, conflicts = 0, nil
		for _, k := range keys {
			n, err := insert(tx, k)
			sameHash := 0
			if err == nil {
				err = tx.QueryRow(countHash, k.Hash.text()).Scan(&sameHash)
			}
			if err != nil {
				return err
			}
			if added += int(n); sameHash == 0 {
				conflicts = append(conflicts, k.Name)
			}
		}
		return nil
	})
	if err == nil {
		err = f.setMoved()
	}
	slices.Sort(conflicts)
	return added, conflicts, err
}

// insert returns 0 if the table has or had the key, or has another one of its name.
func insert(tx *sqldb.Tx, k Key) (n int64, err error) {
	content, err := json.Marshal(k)
	if err != nil {
		return 0, err
	}
	return tx.Exec(insertKey, k.Hash.text(), k.Name, string(content))
}

// change changes the table. Across all nodes, one change runs at a time.
func (t *Table) change(edit func(tx *sqldb.Tx) error) error {
	ctx := context.Background()
	err := t.db.WriteWithReservedSpace(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Lock("keys"); err != nil {
			return err
		}
		return edit(tx)
	})
	if err != nil {
		return fmt.Errorf("writing the API keys: %w", err)
	}
	_ = t.Reload(ctx) // the change is stored even if this fails; each node reloads regularly
	return nil
}

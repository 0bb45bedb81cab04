// Package store stores the management objects of the jobrunner: templates, network volumes,
// global volumes, registry auths, delegations, secrets, SSH keys, serverless endpoints, pods
// and clusters. It knows neither HTTP nor the two versions of the management API, which share
// its records.
//
// Every rule of a record is checked in the transaction that writes it, so that concurrent
// calls can't break it. A write is durable when its method returns.
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// schema is the history of the store's tables. A record is a JSON document with the columns that statements
// search by. refs has the references from records (owner) to others (target).
var schema = []string{`
CREATE TABLE objects (
	seq  {key},
	id   TEXT NOT NULL UNIQUE,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	doc  TEXT NOT NULL
);
CREATE INDEX objects_kind ON objects (kind, seq);
CREATE UNIQUE INDEX objects_name ON objects (kind, name) WHERE kind IN ('template', 'registryAuth');
CREATE TABLE refs (
	target TEXT NOT NULL,
	owner  TEXT NOT NULL REFERENCES objects (id) ON DELETE CASCADE,
	PRIMARY KEY (target, owner)
);
CREATE INDEX refs_owner ON refs (owner);
`, `
CREATE TABLE releases (
	endpoint TEXT   NOT NULL REFERENCES objects (id) ON DELETE CASCADE,
	version  BIGINT NOT NULL,
	doc      TEXT   NOT NULL,
	PRIMARY KEY (endpoint, version)
);`, `
CREATE UNIQUE INDEX objects_secret ON objects (lower(name)) WHERE kind = 'secret';
CREATE TABLE secret_values (
	id     TEXT   NOT NULL PRIMARY KEY REFERENCES objects (id) ON DELETE CASCADE,
	key_id TEXT   NOT NULL,
	value  {blob} NOT NULL
);`}

// Store has the management objects of a deployment. It is safe for concurrent use.
type Store struct {
	db      *sqldb.DB
	clock   *clock.Clock
	catalog *catalog.Source
	key     secretKey

	volumeHook VolumeHook

	mu        sync.Mutex
	listeners map[kind][]func(id string)
}

// Open migrates the tables in db, which the caller must close.
func Open(ctx context.Context, db *sqldb.DB, c *clock.Clock) (*Store, error) {
	if err := db.Migrate(ctx, "store", schema); err != nil {
		return nil, err
	}
	return &Store{db: db, clock: c, listeners: map[kind][]func(string){}}, nil
}

// UseCatalog sets the catalog for checks of endpoints and pods, before the first write.
func (s *Store) UseCatalog(c *catalog.Source) { s.catalog = c }

func (tx *Tx) Catalog() *catalog.Catalog { return tx.store.catalog.Current() }

// OnChange calls f after the commit of a record's creation or deletion, of an update that affects what
// runs, and of a change of an endpoint's linked template. Calls may be concurrent, out of order, or after
// a failed commit, so f must read the record.
func OnChange[T any, P Record[T]](s *Store, f func(id string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := P(nil).kind()
	s.listeners[k] = append(s.listeners[k], f)
}

type Tx struct {
	tx      *sqldb.Tx
	store   *Store
	now     time.Time // UTC, whole milliseconds
	changes []change
}

// change is a change of an object. Listeners are notified of it after the commit.
type change struct {
	kind kind
	id   string
}

func (tx *Tx) recordChange(k kind, id string) { tx.changes = append(tx.changes, change{k, id}) }

// write runs fn in a transaction, perhaps more than once, and then calls the listeners.
func (s *Store) write(ctx context.Context, fn func(tx *Tx) error) error {
	return s.transact(ctx, s.db.Write, fn)
}

// writeWithReservedSpace is write for changes that must also succeed on a full disk, such as deletions.
func (s *Store) writeWithReservedSpace(ctx context.Context, fn func(tx *Tx) error) error {
	return s.transact(ctx, s.db.WriteWithReservedSpace, fn)
}

func (s *Store) transact(ctx context.Context, write func(context.Context, func(*sqldb.Tx) error) error, fn func(tx *Tx) error) error {
	var changes []change
	err := write(ctx, func(t *sqldb.Tx) error {
		if err := t.Lock("store"); err != nil {
			return err
		}
		tx := &Tx{tx: t, store: s, now: s.clock.Wall().UTC().Truncate(time.Millisecond)}
		err := fn(tx)
		changes = tx.changes
		return err
	})
	if err != nil && !errors.Is(err, sqldb.ErrUnavailable) { // after it, the changes may have been committed
		return err
	}
	for _, c := range changes {
		s.mu.Lock()
		listeners := s.listeners[c.kind]
		s.mu.Unlock()
		for _, listener := range listeners {
			listener(c.id)
		}
	}
	return err
}

// ErrNotFound means that an object doesn't exist. The error that wraps it names the kind and the id.
var ErrNotFound = errors.New("not found")

// Refusal rejects a request that breaks a rule. Its text is for the caller of the API, and has no secrets.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Conflict rejects a request because of another object. The API's status for it is 409, not 400.
type Conflict string

func (c Conflict) Error() string { return string(c) }

func refusef(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

const idAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz"

const IDLength = 12

// IsID reports whether a text has the form of an object's id.
func IsID(text string) bool {
	return len(text) == IDLength && strings.Trim(text, idAlphabet) == ""
}

// Reserved are the management API's segments after /v2. Any other segment is an endpoint's id.
var Reserved = []string{
	"account", "billing", "catalog", "clusters", "global-volumes", "network-volumes", "openapi.json",
	"organization", "pods", "registries", "serverless", "templates",
}

// newID returns a random id (60 bits) that isn't Reserved.
func newID() string {
	for {
		if id := strings.ToLower(rand.Text()[:IDLength]); !slices.Contains(Reserved, id) {
			return id
		}
	}
}

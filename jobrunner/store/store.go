// Package store keeps the management objects of the jobrunner: templates,
// network volumes, registry auths, delegations and serverless endpoints. It knows
// neither HTTP nor the two versions of the management API, which show the same
// records.
//
// Every rule that a record must obey is checked in the transaction that writes
// it, so that concurrent calls can't break one together. A write is on disk
// when its method returns.
package store

import (
	"context"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// schema is the history of the store's tables. A record is one JSON document;
// the columns beside it are what statements search by. refs says which record
// (owner) names which other one (target).
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
);`}

// Store is the management objects of one deployment. Its methods may be called
// from many goroutines.
type Store struct {
	db    *sqldb.DB
	clock *clock.Clock

	mu    sync.Mutex
	hooks []func(endpointID string)
}

// Open prepares the tables in db, which stays the caller's to close. Times of
// creation are the clock's.
func Open(ctx context.Context, db *sqldb.DB, c *clock.Clock) (*Store, error) {
	if err := db.Migrate(ctx, "store", schema); err != nil {
		return nil, err
	}
	return &Store{db: db, clock: c}, nil
}

// OnEndpointChange has f called after the commit of any change to an endpoint:
// its creation, its update, its deletion, and a change of the template that it
// is linked to. Calls of different changes may overlap and overtake each other:
// f reads the endpoint again to know its state.
func (s *Store) OnEndpointChange(f func(id string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(s.hooks, f)
}

// Tx is the store inside of one transaction.
type Tx struct {
	tx               *sqldb.Tx
	now              time.Time
	changedEndpoints []string // endpoints
}

// write runs fn in a transaction, perhaps more than once, and tells of the
// endpoints that it touched.
func (s *Store) write(ctx context.Context, fn func(tx *Tx) error) error {
	return s.transact(ctx, s.db.Write, fn)
}

// delete is write for deletions, which must succeed on a full disk too.
func (s *Store) delete(ctx context.Context, fn func(tx *Tx) error) error {
	return s.transact(ctx, s.db.WriteWithReserve, fn)
}

func (s *Store) transact(ctx context.Context, write func(context.Context, func(*sqldb.Tx) error) error, fn func(tx *Tx) error) error {
	var changed []string
	err := write(ctx, func(t *sqldb.Tx) error {
		if err := t.Alone("store"); err != nil {
			return err
		}
		tx := &Tx{tx: t, now: s.clock.Wall()}
		err := fn(tx)
		changed = tx.changedEndpoints
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	hooks := s.hooks
	s.mu.Unlock()
	for _, id := range changed {
		for _, hook := range hooks {
			hook(id)
		}
	}
	return nil
}

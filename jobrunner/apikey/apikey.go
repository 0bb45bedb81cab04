// Package apikey authenticates the callers of all APIs of the jobrunner.
//
// The deployment's own key has full access. Added keys have an owner, a scope for each API and,
// optionally, a list of endpoints and an expiry. They are stored in a file (see File), or in a
// database that several nodes share (see Table). Only a key's SHA-256 is stored. A slow hash
// would delay every request and protect no better, because a generated key has at least 128 random
// bits.
package apikey

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// DefaultOwner is the owner of the deployment's own key.
const DefaultOwner = "default"

// ErrUnknown means that a request has no key or an unknown key: 401 (service description, Authentication, rule 2).
var ErrUnknown = errors.New("the API key is missing or unknown: send it as Authorization: Bearer <key>")

// Identity is an authenticated caller. Its JSON is for the deployment's page (package page).
type Identity struct {
	Owner      string   `json:"owner"`
	Management Scope    `json:"management"`
	Jobs       Scope    `json:"jobs"`
	Endpoints  []string `json:"endpoints,omitempty"` // restricts the job API to these; empty means all
}

// OwnIdentity is the identity of the deployment's own key.
var OwnIdentity = Identity{Owner: DefaultOwner, Management: All, Jobs: All}

// MayRead reports whether the key may read from the management API and see the deployment's state.
func (i Identity) MayRead() bool { return i.Management.allows(Read) }

// MayManage reports whether the key may call every operation of the management API.
func (i Identity) MayManage() bool { return i.Management.allows(All) }

// MayUse reports whether the key has a scope at an endpoint's job API.
func (i Identity) MayUse(endpoint string, scope Scope) bool {
	return i.Jobs.allows(scope) && (len(i.Endpoints) == 0 || slices.Contains(i.Endpoints, endpoint))
}

// Refusal explains why a key may not call an operation of an endpoint's job API, and what to do.
func (i Identity) Refusal(endpoint string) string {
	switch {
	case i.MayUse(endpoint, Read):
		return "this API key may only read from the job API: use a key with --jobs all"
	case !i.Jobs.allows(Read):
		return "this API key is not for the job API: use a key with --jobs read or all"
	}
	return "this API key is not for endpoint " + endpoint + ": use a key for this endpoint"
}

type Keys struct {
	ownKey    digest
	addedKeys Store // nil if the deployment has no store of added keys
	log       *slog.Logger
	now       func() time.Time
}

type Store interface {
	Add(k Key) (key string, err error)
	Remove(name string) error
	List() ([]Key, error)

	// current returns the keys, which the caller must not modify, and whether the error differs from the
	// last call's.
	current() (keys []Key, errChanged bool, err error)
	// reloadForUnknownKey makes current return keys that were just added. It returns false if it read nothing.
	reloadForUnknownKey(ctx context.Context) bool
}

// New returns Keys with one key of full access. An empty key authenticates nobody.
func New(ownKey string) *Keys { return &Keys{ownKey: sum(ownKey)} }

// With returns Keys that also have the keys of a store. It fails if the store is a file that exists and can't be
// read. A file is read again when it changes. If it is unreadable then, the error is logged and all its keys are
// rejected. In a table, an unreadable key doesn't affect the other keys. now is the clock for the keys' expiry.
func (k *Keys) With(addedKeys Store, now func() time.Time, log *slog.Logger) (*Keys, error) {
	if f, ok := addedKeys.(*File); ok {
		if _, err := f.List(); err != nil {
			return nil, err
		}
	}
	return &Keys{ownKey: k.ownKey, addedKeys: addedKeys, log: log, now: now}, nil
}

// FromRequest returns the key of a request. It accepts "Authorization: Bearer <key>", ignoring the case of the scheme,
// and the bare key, which workers and some clients send (service description, Authentication; field
// notes: bare key).
func FromRequest(r *http.Request) string {
	key := strings.TrimSpace(r.Header.Get("Authorization"))
	if scheme, rest, ok := strings.Cut(key, " "); ok && strings.EqualFold(scheme, "Bearer") {
		key = strings.TrimSpace(rest)
	}
	return key
}

// Authorize authenticates a request, or returns ErrUnknown. Keys are compared in constant time.
func (k *Keys) Authorize(r *http.Request) (Identity, error) {
	key := FromRequest(r)
	hash := sum(key)
	switch {
	case key == "":
		return Identity{}, ErrUnknown
	case hash.equal(k.ownKey):
		return OwnIdentity, nil
	case k.addedKeys == nil:
		return Identity{}, ErrUnknown
	}
	caller, err := k.find(r.Context(), hash)
	if errors.Is(err, ErrUnknown) && k.addedKeys.reloadForUnknownKey(r.Context()) {
		caller, err = k.find(r.Context(), hash)
	}
	return caller, err
}

func (k *Keys) find(ctx context.Context, hash digest) (caller Identity, err error) {
	keys, _ := k.current(ctx)
	caller, err = Identity{}, ErrUnknown
	for _, key := range keys {
		switch {
		case !hash.equal(key.Hash):
		case key.Expired(k.now()):
			caller, err = Identity{}, &ExpiredError{key.Expires}
		default:
			caller, err = key.Identity(), nil
		}
	}
	return caller, err
}

// current returns the added keys. It logs an error that differs from the last one.
func (k *Keys) current(ctx context.Context) ([]Key, error) {
	keys, errChanged, err := k.addedKeys.current()
	if err != nil && errChanged {
		k.log.ErrorContext(ctx, "reading the added API keys failed: unreadable keys are rejected until they are repaired", "error", err)
	}
	return keys, err
}

// List returns the added keys, the oldest first.
func (k *Keys) List() ([]Key, error) {
	if k.addedKeys == nil {
		return nil, nil
	}
	keys, err := k.current(context.Background())
	return allWithDefaults(keys), err
}

// digest is the SHA-256 of a key.
type digest [sha256.Size]byte

func sum(key string) digest { return sha256.Sum256([]byte(key)) }

func (d digest) equal(other digest) bool { return subtle.ConstantTimeCompare(d[:], other[:]) == 1 }

// Scope is what a key may do at an API.
type Scope string

// The scopes. Each includes the ones before it.
const (
	None Scope = "none"
	Read Scope = "read" // operations that change nothing
	All  Scope = "all"
)

func (s Scope) allows(minimum Scope) bool {
	switch s {
	case All:
		return true
	case Read:
		return minimum != All
	}
	return minimum == None
}

func (s Scope) check() error {
	switch s {
	case None, Read, All:
		return nil
	}
	return fmt.Errorf("invalid scope %q: expected one of none, read, all", string(s))
}

// ExpiredError means that a key has expired. The answer is 401.
type ExpiredError struct{ At time.Time }

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the API key expired at %s: ask for a new one", e.At.UTC().Format(time.RFC3339))
}

func (e *ExpiredError) Is(target error) bool { return target == ErrUnknown }

// Open returns the keys of a deployment: its own key, and the added keys in the folder dir, if dir
// isn't empty. A shared database has a table of added keys for all nodes, which takes over the
// folder's keys. If the database isn't shared, table is nil.
func Open(ctx context.Context, ownKey, dir string, db *sqldb.DB, c *clock.Clock, log *slog.Logger) (keys *Keys, table *Table, err error) {
	keys = New(ownKey)
	if !db.Shared() {
		if dir == "" {
			return keys, nil, nil
		}
		file := FileIn(dir)
		if err := file.CheckNotMoved(); err != nil {
			return nil, nil, err
		}
		keys, err = keys.With(file, c.Wall, log)
		return keys, nil, err
	}
	if table, err = OpenTable(ctx, db); err != nil {
		return nil, nil, err
	}
	if dir != "" {
		added, conflicts, err := table.TakeOver(FileIn(dir))
		if err != nil {
			return nil, nil, err
		}
		if added > 0 {
			log.InfoContext(ctx, "the database took over API keys of the folder", "folder", dir, "keys", added)
		}
		for _, name := range conflicts {
			log.WarnContext(ctx, "an API key of the folder is rejected: the database has another key of this name; add one under another name", "folder", dir, "key", name)
		}
	}
	keys, err = keys.With(table, c.Wall, log)
	return keys, table, err
}

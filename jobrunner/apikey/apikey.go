// Package apikey authenticates the callers of every API of the jobrunner.
//
// The deployment's own key has full access. Further keys, each with an owner, a
// scope for each API, optionally restricted to certain endpoints and until a
// time, are stored in a file (see File), or in a database that several deployments
// share (see Table). A
// generated key has at least 128 random bits, so its SHA-256 is all that has to
// be stored: a slow hash would protect no better and cost every request.
package apikey

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Default is the owner of the deployment's own key.
const Default = "default"

// ErrUnknown says that a request carries no key, or an unknown one: 401 (service
// description, Authentication, rule 2).
var ErrUnknown = errors.New("the API key is missing or unknown: send it as Authorization: Bearer <key>")

// Identity is an authenticated caller.
type Identity struct {
	Owner      string
	Management Scope
	Jobs       Scope
	// Endpoints are those that the job API is restricted to; empty: all.
	Endpoints []string
}

// Own is who calls with the deployment's own key.
var Own = Identity{Owner: Default, Management: All, Jobs: All}

// MayRead reports whether the key may call what reads, of the management API and of
// all that shows the deployment.
func (i Identity) MayRead() bool { return i.Management.allows(Read) }

// MayManage reports whether the key may call every operation of the management API.
func (i Identity) MayManage() bool { return i.Management.allows(All) }

// MayUse reports whether the key may call operations of an endpoint's job API that
// need a scope.
func (i Identity) MayUse(endpoint string, needed Scope) bool {
	return i.Jobs.allows(needed) && (len(i.Endpoints) == 0 || slices.Contains(i.Endpoints, endpoint))
}

// Refusal says why a key may not call an operation of an endpoint's job API that
// needs a scope, and what to do.
func (i Identity) Refusal(endpoint string, needed Scope) string {
	if i.MayUse(endpoint, Read) && needed == All {
		return "this API key may only read at the job API: use a key with --jobs all"
	}
	return "this API key is not for endpoint " + endpoint + ": ask for one that is"
}

// Keys are the keys of a deployment.
type Keys struct {
	own   digest
	open  bool  // there is an own key
	added Store // nil: no further keys
	log   *slog.Logger
	now   func() time.Time
}

// Store stores the added keys.
type Store interface {
	Add(k Key) (key string, err error)
	Remove(name string) error
	List() ([]Key, error)

	// current are the keys, which the caller must not modify. changed reports that the
	// error differs from that of the last call.
	current() (keys []Key, changed bool, err error)
	// lookAgain has current answer keys that were added a moment ago; false: it does anyway.
	lookAgain(ctx context.Context) bool
}

// New makes Keys with one key of full access; an empty one authenticates nobody.
func New(own string) *Keys {
	return &Keys{own: sum(own), open: own != ""}
}

// With adds the keys of a file, which is read again when it changes, or of a table. It
// fails if the file exists and can't be read. While a later version can't be read, all
// its keys are unknown, as is a key of a table that can't be read, and log says so. They
// expire by now.
func (k *Keys) With(added Store, now func() time.Time, log *slog.Logger) (*Keys, error) {
	if f, ok := added.(*File); ok {
		if _, err := f.List(); err != nil {
			return nil, err
		}
	}
	return &Keys{own: k.own, open: k.open, added: added, log: log, now: now}, nil
}

// Authorize authenticates a request, or returns ErrUnknown. It accepts
// "Authorization: Bearer <key>", the scheme in any case, and the bare key, which
// workers and some clients send (service description, Authentication; field
// notes: bare key). Keys are compared in constant time.
func (k *Keys) Authorize(r *http.Request) (Identity, error) {
	sent := strings.TrimSpace(r.Header.Get("Authorization"))
	if scheme, rest, ok := strings.Cut(sent, " "); ok && strings.EqualFold(scheme, "Bearer") {
		sent = strings.TrimSpace(rest)
	}
	hash := sum(sent)
	if k.open && hash.equal(k.own) {
		return Own, nil
	}
	if k.added == nil || sent == "" {
		return Identity{}, ErrUnknown
	}
	who, err := k.find(r.Context(), hash)
	if errors.Is(err, ErrUnknown) && k.added.lookAgain(r.Context()) {
		who, err = k.find(r.Context(), hash)
	}
	return who, err
}

// find looks a key up among those that were added.
func (k *Keys) find(ctx context.Context, hash digest) (who Identity, err error) {
	keys, changed, err := k.added.current()
	if err != nil && changed {
		k.log.ErrorContext(ctx, "reading the added API keys failed: those that can't be read are refused until they are repaired", "error", err)
	}
	who, err = Identity{}, ErrUnknown
	for _, key := range keys {
		switch {
		case !hash.equal(key.Hash):
		case key.Expired(k.now()):
			who, err = Identity{}, &ExpiredError{key.Expires}
		default:
			who, err = key.identity(), nil
		}
	}
	return who, err
}

// List returns the further keys, in the order in which they were added.
func (k *Keys) List() ([]Key, error) {
	if k.added == nil {
		return nil, nil
	}
	return k.added.List()
}

// digest is the SHA-256 of a key.
type digest [sha256.Size]byte

func sum(key string) digest { return sha256.Sum256([]byte(key)) }

func (d digest) equal(other digest) bool { return subtle.ConstantTimeCompare(d[:], other[:]) == 1 }

// Package apikey tells who asks, for every API of the jobrunner.
//
// One key opens everything: the deployment's own. More of them, each with an
// owner and perhaps with the only endpoints that it is for, are kept in a file
// (see File). A key is at least 128 random bits that nobody chose, so there is
// nothing to guess, and its SHA-256 is all that has to be kept: a slow hash
// would protect no better and be paid for by every request.
package apikey

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// Default is the owner of the deployment's own key.
const Default = "default"

// ErrUnknown says that a request carries no key, or one that opens nothing: 401
// (service description, Authentication, rule 2).
var ErrUnknown = errors.New("the API key is missing or unknown: send it as Authorization: Bearer <key>")

// Identity is who asks.
type Identity struct {
	Owner string
	// Endpoints are the only ones that the key is for; none: it is for all.
	Endpoints []string
}

// Restricted tells whether the key is for certain endpoints' job API only.
func (i Identity) Restricted() bool { return len(i.Endpoints) > 0 }

// MayUse tells whether the key is for an endpoint's job API.
func (i Identity) MayUse(endpoint string) bool {
	return !i.Restricted() || slices.Contains(i.Endpoints, endpoint)
}

// Keys are the keys of a deployment.
type Keys struct {
	own  digest
	open bool  // there is a key of the deployment's own
	file *File // nil: no others
	log  *slog.Logger
}

// New has one key, which opens everything. An empty one opens nothing.
func New(own string) *Keys {
	return &Keys{own: sum(own), open: own != ""}
}

// With adds the keys of a file, and whatever the file holds later. It fails
// where the file is there and can't be read; a file that breaks later opens
// nothing, and log tells of it.
func (k *Keys) With(f *File, log *slog.Logger) (*Keys, error) {
	if _, err := f.List(); err != nil {
		return nil, err
	}
	return &Keys{own: k.own, open: k.open, file: f, log: log}, nil
}

// Authorize tells who asks, or ErrUnknown. It accepts "Authorization: Bearer
// <key>", the scheme in any case, and the bare key, which workers and some
// clients send (service description, Authentication; field notes: bare key).
// How long the comparison takes says nothing about a key.
func (k *Keys) Authorize(r *http.Request) (Identity, error) {
	sent := strings.TrimSpace(r.Header.Get("Authorization"))
	if scheme, rest, ok := strings.Cut(sent, " "); ok && strings.EqualFold(scheme, "Bearer") {
		sent = strings.TrimSpace(rest)
	}
	got := sum(sent)
	if k.open && got.equal(k.own) {
		return Identity{Owner: Default}, nil
	}
	if k.file == nil || sent == "" {
		return Identity{}, ErrUnknown
	}
	keys, changed, err := k.file.current()
	if err != nil && changed {
		k.log.ErrorContext(r.Context(), "the keys that were added open nothing until their file is mended", "error", err)
	}
	who, err := Identity{}, ErrUnknown
	for _, key := range keys {
		if got.equal(key.Hash) {
			who, err = Identity{Owner: key.Name, Endpoints: key.Endpoints}, nil
		}
	}
	return who, err
}

// digest is what is kept of a key.
type digest [sha256.Size]byte

func sum(key string) digest { return sha256.Sum256([]byte(key)) }

func (d digest) equal(other digest) bool { return subtle.ConstantTimeCompare(d[:], other[:]) == 1 }

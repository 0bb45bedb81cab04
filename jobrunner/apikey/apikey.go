// Package apikey authenticates the callers of every API of the jobrunner.
//
// The deployment's own key has full access. Further keys, each with an owner and
// optionally restricted to certain endpoints, are stored in a file (see File). A
// generated key has at least 128 random bits, so its SHA-256 is all that has to
// be stored: a slow hash would protect no better and cost every request.
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

// ErrUnknown says that a request carries no key, or an unknown one: 401 (service
// description, Authentication, rule 2).
var ErrUnknown = errors.New("the API key is missing or unknown: send it as Authorization: Bearer <key>")

// Identity is an authenticated caller.
type Identity struct {
	Owner string
	// Endpoints are those that the key is restricted to; empty: all.
	Endpoints []string
}

// Restricted reports whether the key is for the job API of certain endpoints only.
func (i Identity) Restricted() bool { return len(i.Endpoints) > 0 }

// MayUse reports whether the key may call an endpoint's job API.
func (i Identity) MayUse(endpoint string) bool {
	return !i.Restricted() || slices.Contains(i.Endpoints, endpoint)
}

// Keys are the keys of a deployment.
type Keys struct {
	own  digest
	open bool  // there is an own key
	file *File // nil: no further keys
	log  *slog.Logger
}

// New makes Keys with one key of full access; an empty one authenticates nobody.
func New(own string) *Keys {
	return &Keys{own: sum(own), open: own != ""}
}

// With adds the keys of a file, which is read again when it changes. It fails if
// the file exists and can't be read. While a later version can't be read, all its
// keys are unknown, and log says so.
func (k *Keys) With(f *File, log *slog.Logger) (*Keys, error) {
	if _, err := f.List(); err != nil {
		return nil, err
	}
	return &Keys{own: k.own, open: k.open, file: f, log: log}, nil
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
		return Identity{Owner: Default}, nil
	}
	if k.file == nil || sent == "" {
		return Identity{}, ErrUnknown
	}
	keys, changed, err := k.file.current()
	if err != nil && changed {
		k.log.ErrorContext(r.Context(), "reading the added API keys failed: they are refused until their file is repaired", "error", err)
	}
	who, err := Identity{}, ErrUnknown
	for _, key := range keys {
		if hash.equal(key.Hash) {
			who, err = Identity{Owner: key.Name, Endpoints: key.Endpoints}, nil
		}
	}
	return who, err
}

// digest is the SHA-256 of a key.
type digest [sha256.Size]byte

func sum(key string) digest { return sha256.Sum256([]byte(key)) }

func (d digest) equal(other digest) bool { return subtle.ConstantTimeCompare(d[:], other[:]) == 1 }

package apikey

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// FileName is the name of the keys' file in the data folder.
const FileName = "keys.json"

// Key is an added key, without its secret.
type Key struct {
	Name       string    `json:"name"`
	Owner      string    `json:"owner,omitempty"` // if empty, the key's name
	Hash       digest    `json:"sha256"`
	Management Scope     `json:"management,omitempty"` // if empty, all, or none with endpoints
	Jobs       Scope     `json:"jobs,omitempty"`       // scope of the job API; if empty, all
	Endpoints  []string  `json:"endpoints,omitempty"`  // allowed endpoints of the job API; if empty, all
	Created    time.Time `json:"created"`
	Expires    time.Time `json:"expires,omitzero"` // zero if never
}

// Expired reports whether the key has expired.
func (k Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// identity returns the identity of the key's callers.
func (k Key) identity() Identity {
	k = k.withDefaults()
	return Identity{Owner: k.Owner, Management: k.Management, Jobs: k.Jobs, Endpoints: k.Endpoints}
}

// withDefaults sets empty fields. By default, a key for certain endpoints has no access to the
// management API, because this API shows all objects.
func (k Key) withDefaults() Key {
	k.Owner, k.Jobs = cmp.Or(k.Owner, k.Name), cmp.Or(k.Jobs, All)
	if k.Management == "" && len(k.Endpoints) > 0 {
		k.Management = None
	}
	k.Management = cmp.Or(k.Management, All)
	return k
}

func allWithDefaults(keys []Key) []Key {
	all := make([]Key, len(keys))
	for i, k := range keys {
		all[i] = k.withDefaults()
	}
	return all
}

// File stores the added keys of a deployment with an embedded database. The deployment locks that
// database, so commands in other processes change the keys in this file instead. The deployment
// reads the file again when it changes.
type File struct {
	path string

	mu   sync.Mutex
	info os.FileInfo // of the version last read; nil if there is no file
	keys []Key
	err  error
}

// At returns the keys' file of a data folder. The folder and the file need not exist yet.
func At(dir string) *File { return &File{path: filepath.Join(dir, FileName)} }

// List returns all keys, the oldest first.
func (f *File) List() ([]Key, error) {
	keys, _, err := f.current()
	return allWithDefaults(keys), err
}

// current reads the file if it changed. changed reports whether the error differs from the last
// call's. The caller must not modify the keys.
func (f *File) current() (keys []Key, changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.err
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.info, f.keys, f.err = nil, nil, nil
	case err != nil:
		f.info, f.keys, f.err = nil, nil, fmt.Errorf("reading the API keys: %w", err)
	case !unchanged(f.info, info):
		f.info, f.keys, f.err = f.read()
	}
	return f.keys, fmt.Sprint(f.err) != fmt.Sprint(before), f.err
}

// unchanged reports whether the file is the one last read. Every change writes a new file.
func unchanged(last, info os.FileInfo) bool {
	return last != nil && os.SameFile(last, info) && last.ModTime().Equal(info.ModTime()) && last.Size() == info.Size()
}

// reloadShared is a no-op, because current always checks the file.
func (f *File) reloadShared(context.Context) bool { return false }

func (f *File) read() (info os.FileInfo, keys []Key, err error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading only
	if info, err = file.Stat(); err != nil {
		return nil, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	var stored fileContent
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a misspelt restriction must not be ignored
	if err := decoder.Decode(&stored); err != nil {
		return info, nil, fmt.Errorf("reading the API keys in %s: %w; repair the file, or remove it and add the keys again", f.path, err)
	}
	for _, k := range allWithDefaults(stored.Keys) {
		if err := errors.Join(k.Management.check(), k.Jobs.check()); err != nil {
			return info, nil, fmt.Errorf("reading the API keys in %s: key %q: %w", f.path, k.Name, err)
		}
	}
	return info, stored.Keys, nil
}

// fileContent is the file's JSON.
type fileContent struct {
	Keys []Key `json:"keys"`
}

func (d digest) text() string { return hex.EncodeToString(d[:]) }

func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

func (d *digest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(d) {
		return fmt.Errorf("invalid SHA-256: expected 64 hexadecimal digits, got %d characters", len(text))
	}
	copy(d[:], b)
	return nil
}

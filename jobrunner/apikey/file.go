package apikey

import (
	"bytes"
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

// FileName is the keys' file in the data folder.
const FileName = "keys.json"

// Key is a key that was added. The key itself is known to its user alone.
type Key struct {
	Name      string    `json:"name"` // its owner
	Hash      digest    `json:"sha256"`
	Endpoints []string  `json:"endpoints,omitempty"` // the only ones that it is for; none: all
	Created   time.Time `json:"created"`
}

// File keeps the keys that were added. It is a file and not a table, because
// the database belongs to the process that runs, and keys come and go while it
// does: it reads the file again whenever that has changed.
type File struct {
	path string

	mu   sync.Mutex
	seen os.FileInfo // of what was read last; nil: there was no file
	keys []Key
	err  error
}

// At is the keys' file of a data folder, which need not be there yet.
func At(dir string) *File { return &File{path: filepath.Join(dir, FileName)} }

// List is every key, in the order in which they were added.
func (f *File) List() ([]Key, error) {
	keys, _, err := f.current()
	return keys, err
}

// current is what the file says now; changed tells that reading it fails in
// another way than the last time. The keys are not the caller's to change.
func (f *File) current() (keys []Key, changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.err
	now, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.seen, f.keys, f.err = nil, nil, nil
	case err != nil:
		f.seen, f.keys, f.err = nil, nil, fmt.Errorf("reading the API keys: %w", err)
	case !same(f.seen, now):
		f.seen, f.keys, f.err = f.read()
	}
	return f.keys, fmt.Sprint(f.err) != fmt.Sprint(before), f.err
}

// same tells that a file was not replaced: every change writes a new one.
func same(a, b os.FileInfo) bool {
	return a != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (f *File) read() (info os.FileInfo, keys []Key, err error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	if info, err = file.Stat(); err != nil {
		return nil, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	var content content
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a restriction that is misspelt must not count as none
	if err := decoder.Decode(&content); err != nil {
		return info, nil, fmt.Errorf("the API keys in %s can't be read: %w; mend the file, or remove it and add the keys anew", f.path, err)
	}
	return info, content.Keys, nil
}

// content is the file's JSON.
type content struct {
	Keys []Key `json:"keys"`
}

func (d digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

func (d *digest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(d) {
		return fmt.Errorf("%d characters are not a SHA-256 in hexadecimal digits", len(text))
	}
	copy(d[:], b)
	return nil
}

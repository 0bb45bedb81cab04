package apikey

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/durable"
)

const FileName = "keys.json"

// Key is an added key, without its secret.
type Key struct {
	Name       string    `json:"name"`
	Owner      string    `json:"owner,omitempty"` // if empty, the key's name
	Hash       digest    `json:"sha256"`
	Management Scope     `json:"management,omitempty"` // if empty: None for a key with Endpoints, All for other keys
	Jobs       Scope     `json:"jobs,omitempty"`       // scope of the job API; if empty, all
	Endpoints  []string  `json:"endpoints,omitempty"`  // allowed endpoints of the job API; if empty, all
	Created    time.Time `json:"created"`
	Expires    time.Time `json:"expires,omitzero"` // zero if never
}

func (k Key) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

func (k Key) Identity() Identity {
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

// FileIn returns the keys' file of a data folder. The folder and the file need not exist yet.
func FileIn(dir string) *File { return &File{path: filepath.Join(dir, FileName)} }

// List returns all keys, the oldest first.
func (f *File) List() ([]Key, error) {
	keys, _, err := f.current()
	return allWithDefaults(keys), err
}

func (f *File) current() (keys []Key, errChanged bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	previousErr := f.err
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.info, f.keys, f.err = nil, nil, nil
	case err != nil:
		f.info, f.keys, f.err = nil, nil, fmt.Errorf("reading the API keys: %w", err)
	case f.info == nil || !os.SameFile(f.info, info) || !f.info.ModTime().Equal(info.ModTime()) || f.info.Size() != info.Size():
		f.info, f.keys, f.err = f.read()
	}
	return f.keys, fmt.Sprint(f.err) != fmt.Sprint(previousErr), f.err
}

// reloadForUnknownKey is a no-op, because current always checks the file.
func (f *File) reloadForUnknownKey(context.Context) bool { return false }

func (f *File) read() (info os.FileInfo, keys []Key, err error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading only
	var text []byte
	if info, err = file.Stat(); err == nil {
		text, err = io.ReadAll(file)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the API keys: %w", err)
	}
	var content fileContent
	if err := decodeStrict(text, &content); err != nil {
		return info, nil, fmt.Errorf("reading the API keys in %s: %w; repair the file, or remove it and add the keys again", f.path, err)
	}
	for _, k := range allWithDefaults(content.Keys) {
		if err := errors.Join(k.Management.check(), k.Jobs.check()); err != nil {
			return info, nil, fmt.Errorf("reading the API keys in %s: key %q: %w", f.path, k.Name, err)
		}
	}
	return info, content.Keys, nil
}

// decodeStrict decodes JSON. A restriction that is misspelled, or unknown to this version, must not be ignored.
func decodeStrict(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

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

var (
	validName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)
	validEndpoint = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// Add creates and returns a key, and stores only its hash. k must have a name; Add sets Hash and Created.
func (f *File) Add(k Key) (key string, err error) {
	if key, err = k.complete(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return "", fmt.Errorf("creating the data folder: %w", err)
	}
	err = f.change(func(keys []Key) ([]Key, error) {
		if slices.ContainsFunc(keys, func(other Key) bool { return other.Name == k.Name }) {
			return nil, nameTaken(k.Name)
		}
		return append(keys, k), nil
	})
	if err != nil {
		return "", err
	}
	return key, nil
}

func (k *Key) complete() (key string, err error) {
	*k = k.withDefaults()
	key = rand.Text()
	k.Hash, k.Created = sum(key), time.Now().UTC().Truncate(time.Second)
	return key, k.Check()
}

func (k Key) Check() error {
	k = k.withDefaults()
	switch {
	case !validName.MatchString(k.Name):
		return fmt.Errorf("invalid key name %q: expected up to 64 letters, digits and . _ @ -, beginning with a letter or digit", k.Name)
	case k.Name == DefaultOwner:
		return fmt.Errorf("invalid key name %q: it is reserved for the deployment's own key, choose another name", k.Name)
	case !validName.MatchString(k.Owner):
		return fmt.Errorf("invalid owner %q: expected up to 64 letters, digits and . _ @ -, beginning with a letter or digit", k.Owner)
	case k.Expired(time.Now()):
		return fmt.Errorf("invalid expiry %s: expected a time in the future", k.Expires.Format(time.RFC3339))
	}
	for _, id := range k.Endpoints {
		if !validEndpoint.MatchString(id) {
			return fmt.Errorf("invalid endpoint id %q: expected up to 64 letters, digits, _ and -", id)
		}
	}
	if err := k.Management.check(); err != nil {
		return fmt.Errorf("management API: %w", err)
	}
	if err := k.Jobs.check(); err != nil {
		return fmt.Errorf("job API: %w", err)
	}
	return nil
}

func (f *File) Remove(name string) error {
	return f.change(func(keys []Key) ([]Key, error) {
		remaining := slices.DeleteFunc(keys, func(k Key) bool { return k.Name == name })
		if len(remaining) == len(keys) {
			return nil, notFound(name)
		}
		return remaining, nil
	})
}

func nameTaken(name string) error {
	return fmt.Errorf("a key named %s exists already: remove it first, or choose another name", name)
}

func notFound(name string) error { return fmt.Errorf("no key is named %q", name) }

// lockTimeout is how long a change waits for another process's change.
const lockTimeout = 5 * time.Second

// change writes a new file and renames it over the old one. The new file is also the lock against
// concurrent changes. Readers see either the old file or the new one, and an interrupted change
// leaves the old one.
func (f *File) change(edit func([]Key) ([]Key, error)) (err error) {
	temp, err := createLocked(f.path + ".new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	keys, err := f.List()
	if err == nil {
		keys, err = edit(slices.Clone(keys))
	}
	if err != nil {
		return errors.Join(err, temp.Close())
	}
	text, err := json.MarshalIndent(fileContent{keys}, "", "  ")
	if err == nil {
		_, err = temp.Write(append(text, '\n'))
	}
	if err == nil {
		err = giveToOwner(temp)
	}
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("writing the API keys: %w", err)
	}
	durable.SyncFolderOf(f.path) // otherwise a removed key could be valid again after a crash of the machine
	return nil
}

func createLocked(path string) (*os.File, error) {
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("the data folder %s does not exist", filepath.Dir(path))
		case !errors.Is(err, fs.ErrExist):
			return nil, fmt.Errorf("writing the API keys: %w", err)
		case time.Since(start) > lockTimeout:
			return nil, fmt.Errorf("another command is changing the API keys, or was interrupted: remove %s if no such command is running", path)
		}
	}
}

// MovedName is a marker file next to the keys' file. It means that a database has taken over the keys.
// Without it, a deployment that reads the keys' file would accept keys that were revoked in the database.
const MovedName = "keys.json.moved"

const movedText = "The deployment's PostgreSQL database has taken over the keys of keys.json. Manage them there:\njobrunner keys --engine-file FILE. Remove this file to use keys.json again, including keys that were removed from the database.\n"

// CheckNotMoved returns an error if a database has taken over the file's keys.
func (f *File) CheckNotMoved() error {
	moved, err := exists(f.marker())
	if moved {
		err = fmt.Errorf("the API keys of %s are in the deployment's database: name the database with --engine-file, --engine or GPUCLOUD_ENGINE. To use the keys in the file again, including keys that were removed from the database, remove %s", filepath.Dir(f.path), f.marker())
	}
	return err
}

func (f *File) marker() string { return filepath.Join(filepath.Dir(f.path), MovedName) }

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the API keys: %w", err)
	}
	return true, nil
}

// setMoved writes the marker file if the keys' file exists.
func (f *File) setMoved() error {
	if found, err := exists(f.path); err != nil || !found {
		return err
	}
	if moved, err := exists(f.marker()); err != nil || moved {
		return err
	}
	if err := durable.WriteFile(f.marker(), []byte(movedText)); err != nil {
		return fmt.Errorf("recording that the API keys are in the database: %w", err)
	}
	return nil
}

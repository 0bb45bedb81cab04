package apikey

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

var (
	validName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)
	validEndpoint = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// Add creates a key and returns it. k must have a name; Add sets the hash and the time of creation.
// The key itself isn't stored.
func (f *File) Add(k Key) (key string, err error) {
	k = k.withDefaults()
	if err := k.Check(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return "", fmt.Errorf("creating the data folder: %w", err)
	}
	key = rand.Text()
	k.Hash, k.Created = sum(key), time.Now().UTC().Truncate(time.Second)
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

// Check rejects a key that can't be added.
func (k Key) Check() error {
	k = k.withDefaults()
	switch {
	case !validName.MatchString(k.Name):
		return fmt.Errorf("invalid key name %q: expected up to 64 letters, digits and . _ @ -, beginning with a letter or digit", k.Name)
	case k.Name == Default:
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

// Remove revokes a key.
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

func notFound(name string) error { return fmt.Errorf("there is no key named %q", name) }

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

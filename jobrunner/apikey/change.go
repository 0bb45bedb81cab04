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

// Add makes a key for an owner, for all endpoints where none is named, and
// returns it. This is the only time that anybody sees it.
func (f *File) Add(name string, endpoints []string) (key string, err error) {
	switch {
	case !validName.MatchString(name):
		return "", fmt.Errorf("%q can't name a key: use up to 64 letters, digits and . _ @ -, beginning with a letter or digit", name)
	case name == Default:
		return "", fmt.Errorf("%q is the owner of the deployment's own key: take another name", name)
	}
	for _, id := range endpoints {
		if !validEndpoint.MatchString(id) {
			return "", fmt.Errorf("%q can't be the id of an endpoint", id)
		}
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return "", fmt.Errorf("making the data folder: %w", err)
	}
	key = rand.Text()
	err = f.change(func(keys []Key) ([]Key, error) {
		if slices.ContainsFunc(keys, func(k Key) bool { return k.Name == name }) {
			return nil, fmt.Errorf("there is a key named %s: remove it first, or take another name", name)
		}
		return append(keys, Key{name, sum(key), endpoints, time.Now().UTC().Truncate(time.Second)}), nil
	})
	if err != nil {
		return "", err
	}
	return key, nil
}

// Remove takes a key back. It opens nothing from now on.
func (f *File) Remove(name string) error {
	return f.change(func(keys []Key) ([]Key, error) {
		left := slices.DeleteFunc(keys, func(k Key) bool { return k.Name == name })
		if len(left) == len(keys) {
			return nil, fmt.Errorf("there is no key named %q", name)
		}
		return left, nil
	})
}

// patience is how long a change waits for one that another process makes.
const patience = 5 * time.Second

// change writes the file anew under a name of its own, which also keeps others
// from changing it meanwhile, and puts that in the place of the old one: a
// reader sees either, and an interruption leaves the old one.
func (f *File) change(edit func([]Key) ([]Key, error)) (err error) {
	next, err := create(f.path + ".new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(next.Name()))
		}
	}()
	keys, err := f.List()
	if err == nil {
		keys, err = edit(slices.Clone(keys))
	}
	if err != nil {
		return errors.Join(err, next.Close())
	}
	text, err := json.MarshalIndent(content{keys}, "", "  ")
	if err == nil {
		_, err = next.Write(append(text, '\n'))
	}
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("keeping the API keys: %w", err)
	}
	return nil
}

func create(path string) (*os.File, error) {
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("there is no data folder at %s", filepath.Dir(path))
		case !errors.Is(err, fs.ErrExist):
			return nil, fmt.Errorf("keeping the API keys: %w", err)
		case time.Since(start) > patience:
			return nil, fmt.Errorf("another command changes the keys, or was interrupted when it did: remove %s if none is running", path)
		}
	}
}

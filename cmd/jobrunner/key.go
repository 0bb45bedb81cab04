package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const (
	keyFile     = "api-key" // in the data folder
	keyVariable = "GPUCLOUD_API_KEY"
)

// apiKey returns the deployment's key: from --api-key-file, GPUCLOUD_API_KEY or the data folder. If
// none has a key, it generates one and stores it in the data folder, readable only for its owner.
func apiKey(file, dir string) (key string, generated bool, err error) {
	key = os.Getenv(keyVariable)
	switch {
	case file != "" && key != "":
		return "", false, usageErrorf("--api-key-file and %s exclude each other: choose one", keyVariable)
	case file != "":
		key, err = keyFromFile(file)
		return key, false, err
	case key != "":
		key, err = parseKey(keyVariable, key)
		return key, false, err
	}
	if dir == "" {
		return rand.Text(), true, nil
	}
	path := filepath.Join(dir, keyFile)
	content, err := os.ReadFile(path)
	switch {
	case err == nil:
		if key, err = parseKey(path, string(content)); err != nil {
			err = fmt.Errorf("%w; remove the file to get a new key", err)
		}
		return key, false, err
	case !errors.Is(err, os.ErrNotExist):
		return "", false, fmt.Errorf("reading the API key: %w", err)
	}
	key = rand.Text()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", false, fmt.Errorf("creating the data folder: %w", err)
	}
	if err := store.WriteKey(path, key+"\n"); err != nil {
		return "", false, fmt.Errorf("keeping the API key: %w", err)
	}
	return key, true, nil
}

// keyFromFile returns the key in a file of one line.
func keyFromFile(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading --api-key-file: %w", err)
	}
	return parseKey("--api-key-file "+file, string(content))
}

// parseKey returns a key without surrounding white space. It rejects a key that clients can't send.
func parseKey(source, text string) (string, error) {
	key := strings.TrimSpace(text)
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usageErrorf("invalid %s: expected one line with the key, of visible ASCII characters", source)
	}
	return key, nil
}

// minKey is the minimum length of a key with --allow-remote.
const minKey = 20

// checkKey rejects a short key with --allow-remote, because other machines could guess it.
func (s *serve) checkKey(key string) error {
	if n := utf8.RuneCountInString(key); s.AllowRemote && n < minKey {
		return usageErrorf("the API key has %d characters, and with --allow-remote other machines may guess it: set %s to at least %d random ones (openssl rand -hex 20), "+
			"or unset it and remove the file %s of the data folder to get a new key", n, keyVariable, minKey, keyFile)
	}
	return nil
}

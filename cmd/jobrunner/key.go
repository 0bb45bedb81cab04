package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	keyFile     = "api-key" // in the data folder
	keyVariable = "GPUCLOUD_API_KEY"
)

// apiKey is the key that clients must send: GPUCLOUD_API_KEY, else the one in
// the data folder, else a new one, kept there for its owner alone. made tells
// that it is new.
func apiKey(dir string) (key string, made bool, err error) {
	if key := os.Getenv(keyVariable); key != "" {
		return key, false, nil
	}
	if dir == "" {
		return rand.Text(), true, nil
	}
	path := filepath.Join(dir, keyFile)
	content, err := os.ReadFile(path)
	switch {
	case err == nil && len(strings.TrimSpace(string(content))) > 0:
		return strings.TrimSpace(string(content)), false, nil
	case err == nil:
		return "", false, fmt.Errorf("the API key in %s is empty: remove the file to get a new key", path)
	case !errors.Is(err, os.ErrNotExist):
		return "", false, fmt.Errorf("reading the API key: %w", err)
	}
	key = rand.Text()
	return key, true, writeKey(dir, path, key)
}

// writeKey leaves the whole key or none, also when it is interrupted.
func writeKey(dir, path, key string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	f, err := os.CreateTemp(dir, keyFile+"-") // 0600
	if err != nil {
		return fmt.Errorf("keeping the API key: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(key + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keeping the API key: %w", err)
	}
	return nil
}

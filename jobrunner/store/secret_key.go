package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// SecretKeyFile is the name of the key in a data folder.
const SecretKeyFile = "secrets.key"

// placeholder matches the placeholder of a secret in an environment variable.
var placeholder = regexp.MustCompile(`\{\{\s*RUNPOD_SECRET_([a-zA-Z_][a-zA-Z0-9_.\-/]*)\s*\}\}`)

// KeyError is why a node can't encrypt or decrypt secrets. Its text is for the caller of the
// API.
type KeyError string

func (e KeyError) Error() string { return string(e) }

// secretKey is the key that encrypts the values of secrets (AES-256-GCM).
type secretKey struct {
	path string // "": in memory

	mu   sync.Mutex
	aead cipher.AEAD // nil until it is needed
	id   string      // a hash of the key
}

// seal encrypts a value of the secret with an id. other is the id of the key of the
// database's other values. If other is "", there are none, and seal creates a missing key.
func (k *secretKey) seal(id, value, other string) (sealed []byte, keyID string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.load(other == ""); err != nil {
		return nil, "", err
	}
	if other != "" && other != k.id {
		return nil, "", k.mismatch()
	}
	nonce := make([]byte, k.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return k.aead.Seal(nonce, nonce, []byte(value), []byte(id)), k.id, nil
}

// open decrypts a value.
func (k *secretKey) open(id, keyID string, sealed []byte) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.load(false); err != nil {
		return "", err
	}
	size := k.aead.NonceSize()
	if keyID != k.id || len(sealed) < size {
		return "", k.mismatch()
	}
	value, err := k.aead.Open(nil, sealed[:size], sealed[size:], []byte(id))
	if err != nil {
		return "", KeyError("the stored value of an account secret is damaged: set it again")
	}
	return string(value), nil
}

func (k *secretKey) mismatch() error {
	if k.path == "" {
		return KeyError("the account secrets of this database have another key than this node: give all nodes the same key file with --secrets-key-file")
	}
	return KeyError(fmt.Sprintf("the account secrets of this database have another key than %s: put the key there with which they were stored, or delete them all", k.path))
}

// load reads the key. If create is true, it creates a missing key.
func (k *secretKey) load(create bool) error {
	if k.aead != nil {
		return nil
	}
	key, err := k.read()
	if errors.Is(err, fs.ErrNotExist) && create {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		if k.path != "" {
			err = WriteKey(k.path, base64.StdEncoding.EncodeToString(key)+"\n")
		} else {
			err = nil
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k.mismatch()
	case err != nil:
		return KeyError("the key of account secrets: " + err.Error())
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	if k.aead, err = cipher.NewGCM(block); err != nil {
		return err
	}
	sum := sha256.Sum256(append([]byte("gpucloud secrets key "), key...))
	k.id = hex.EncodeToString(sum[:8])
	return nil
}

func (k *secretKey) read() ([]byte, error) {
	if k.path == "" {
		return nil, fs.ErrNotExist
	}
	text, err := os.ReadFile(k.path)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%s has no key: expected 32 bytes in base64, as 'openssl rand -base64 32' prints them", k.path)
	}
	return key, nil
}

// WriteKey writes the file of a key atomically and durably.
func WriteKey(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails if the file was renamed
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil { // make the file name durable
		_ = errors.Join(dir.Sync(), dir.Close()) // Windows flushes names with the file
	}
	return nil
}

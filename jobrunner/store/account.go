package store

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/durable"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Secret is an account secret without its value. Its name is unique, ignoring case, and fixed. If it is
// deleted, its placeholders resolve to "".
type Secret struct {
	Head
	Description  string    `json:"description,omitempty"`
	ValueUpdated time.Time `json:"valueUpdated"`
}

func (s *Secret) kind() kind { return secrets }

// UseSecretKey sets the file of the key that encrypts the values of secrets. The first secret creates the
// file. If path is empty, the file is in dataFolder or, if that is empty too, the key is in memory.
// UseSecretKey must precede the first write. The error says why an existing file at path has no key. A
// fault of the file in dataFolder isn't an error here, so that secrets can still be deleted.
func (s *Store) UseSecretKey(path, dataFolder string) error {
	s.key.path = path
	if path == "" && dataFolder != "" {
		s.key.path = filepath.Join(dataFolder, SecretKeyFile)
	}
	if _, err := s.key.read(); err != nil && path != "" && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the key of account secrets: %w", err)
	}
	return nil
}

// CreateSecret stores a secret. The error is a Conflict if the name is taken.
func (s *Store) CreateSecret(ctx context.Context, secret Secret, value string) (Secret, error) {
	err := s.write(ctx, func(tx *Tx) error {
		secret.ValueUpdated = tx.now
		if err := tx.insert(&secret); err != nil {
			return err
		}
		return tx.saveValue(&secret, value)
	})
	return secret, err
}

// SecretChange is an update of a secret. A nil member stays unchanged.
type SecretChange struct {
	Value       *string
	Description *string
}

func (s *Store) UpdateSecret(ctx context.Context, id string, change SecretChange) (Secret, error) {
	return update(ctx, s, id, func(tx *Tx, secret *Secret) error {
		if change.Description != nil {
			secret.Description = *change.Description
		}
		if change.Value == nil {
			return nil
		}
		secret.ValueUpdated = tx.now
		return tx.saveValue(secret, *change.Value)
	})
}

// saveValue encrypts and stores the value of a secret. All values are encrypted with the same key.
func (tx *Tx) saveValue(secret *Secret, value string) error {
	used, err := usedKeyID(tx.tx)
	if err != nil {
		return err
	}
	ciphertext, keyID, err := tx.store.key.seal(secret.ID, value, used)
	if err != nil {
		return err
	}
	_, err = tx.tx.Exec(`INSERT INTO secret_values (id, key_id, value) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET key_id = excluded.key_id, value = excluded.value`, secret.ID, keyID, ciphertext)
	return err
}

// usedKeyID returns the id of the key that encrypted the database's values, or "" if the database has no values.
func usedKeyID(q sqldb.Querier) (id string, err error) {
	if err = q.QueryRow("SELECT key_id FROM secret_values LIMIT 1").Scan(&id); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, err
}

// CheckSecretKey returns a KeyError if the database has secrets that this node can't decrypt.
func (s *Store) CheckSecretKey(ctx context.Context) error {
	return s.db.Read(ctx, func(r *sqldb.Reader) error {
		used, err := usedKeyID(r)
		if err != nil || used == "" {
			return err
		}
		s.key.mu.Lock()
		defer s.key.mu.Unlock()
		return s.key.require(used)
	})
}

// ResolveSecrets replaces the placeholders of secrets in environment variables. It returns
// the variables and the values of the secrets. A missing secret has the value "".
func (s *Store) ResolveSecrets(ctx context.Context, env map[string]string) (resolved map[string]string, values []string, err error) {
	valuesByName := map[string]string{}
	for _, text := range env {
		for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
			valuesByName[strings.ToLower(match[1])] = ""
		}
	}
	if len(valuesByName) == 0 {
		return env, nil, nil
	}
	for name := range valuesByName {
		if valuesByName[name], err = s.secretValue(ctx, name); err != nil {
			return nil, nil, err
		}
		values = append(values, valuesByName[name])
	}
	resolved = make(map[string]string, len(env))
	for name, text := range env {
		resolved[name] = placeholder.ReplaceAllStringFunc(text, func(match string) string {
			return valuesByName[strings.ToLower(placeholder.FindStringSubmatch(match)[1])]
		})
	}
	return resolved, values, nil
}

// secretValue decrypts the value of a secret, named in lower case, or returns "" if it doesn't exist.
func (s *Store) secretValue(ctx context.Context, name string) (string, error) {
	var id, keyID string
	var ciphertext []byte
	err := s.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow("SELECT o.id, v.key_id, v.value FROM objects o JOIN secret_values v ON v.id = o.id WHERE o.kind = 'secret' AND lower(o.name) = ?", name).Scan(&id, &keyID, &ciphertext)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return s.key.open(id, keyID, ciphertext)
}

const SecretKeyFile = "secrets.key"

// placeholder matches the placeholder of a secret in an environment variable.
var placeholder = regexp.MustCompile(`\{\{\s*RUNPOD_SECRET_([a-zA-Z_][a-zA-Z0-9_.\-/]*)\s*\}\}`)

// KeyError says, for the API's caller, why a node can't encrypt or decrypt secrets.
type KeyError string

func (e KeyError) Error() string { return string(e) }

// secretKey is the key that encrypts the values of secrets (AES-256-GCM).
type secretKey struct {
	path string // "": in memory

	mu   sync.Mutex
	aead cipher.AEAD // nil until it is needed
	id   string      // a hash of the key
}

// require loads the key and returns a KeyError if the database's values need another one. used is the result of
// usedKeyID. If it is "", require creates a missing key. The caller holds mu.
func (k *secretKey) require(used string) error {
	if err := k.load(used == ""); err != nil {
		return err
	}
	if used != "" && used != k.id {
		return k.mismatch()
	}
	return nil
}

// seal encrypts a value of the secret that has this id. used is the result of usedKeyID.
func (k *secretKey) seal(id, value, used string) (ciphertext []byte, keyID string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.require(used); err != nil {
		return nil, "", err
	}
	nonce := make([]byte, k.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return k.aead.Seal(nonce, nonce, []byte(value), []byte(id)), k.id, nil
}

func (k *secretKey) open(id, keyID string, ciphertext []byte) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.load(false); err != nil {
		return "", err
	}
	size := k.aead.NonceSize()
	if keyID != k.id || len(ciphertext) < size {
		return "", k.mismatch()
	}
	value, err := k.aead.Open(nil, ciphertext[:size], ciphertext[size:], []byte(id))
	if err != nil {
		return "", KeyError("the stored value of an account secret is damaged: set it again")
	}
	return string(value), nil
}

func (k *secretKey) mismatch() error {
	if k.path == "" {
		return KeyError("the account secrets of this database have another key than this node: give all nodes the same key file with --secrets-key-file")
	}
	return KeyError(fmt.Sprintf("the account secrets of this database have another key than %s: put the key that encrypted them there, or delete them all", k.path))
}

// load reads the key. If create is true, it creates a missing key.
func (k *secretKey) load(create bool) error {
	if k.aead != nil {
		return nil
	}
	key, err := k.read()
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return k.mismatch()
		}
		key, err = make([]byte, 32), nil
		_, _ = rand.Read(key) // never fails
		if k.path != "" {
			err = durable.WriteFile(k.path, []byte(base64.StdEncoding.EncodeToString(key)+"\n"))
		}
	}
	if err != nil {
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
	text, err := flagfile.Read(k.path)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%s has no key: expected 32 bytes in base64, as 'openssl rand -base64 32' prints them", k.path)
	}
	return key, nil
}

// sshKeySet has the public keys of an owner of API keys. Its name is the owner.
type sshKeySet struct {
	Head
	Keys []string `json:"keys"`
}

func (k *sshKeySet) kind() kind { return sshKeySets }

// SSHKeys lists the public keys of an owner, in the order of SetSSHKeys.
func (s *Store) SSHKeys(ctx context.Context, owner string) (keys []string, err error) {
	err = s.db.Read(ctx, func(r *sqldb.Reader) (err error) { keys, err = sshKeys(r, owner); return err })
	return keys, err
}

func (tx *Tx) SSHKeys(owner string) ([]string, error) { return sshKeys(tx.tx, owner) }

func sshKeys(q sqldb.Querier, owner string) ([]string, error) {
	docs, err := column(q, "SELECT doc FROM objects WHERE kind = ? AND name = ?", sshKeySets.key, owner)
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	var set sshKeySet
	err = decode(sshKeySets.label, []byte(docs[0]), &set)
	return set.Keys, err
}

func (s *Store) SetSSHKeys(ctx context.Context, owner string, keys []string) error {
	return s.write(ctx, func(tx *Tx) error {
		if _, err := tx.tx.Exec("DELETE FROM objects WHERE kind = ? AND name = ?", sshKeySets.key, owner); err != nil || len(keys) == 0 {
			return err
		}
		return tx.insert(&sshKeySet{Head: Head{Name: owner}, Keys: keys})
	})
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Secret is an account secret without its value. Its name is unique, ignoring case, and never
// changes.
type Secret struct {
	Head
	Description  string    `json:"description,omitempty"`
	ValueUpdated time.Time `json:"valueUpdated"`
}

func (s *Secret) kind() kind { return secrets }

// SecretKey sets the file of the key that encrypts the values of secrets. The first secret
// creates the file. If the path is empty, the key is in memory. SecretKey must precede the
// first write. The error says why an existing file has no key.
func (s *Store) SecretKey(path string) error {
	s.key.path = path
	if _, err := s.key.read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// UpdateSecret changes a secret's value and description in one transaction.
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

// DeleteSecret deletes a secret, even if it is in use: its placeholders then resolve to "".
func (s *Store) DeleteSecret(ctx context.Context, id string) error {
	return s.delete(ctx, func(tx *Tx) error { return tx.remove(secrets, id) })
}

// saveValue encrypts and stores the value of a secret. All values have the same key.
func (tx *Tx) saveValue(secret *Secret, value string) error {
	var other string
	err := tx.tx.QueryRow("SELECT key_id FROM secret_values LIMIT 1").Scan(&other)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	sealed, keyID, err := tx.store.key.seal(secret.ID, value, other)
	if err != nil {
		return err
	}
	_, err = tx.tx.Exec(`INSERT INTO secret_values (id, key_id, value) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET key_id = excluded.key_id, value = excluded.value`, secret.ID, keyID, sealed)
	return err
}

// ResolveSecrets replaces the placeholders of secrets in environment variables. It returns
// the variables and the values of the secrets. A missing secret has the value "".
func (s *Store) ResolveSecrets(ctx context.Context, env map[string]string) (resolved map[string]string, values []string, err error) {
	known := map[string]string{}
	for _, text := range env {
		for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
			known[strings.ToLower(match[1])] = ""
		}
	}
	if len(known) == 0 {
		return env, nil, nil
	}
	for name := range known {
		if known[name], err = s.secretValue(ctx, name); err != nil {
			return nil, nil, err
		}
		values = append(values, known[name])
	}
	resolved = make(map[string]string, len(env))
	for name, text := range env {
		resolved[name] = placeholder.ReplaceAllStringFunc(text, func(match string) string {
			return known[strings.ToLower(placeholder.FindStringSubmatch(match)[1])]
		})
	}
	return resolved, values, nil
}

// secretValue decrypts the value of the secret with a name in lower case. It returns "" if
// the secret doesn't exist.
func (s *Store) secretValue(ctx context.Context, name string) (string, error) {
	var id, keyID string
	var sealed []byte
	err := s.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow("SELECT o.id, v.key_id, v.value FROM objects o JOIN secret_values v ON v.id = o.id WHERE o.kind = 'secret' AND lower(o.name) = ?", name).Scan(&id, &keyID, &sealed)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return s.key.open(id, keyID, sealed)
}

package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// sshKeySet has the public keys of an owner of API keys. Its name is the owner.
type sshKeySet struct {
	Head
	Keys []string `json:"keys"`
}

func (k *sshKeySet) kind() kind { return sshKeySets }

// SSHKeys lists the public keys of an owner, in the order of SetSSHKeys.
func (s *Store) SSHKeys(ctx context.Context, owner string) ([]string, error) {
	var set sshKeySet
	err := s.db.Read(ctx, func(r *sqldb.Reader) error {
		var doc []byte
		// Two sets may have been stored at the same time: read the latest.
		err := r.QueryRow("SELECT doc FROM objects WHERE kind = ? AND name = ? ORDER BY seq DESC LIMIT 1", sshKeySets.key, owner).Scan(&doc)
		if err != nil {
			return err
		}
		return decode(doc, &set)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return set.Keys, err
}

// SetSSHKeys replaces the public keys of an owner.
func (s *Store) SetSSHKeys(ctx context.Context, owner string, keys []string) error {
	return s.write(ctx, func(tx *Tx) error {
		if _, err := tx.tx.Exec("DELETE FROM objects WHERE kind = ? AND name = ?", sshKeySets.key, owner); err != nil || len(keys) == 0 {
			return err
		}
		return tx.insert(&sshKeySet{Head: Head{Name: owner}, Keys: keys})
	})
}

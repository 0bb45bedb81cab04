package store

import "context"

// GlobalVolume is storage without a size or data center. Its name need not be unique. It
// can't be mounted yet, because the operator hasn't documented how.
type GlobalVolume struct {
	Head

	// Owner is the owner of the API key that created it.
	Owner string `json:"owner"`
}

func (v *GlobalVolume) kind() kind { return globalVolumes }

// CreateGlobalVolume stores a volume with a new id.
func (s *Store) CreateGlobalVolume(ctx context.Context, v GlobalVolume) (GlobalVolume, error) {
	err := s.write(ctx, func(tx *Tx) error { return tx.insert(&v) })
	return v, err
}

// RenameGlobalVolume changes the name of a volume.
func (s *Store) RenameGlobalVolume(ctx context.Context, id, name string) (GlobalVolume, error) {
	return update(ctx, s, id, func(_ *Tx, v *GlobalVolume) error { v.Name = name; return nil })
}

// DeleteGlobalVolume deletes a volume.
func (s *Store) DeleteGlobalVolume(ctx context.Context, id string) error {
	return s.delete(ctx, func(tx *Tx) error { return tx.remove(globalVolumes, id) })
}

package store

import "context"

// GlobalVolume is storage without a size or data center. Its name need not be unique. It
// can't be mounted yet, because the operator hasn't documented how.
type GlobalVolume struct {
	Head

	// Owner is the owner of the API key that created it.
	Owner string `json:"owner"`
}

func (v *GlobalVolume) kind() kind     { return globalVolumes }
func (v *GlobalVolume) refs() []string { return nil }

// GlobalVolume reads a volume. The error wraps ErrNotFound if it doesn't exist.
func (s *Store) GlobalVolume(ctx context.Context, id string) (GlobalVolume, error) {
	return get[GlobalVolume](ctx, s, id)
}

// GlobalVolumePage lists a page of the volumes, with the position of the next page.
func (s *Store) GlobalVolumePage(ctx context.Context, p Page) (part []GlobalVolume, next int64, err error) {
	return page[GlobalVolume](ctx, s, p)
}

// CreateGlobalVolume stores a volume with a new id.
func (s *Store) CreateGlobalVolume(ctx context.Context, v GlobalVolume) (GlobalVolume, error) {
	now := s.clock.Wall()
	err := s.write(ctx, func(tx *Tx) error { return tx.insert(&v, now) })
	return v, err
}

// RenameGlobalVolume changes the name of a volume.
func (s *Store) RenameGlobalVolume(ctx context.Context, id, name string) (GlobalVolume, error) {
	var out GlobalVolume
	err := s.write(ctx, func(tx *Tx) error {
		out = GlobalVolume{}
		if err := load(tx.tx, &out, id); err != nil {
			return err
		}
		out.Name = name
		return tx.save(&out)
	})
	return out, err
}

// DeleteGlobalVolume deletes a volume.
func (s *Store) DeleteGlobalVolume(ctx context.Context, id string) error {
	return s.delete(ctx, func(tx *Tx) error { return tx.remove(globalVolumes, id) })
}

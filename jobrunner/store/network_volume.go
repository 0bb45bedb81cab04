package store

import (
	"context"
)

// NetworkVolume is storage that workers of a data center can mount. Its name
// need not be unique.
type NetworkVolume struct {
	Head
	Size       int64  `json:"size"` // GB, may only grow
	DataCenter string `json:"dataCenter"`
	Type       string `json:"type"` // tier
}

func (v *NetworkVolume) kind() kind     { return networkVolumes }
func (v *NetworkVolume) refs() []string { return nil }

// NetworkVolume reads one volume. The error wraps ErrNotFound where there is
// none.
func (s *Store) NetworkVolume(ctx context.Context, id string) (NetworkVolume, error) {
	return get[NetworkVolume](ctx, s, id)
}

// NetworkVolumes lists the volumes, the oldest first.
func (s *Store) NetworkVolumes(ctx context.Context) ([]NetworkVolume, error) {
	return list[NetworkVolume](ctx, s)
}

// CreateNetworkVolume keeps v under an id of its own.
func (s *Store) CreateNetworkVolume(ctx context.Context, v NetworkVolume) (NetworkVolume, error) {
	now := s.clock.Wall()
	err := s.write(ctx, func(tx *Tx) error {
		if err := tx.insert(&v, now); err != nil {
			return err
		}
		return tx.changedVolume(v.ID, &v)
	})
	return v, err
}

// VolumeChange is what an update of a network volume asks for; nil leaves as
// it is.
type VolumeChange struct {
	Name *string
	Size *int64 // GB
}

// UpdateNetworkVolume changes a volume. A size that is not above the current
// one is refused (service description, States and transitions).
func (s *Store) UpdateNetworkVolume(ctx context.Context, id string, change VolumeChange) (NetworkVolume, error) {
	var out NetworkVolume
	err := s.write(ctx, func(tx *Tx) error {
		var v NetworkVolume
		if err := load(tx.tx, &v, id); err != nil {
			return err
		}
		if change.Size != nil {
			if *change.Size <= v.Size {
				return refusef("network volume %q has %d GB and can only grow: a size of %d GB is not above that", id, v.Size, *change.Size)
			}
			v.Size = *change.Size
		}
		if change.Name != nil {
			v.Name = *change.Name
		}
		out = v
		if err := tx.save(&v); err != nil || change.Size == nil {
			return err
		}
		return tx.changedVolume(id, &v)
	})
	return out, err
}

// DeleteNetworkVolume deletes a volume. Endpoints and pods that named it name it no
// more: no source has a refusal, and a volume must be replaceable while
// endpoints stay.
func (s *Store) DeleteNetworkVolume(ctx context.Context, id string) error {
	return s.delete(ctx, func(tx *Tx) error {
		users, err := tx.owners(endpoints, id)
		if err != nil {
			return err
		}
		for _, user := range users {
			_, err := tx.updateEndpoint(user, func(e *Endpoint) error {
				e.NetworkVolumes = without(e.NetworkVolumes, id)
				return nil
			})
			if err != nil {
				return err
			}
		}
		if err := tx.detachPods(id); err != nil {
			return err
		}
		if err := tx.remove(networkVolumes, id); err != nil {
			return err
		}
		return tx.changedVolume(id, nil)
	})
}

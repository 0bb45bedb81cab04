package store

import (
	"context"
	"slices"
)

// NetworkVolume is storage that workers and pods of a data center can mount. Its name need
// not be unique.
type NetworkVolume struct {
	Head
	Size       int64  `json:"size"` // GB; can only grow
	DataCenter string `json:"dataCenter"`
	Type       string `json:"type"` // tier
}

func (v *NetworkVolume) kind() kind { return networkVolumes }

// CreateNetworkVolume stores v with a new id.
func (s *Store) CreateNetworkVolume(ctx context.Context, v NetworkVolume) (NetworkVolume, error) {
	err := s.write(ctx, func(tx *Tx) error {
		if err := tx.insert(&v); err != nil {
			return err
		}
		return tx.changedVolume(v.ID, &v)
	})
	return v, err
}

// VolumeChange is an update of a network volume. A nil member stays unchanged.
type VolumeChange struct {
	Name *string
	Size *int64 // GB
}

// UpdateNetworkVolume changes a volume. It rejects a size that isn't above the current one
// (service description, States and transitions).
func (s *Store) UpdateNetworkVolume(ctx context.Context, id string, change VolumeChange) (NetworkVolume, error) {
	return update(ctx, s, id, func(tx *Tx, v *NetworkVolume) error {
		if change.Name != nil {
			v.Name = *change.Name
		}
		if change.Size == nil {
			return nil
		}
		if *change.Size <= v.Size {
			return refusef("network volume %q has %d GB and can only grow: a size of %d GB is not above that", id, v.Size, *change.Size)
		}
		v.Size = *change.Size
		return tx.changedVolume(id, v)
	})
}

// DeleteNetworkVolume deletes a volume and removes it from endpoints and pods. It doesn't
// reject the deletion of a used volume, because no source documents that, and a volume must
// be replaceable without deleting its endpoints.
func (s *Store) DeleteNetworkVolume(ctx context.Context, id string) error {
	return s.delete(ctx, func(tx *Tx) error {
		err := tx.updateUsers(id, func(e *Endpoint) {
			e.NetworkVolumes = slices.DeleteFunc(slices.Clone(e.NetworkVolumes), func(other string) bool { return other == id })
		})
		if err != nil {
			return err
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

package store

import (
	"context"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// NetworkVolume is storage for workers and pods of a data center. Its name need not be unique.
type NetworkVolume struct {
	Head
	Size       int64  `json:"size"` // GB; can only grow
	DataCenter string `json:"dataCenter"`
	Type       string `json:"type"` // tier
}

func (v *NetworkVolume) kind() kind { return networkVolumes }

func (v *NetworkVolume) afterInsert(tx *Tx) error { return tx.callVolumeHook(v.ID, v) }

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
		tx.recordChange(networkVolumes, id)
		return tx.callVolumeHook(id, v)
	})
}

// beforeDelete removes the volume from endpoints and pods. It doesn't reject the deletion of a used volume,
// because no source documents that, and a volume must be replaceable without deleting its endpoints.
func (v *NetworkVolume) beforeDelete(tx *Tx) error {
	err := tx.updateReferrers(v.ID, func(e *Endpoint) {
		e.NetworkVolumes = slices.DeleteFunc(slices.Clone(e.NetworkVolumes), func(other string) bool { return other == v.ID })
	})
	if err != nil {
		return err
	}
	// Running containers keep their mounts.
	if err := changeReferrers(tx, v.ID, func(p *Pod) { p.NetworkVolume = "" }); err != nil {
		return err
	}
	return tx.callVolumeHook(v.ID, nil)
}

// VolumeHook is called when a network volume is created, resized or, with a nil volume,
// deleted. It runs in the transaction of the change, which its error rolls back.
type VolumeHook func(tx *sqldb.Tx, now time.Time, id string, volume *NetworkVolume) error

// SetVolumeHook sets the hook. It must precede the first change.
func (s *Store) SetVolumeHook(f VolumeHook) { s.volumeHook = f }

// WithNetworkVolumes runs f with all volumes, in a transaction that locks them.
func (s *Store) WithNetworkVolumes(ctx context.Context, f func(tx *sqldb.Tx, now time.Time, all []NetworkVolume) error) error {
	return s.writeWithReservedSpace(ctx, func(tx *Tx) error { // the jobrunner must also start on a full disk
		docs, err := column(tx.tx, "SELECT doc FROM objects WHERE kind = ? ORDER BY seq", networkVolumes.key)
		if err != nil {
			return err
		}
		all := make([]NetworkVolume, len(docs))
		for i, doc := range docs {
			if err := decode(networkVolumes.label, []byte(doc), &all[i]); err != nil {
				return err
			}
		}
		return f(tx.tx, tx.now, all)
	})
}

func (tx *Tx) callVolumeHook(id string, v *NetworkVolume) error {
	if tx.store.volumeHook == nil {
		return nil
	}
	return tx.store.volumeHook(tx.tx, tx.now, id, v)
}

// GlobalVolume is storage without a size or data center. Its name need not be unique. It
// can't be mounted yet, because RunPod hasn't documented how.
type GlobalVolume struct {
	Head

	// Owner is the owner of the API key that created it.
	Owner string `json:"owner"`
}

func (v *GlobalVolume) kind() kind { return globalVolumes }

func (s *Store) RenameGlobalVolume(ctx context.Context, id, name string) (GlobalVolume, error) {
	return update(ctx, s, id, func(_ *Tx, v *GlobalVolume) error { v.Name = name; return nil })
}

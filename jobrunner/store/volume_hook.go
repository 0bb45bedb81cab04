package store

import (
	"context"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// VolumeHook is called when a network volume is created, resized or, with a nil volume,
// deleted. It runs in the transaction of the change, which its error rolls back.
type VolumeHook func(tx *sqldb.Tx, now time.Time, id string, volume *NetworkVolume) error

// OnVolumeChange sets the hook. It must precede the first change.
func (s *Store) OnVolumeChange(f VolumeHook) { s.volumes = f }

// WithNetworkVolumes runs f with all volumes, in a transaction that locks them.
func (s *Store) WithNetworkVolumes(ctx context.Context, f func(tx *sqldb.Tx, now time.Time, all []NetworkVolume) error) error {
	return s.delete(ctx, func(tx *Tx) error { // the start must succeed on a full disk, too
		rows, err := tx.tx.Query("SELECT doc FROM objects WHERE kind = ? ORDER BY seq", networkVolumes.key)
		docs, err := column(rows, err)
		if err != nil {
			return err
		}
		all := make([]NetworkVolume, len(docs))
		for i, doc := range docs {
			if err := decode([]byte(doc), &all[i]); err != nil {
				return err
			}
		}
		return f(tx.tx, tx.now, all)
	})
}

// OnNetworkVolumeChange calls f after the commit of a change for which VolumeHook is called.
// f must read the volume, because calls can arrive out of order.
func (s *Store) OnNetworkVolumeChange(f func(id string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumeHooks = append(s.volumeHooks, f)
}

func (tx *Tx) changedVolume(id string, v *NetworkVolume) error {
	tx.changedVolumes = append(tx.changedVolumes, id)
	if tx.store.volumes == nil {
		return nil
	}
	return tx.store.volumes(tx.tx, tx.now, id, v)
}

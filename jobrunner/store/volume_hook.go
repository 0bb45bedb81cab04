package store

import (
	"context"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// VolumeHook is told of each volume that is created, gets another size or, where
// volume is nil, is deleted. It writes in the transaction of that change, which
// its error undoes.
type VolumeHook func(tx *sqldb.Tx, now time.Time, id string, volume *NetworkVolume) error

// OnVolumeChange sets the hook, before the first change.
func (s *Store) OnVolumeChange(f VolumeHook) { s.volumes = f }

// WithNetworkVolumes runs f with all volumes, in a transaction in which none of
// them changes.
func (s *Store) WithNetworkVolumes(ctx context.Context, f func(tx *sqldb.Tx, now time.Time, all []NetworkVolume) error) error {
	return s.delete(ctx, func(tx *Tx) error { // at the start, and so on a full disk too
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

// OnNetworkVolumeChange has f called after the commit of what VolumeHook is told of. As
// with endpoints, f reads the volume again to know its state.
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

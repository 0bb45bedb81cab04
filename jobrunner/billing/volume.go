package billing

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// A volume is billed from its creation to its deletion, even while no jobrunner runs. The
// transactions that change a volume also start and end its spans.

// StartVolume starts the span of a volume, which belongs to no process.
func StartVolume(tx *sqldb.Tx, at time.Time, r Resource) error {
	s := span{Resource: r, id: uuid.NewString(), started: at.UnixMilli()}
	return s.write(tx, "", endless)
}

// StopVolume ends the span of a volume.
func StopVolume(tx *sqldb.Tx, at time.Time, id string) error {
	_, err := tx.Exec(endSpan, at.UnixMilli(), id, string(Volume), int64(endless))
	return err
}

// SettleVolumes starts and ends spans so that exactly the given volumes are billed, at their
// rates. Prices may have changed, and volumes of an old data folder have no span yet.
func SettleVolumes(tx *sqldb.Tx, at time.Time, volumes []Resource) error {
	open, err := openVolumes(tx)
	if err != nil {
		return err
	}
	for id, r := range open {
		if i := slices.IndexFunc(volumes, func(v Resource) bool { return v.ID == id }); i >= 0 && reflect.DeepEqual(volumes[i].Rates, r.Rates) {
			continue
		}
		if err := StopVolume(tx, at, id); err != nil {
			return err
		}
		delete(open, id)
	}
	for _, v := range volumes {
		if _, there := open[v.ID]; there {
			continue
		}
		if err := StartVolume(tx, at, v); err != nil {
			return err
		}
	}
	return nil
}

// openVolumes returns the volumes with running spans, by id.
func openVolumes(tx *sqldb.Tx) (open map[string]Resource, err error) {
	rows, err := tx.Query(openSpans, string(Volume), int64(endless))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err has the error of reading
	open = map[string]Resource{}
	for rows.Next() {
		var id, doc string
		if err := rows.Scan(&id, &doc); err != nil {
			return nil, err
		}
		var r Resource
		if err := json.Unmarshal([]byte(doc), &r); err != nil {
			return nil, err
		}
		open[id] = r
	}
	return open, rows.Err()
}

// HasVolume reports whether a network volume exists or existed.
func (m *Meter) HasVolume(ctx context.Context, id string) (has bool, err error) {
	err = m.DB.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(hasVolume, id, string(Volume)).Scan(&has)
	})
	return has, err
}

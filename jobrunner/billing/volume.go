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

// A volume is billed from its creation to its deletion, whether a jobrunner runs
// or not. Its spans begin and end in the transactions that change it.

// StartVolume begins the span of a volume, which no process runs.
func StartVolume(tx *sqldb.Tx, at time.Time, r Resource) error {
	s := span{Resource: r, id: uuid.NewString(), started: at.UnixMilli()}
	return s.write(tx, "", endless)
}

// StopVolume ends the span of a volume.
func StopVolume(tx *sqldb.Tx, at time.Time, id string) error {
	_, err := tx.Exec(endSpan, at.UnixMilli(), id, string(Volume), int64(endless))
	return err
}

// SettleVolumes has the volumes that there are billed, and no others, each with its
// rates: those of an older data folder have no span yet, and prices may have
// changed.
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

// openVolumes are the volumes that are billed, by id.
func openVolumes(tx *sqldb.Tx) (open map[string]Resource, err error) {
	rows, err := tx.Query(openSpans, string(Volume), int64(endless))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // an error of reading is in Err
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

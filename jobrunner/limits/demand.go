package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// sharedSchema is the migration history of Shared's tables. They are unlogged, because their rows
// are valid only for seconds: commits don't wait for the disk, and a crashed server empties them.
var sharedSchema = []string{`
CREATE UNLOGGED TABLE admitted ( -- requests that count in the window
	key  TEXT   NOT NULL,
	slot BIGINT NOT NULL, -- of slotTime
	n    BIGINT NOT NULL,
	PRIMARY KEY (key, slot)
);
CREATE INDEX admitted_slot ON admitted (slot);
CREATE UNLOGGED TABLE open_requests ( -- that processes have, or may have
	key     TEXT   NOT NULL,
	process TEXT   NOT NULL,
	n       BIGINT NOT NULL,
	PRIMARY KEY (key, process)
);`, `
ALTER TABLE open_requests ADD COLUMN unused BIGINT NOT NULL DEFAULT 0; -- permits and slots that the process reserved; fewer may be
`}

const (
	slotTime = 50 * time.Millisecond // requests in one slot are counted together

	// selectUsed returns the requests in the window, its oldest slot, and the open and unused
	// slots of other processes.
	// Arguments: the key, the first slot of the window, the key, and this process.
	selectUsed = `SELECT a.n, a.oldest, o.n, o.unused FROM
		(SELECT COALESCE(CAST(SUM(n) AS BIGINT), 0) AS n, COALESCE(MIN(slot), 0) AS oldest FROM admitted WHERE key = ? AND slot >= ?) AS a,
		(SELECT COALESCE(CAST(SUM(n) AS BIGINT), 0) AS n, COALESCE(CAST(SUM(unused) AS BIGINT), 0) AS unused
			FROM open_requests WHERE key = ? AND process <> ? AND process IN (SELECT id FROM processes)) AS o`
	addAdmitted = `INSERT INTO admitted (key, slot, n) VALUES (?, ?, ?) ON CONFLICT (key, slot) DO UPDATE SET n = admitted.n + excluded.n`
	// Arguments: the key, the process, its slots, and its unused permits and slots.
	setOpen = `INSERT INTO open_requests (key, process, n, unused) VALUES (?, ?, ?, ?) ON CONFLICT (key, process) DO UPDATE SET n = excluded.n, unused = excluded.unused`

	deleteAdmitted = `DELETE FROM admitted WHERE slot < ?`
	deleteOpen     = `DELETE FROM open_requests WHERE n = 0 AND unused = 0 OR process NOT IN (SELECT id FROM processes)`
)

func slotOf(t time.Time) int64 { return t.UnixNano() / int64(slotTime) }

// firstSlot returns the first slot of the window that ends now.
func firstSlot(now time.Time) int64 { return slotOf(now.Add(-Window)) }

// demand is a process's demand for a key's permits and slots.
type demand struct {
	text, process string // text is Key.text
	limit         Limit
	running       func() int
	expired, held int   // expired permits to return, and valid ones
	heldSlot      int64 // slot in which they count
	returnAll     bool  // return all unused permits and slots
	open          int   // requests in flight in this process
	slots, unused int   // of this process, as in the database
	requests      int   // waiting requests
	extraPermits  int   // permits to reserve for later requests
	extraSlots    int   // slots to reserve for later requests
}

// grant is the database's response to a demand.
type grant struct {
	admitted int       // waiting requests, from the first on
	exceeded *Exceeded // error of the other requests
	permits  int       // new permits; negative: returned
	slot     int64     // slot in which they count
	until    time.Time // end of their validity
	slots    int       // total of the process
	unused   int       // total of the process
	scarce   bool      // see reserve.scarce
	others   int       // unused permits and slots of other processes
	announce bool      // ask the other processes to return them
}

// apply admits requests within the limits, and reserves or returns permits and slots.
func (s *Shared) apply(q demand) (got grant, err error) {
	limit := q.limit
	err = s.DB.Write(context.Background(), func(tx *sqldb.Tx) error {
		got = grant{}
		if err := tx.Lock("limit " + q.text); err != nil {
			return err
		}
		if q.expired > 0 {
			if err := tx.Later(addAdmitted, q.text, q.heldSlot, -q.expired); err != nil {
				return err
			}
		}
		var used, oldest, open int
		if err := tx.QueryRow(selectUsed, q.text, firstSlot(s.Clock.Now()), q.text, q.process).Scan(&used, &oldest, &open, &got.others); err != nil {
			return err
		}
		now := s.Clock.Now()
		got.slot, got.until = slotOf(now), now.Add(permitTime)
		rate := limit.Rate
		permitted := func() int { return min(q.requests, max(0, rate-used+q.held)) }
		if permitted() < q.requests && limit.PerWorker > 0 {
			rate = max(rate, q.running()*limit.PerWorker)
		}
		if got.admitted = permitted(); got.admitted < q.requests {
			after := time.Duration(int64(oldest)+1)*slotTime + Window - time.Duration(now.UnixNano())
			got.exceeded = &Exceeded{fmt.Sprintf("too many %s requests at this endpoint: %d in %s are allowed now", limit.Name, rate, Window), max(after, time.Millisecond)}
		}
		if free := max(0, limit.Concurrent-open-q.open); limit.Concurrent > 0 && got.admitted > free {
			got.admitted = free
			got.exceeded = &Exceeded{fmt.Sprintf("too many %s requests at a time at this endpoint: %d are open", limit.Name, open+q.open+free), time.Second}
		}
		got.slots, got.permits = q.open+got.admitted, max(0, got.admitted-q.held)
		reserve := q.extraPermits+q.extraSlots > 0 && !q.returnAll && got.exceeded == nil &&
			used+got.permits+q.extraPermits <= rate/2 && open+got.slots+q.extraSlots < limit.Concurrent/2
		if reserve {
			got.slots, got.permits = got.slots+q.extraSlots, got.permits+q.extraPermits
		} else {
			got.permits = got.admitted - q.held
		}
		got.scarce = !reserve
		got.unused = q.held + got.permits + got.slots - q.open - 2*got.admitted
		got.announce = got.others > 0 && (got.exceeded != nil || used+got.permits > rate/2 || open+got.slots > limit.Concurrent/2)
		if limit.Concurrent > 0 && (got.admitted > 0 || got.slots != q.slots || got.unused != q.unused) {
			if err := tx.Later(setOpen, q.text, q.process, got.slots, got.unused); err != nil {
				return err
			}
		}
		if got.permits == 0 {
			return nil
		}
		slot := got.slot
		if got.permits < 0 {
			slot = q.heldSlot
		}
		return tx.Later(addAdmitted, q.text, slot, got.permits)
	})
	return got, err
}

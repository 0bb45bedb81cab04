package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

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

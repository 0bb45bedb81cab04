package limits

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// sharedSchema is the history of the tables of Shared. What they have is true for
// seconds: a server that crashed empties them, and a commit waits for no disk.
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
);`}

const (
	slotTime = 250 * time.Millisecond

	countAdmitted = `SELECT COALESCE(CAST(SUM(n) AS BIGINT), 0), COALESCE(MIN(slot), 0) FROM admitted WHERE key = ? AND slot > ?`
	addAdmitted   = `INSERT INTO admitted (key, slot, n) VALUES (?, ?, ?) ON CONFLICT (key, slot) DO UPDATE SET n = admitted.n + excluded.n`
	// Arguments: key, process.
	countOpen = `SELECT COALESCE(CAST(SUM(n) AS BIGINT), 0) FROM open_requests WHERE key = ? AND process <> ? AND process IN (SELECT id FROM processes)`
	// Arguments: key, process, how many.
	setOpen = `INSERT INTO open_requests (key, process, n) VALUES (?, ?, ?) ON CONFLICT (key, process) DO UPDATE SET n = excluded.n`

	deleteAdmitted = `DELETE FROM admitted WHERE slot < ?`
	deleteOpen     = `DELETE FROM open_requests WHERE n = 0 OR process NOT IN (SELECT id FROM processes)`
)

// A process reserves several requests at a time while they come fast and less than half
// of a limit is used, so that most cost no statement. What it does not use in permitTime
// lapses, and is given back. A limit is never exceeded.
const (
	permitTime = time.Second
	// A limit below this is counted request by request.
	smallLimit = 100
	// So many reservations of all processes together are a whole limit.
	reservations = 16
)

// Shared is a Limiter for the processes that share a database: what it admits counts
// for all.
type Shared struct {
	db      *sqldb.DB
	clock   *clock.Clock
	process func() string
	nodes   func() int

	mu   sync.Mutex
	keys map[Key]*reserve
}

// reserve is what this process may admit of a Key by itself. While the database is asked
// it admits nothing, and requests wait in line: those that wait are asked for together.
type reserve struct {
	asking bool
	line   []chan error    // requests
	gives  []chan struct{} // those that are over, whose slots are to be given back

	permits int       // requests
	until   time.Time // their end
	slot    int64     // in which they count
	chunk   int       // how many were reserved last
	slots   int       // requests at a time
	open    int       // of these, those in flight
	process string    // that has the slots
	scarce  bool      // more than half of the slots of all processes are in use
}

// NewShared prepares the tables. process is the id of this process among those that
// share the database, and nodes how many there are.
func NewShared(ctx context.Context, db *sqldb.DB, c *clock.Clock, process func() string, nodes func() int) (*Shared, error) {
	if err := db.Migrate(ctx, "limits", sharedSchema); err != nil {
		return nil, err
	}
	return &Shared{db: db, clock: c, process: process, nodes: nodes, keys: map[Key]*reserve{}}, nil
}

// Admit is Admit of Limiter. An error that is no *Exceeded is the database's, or ctx's.
func (s *Shared) Admit(ctx context.Context, k Key, running func() int) (done func(), err error) {
	if k.Operation == Unlimited {
		return func() {}, nil
	}
	s.mu.Lock()
	r := s.keys[k]
	if r == nil {
		r = &reserve{}
		s.keys[k] = r
	}
	if r.admit(s.clock.Now(), Table[k.Operation].Concurrent > 0, s.process()) {
		s.mu.Unlock()
		return func() { s.release(k, r) }, nil
	}
	answer := make(chan error, 1)
	r.line = append(r.line, answer)
	s.serve(k, r, running)
	s.mu.Unlock()
	select {
	case err = <-answer:
	case <-ctx.Done():
		go func() {
			if <-answer == nil { // it was admitted, and nobody is there any more
				s.release(k, r)
			}
		}()
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return func() { s.release(k, r) }, nil
}

// admit admits a request of those that are reserved. The limiter is locked.
func (r *reserve) admit(now time.Time, concurrent bool, process string) bool {
	return !r.asking && r.reserved(now, concurrent, process)
}

// reserved is admit between two questions to the database.
func (r *reserve) reserved(now time.Time, concurrent bool, process string) bool {
	if r.permits == 0 || !now.Before(r.until) || concurrent && (r.open >= r.slots || r.process != process) {
		return false
	}
	r.permits--
	r.open++
	return true
}

// release ends a request. Its slot is given back where few are left, the limit is small,
// or no other request is in flight here.
func (s *Shared) release(k Key, r *reserve) {
	s.mu.Lock()
	r.open--
	if Table[k.Operation].Concurrent == 0 || r.slots <= r.open || !r.scarce && r.open > 0 {
		s.mu.Unlock()
		return
	}
	given := make(chan struct{})
	r.gives = append(r.gives, given)
	s.serve(k, r, nil)
	s.mu.Unlock()
	<-given
}

// serve asks the database, one time after the other, until nobody waits. The limiter is
// locked.
func (s *Shared) serve(k Key, r *reserve, running func() int) {
	if r.asking {
		return
	}
	r.asking = true
	go func() {
		for {
			s.mu.Lock()
			for len(r.line) > 0 && r.reserved(s.clock.Now(), Table[k.Operation].Concurrent > 0, s.process()) {
				r.line[0] <- nil
				r.line = r.line[1:]
			}
			line, gives := r.line, r.gives
			r.line, r.gives = nil, nil
			if len(line)+len(gives) == 0 {
				r.asking = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			if len(line) > 0 {
				s.ask(k, r, line, running)
			} else {
				s.giveBack(k, r)
			}
			for _, given := range gives {
				close(given)
			}
		}
	}()
}

func (k Key) text() string { return Table[k.Operation].Name + " " + k.Endpoint + " " + k.User }

// takeLapsed takes the permits that nobody used in time. The limiter is locked.
func (r *reserve) takeLapsed(now time.Time) (n int, slot int64) {
	if r.permits > 0 && !now.Before(r.until) {
		n, r.permits = r.permits, 0
	}
	return n, r.slot
}

// grow says how many permits and slots to reserve beside those that are needed: the
// more, the faster the last ones were used. The limiter is locked.
func (r *reserve) grow(limit Limit, nodes int, now time.Time) (chunk, spare int) {
	switch {
	case r.permits > 0: // slots are what is missing
	case now.Before(r.until) && limit.Rate > smallLimit:
		r.chunk = min(2*r.chunk+1, limit.Rate/(reservations*nodes))
		chunk = r.chunk
	default:
		r.chunk = 0
	}
	if r.chunk > 0 && limit.Concurrent > smallLimit {
		spare = min(r.chunk, limit.Concurrent/(reservations*nodes))
	}
	return chunk, spare
}

// ask asks the database to admit the requests in a line, and reserves others. Those that
// exceed a limit at this moment are refused, the last first.
func (s *Shared) ask(k Key, r *reserve, line []chan error, running func() int) {
	limit, process := Table[k.Operation], s.process()
	s.mu.Lock()
	q := question{text: k.text(), process: process, limit: limit, rate: limit.Rate, open: r.open, requests: len(line)}
	q.lapsed, q.lapsedSlot = r.takeLapsed(s.clock.Now())
	q.held = r.permits
	q.chunk, q.spare = r.grow(limit, max(1, s.nodes()), s.clock.Now())
	s.mu.Unlock()
	got, err := s.put(q)
	if err == nil && got.overRate && limit.PerWorker > 0 && running != nil {
		if more := running() * limit.PerWorker; more > q.rate {
			q.rate, q.lapsed = more, 0
			got, err = s.put(q)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		for _, waiting := range line {
			waiting <- err
		}
		return
	}
	if got.admitted > 0 {
		if r.permits == 0 {
			r.until, r.slot = got.until, got.slot
		}
		r.permits += got.permits - got.admitted
		r.process, r.slots, r.scarce = process, got.slots, got.scarce
		r.open += got.admitted
	}
	for i, waiting := range line {
		if i < got.admitted {
			waiting <- nil
		} else {
			waiting <- got.exceeded
		}
	}
}

// question is what the database is asked.
type question struct {
	text, process string
	limit         Limit
	rate          int
	lapsed        int // permits to give back
	lapsedSlot    int64
	held          int // permits that are there
	open          int // requests in flight here
	requests      int // that wait
	chunk, spare  int // permits and slots to reserve
}

// outcome is what the database says.
type outcome struct {
	admitted int // of the requests that wait
	exceeded *Exceeded
	overRate bool
	permits  int // new ones
	slot     int64
	until    time.Time
	slots    int
	scarce   bool
}

func (s *Shared) put(q question) (got outcome, err error) {
	limit := q.limit
	err = s.db.Write(context.Background(), func(tx *sqldb.Tx) error {
		got = outcome{}
		if err := tx.Alone("limit " + q.text); err != nil {
			return err
		}
		now := s.clock.Now()
		got.slot, got.until = now.UnixNano()/int64(slotTime), now.Add(permitTime)
		if q.lapsed > 0 {
			if err := tx.Later(addAdmitted, q.text, q.lapsedSlot, -q.lapsed); err != nil {
				return err
			}
		}
		var used, oldest, others int
		if err := tx.QueryRow(countAdmitted, q.text, got.slot-int64(Window/slotTime)).Scan(&used, &oldest); err != nil {
			return err
		}
		if limit.Concurrent > 0 {
			if err := tx.QueryRow(countOpen, q.text, q.process).Scan(&others); err != nil {
				return err
			}
		}
		got.admitted = min(q.requests, max(0, q.rate-used+q.held))
		if got.overRate = got.admitted < q.requests; got.overRate {
			after := time.Duration(int64(oldest)+1)*slotTime + Window - time.Duration(now.UnixNano())
			got.exceeded = &Exceeded{fmt.Sprintf("too many %s requests at this endpoint: %d in %s are allowed now", limit.Name, q.rate, Window), max(after, time.Millisecond)}
		}
		if free := max(0, limit.Concurrent-others-q.open); limit.Concurrent > 0 && got.admitted > free {
			got.admitted = free
			got.exceeded = &Exceeded{fmt.Sprintf("too many %s requests at a time at this endpoint: %d are open", limit.Name, others+q.open+free), time.Second}
		}
		if got.admitted == 0 {
			return nil
		}
		got.permits = max(0, got.admitted-q.held)
		if used+got.permits+q.chunk <= q.rate/2 {
			got.permits += q.chunk
		}
		got.slots, got.scarce = q.open+got.admitted, true
		if q.spare > 0 && others+got.slots+q.spare < limit.Concurrent/2 {
			got.slots, got.scarce = got.slots+q.spare, false
		}
		if limit.Concurrent > 0 {
			if err := tx.Later(setOpen, q.text, q.process, got.slots); err != nil {
				return err
			}
		}
		if got.permits == 0 {
			return nil
		}
		return tx.Later(addAdmitted, q.text, got.slot, got.permits)
	})
	return got, err
}

// giveBack gives the slots back that no request has. One that fails is given back by
// Sweep.
func (s *Shared) giveBack(k Key, r *reserve) {
	s.mu.Lock()
	slots, process := r.open, r.process
	s.mu.Unlock()
	err := s.db.Write(context.Background(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(setOpen, k.text(), process, slots)
		return err
	})
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.slots = slots
}

// Sweep gives back what this process has reserved and does not use, and with all deletes
// the rows that count no more.
func (s *Shared) Sweep(ctx context.Context, all bool) error {
	s.mu.Lock()
	type permits struct {
		n    int
		slot int64
	}
	lapsed, given := map[Key]permits{}, []chan struct{}(nil)
	for k, r := range s.keys {
		if r.asking || s.clock.Now().Before(r.until) {
			continue
		}
		if n, slot := r.takeLapsed(s.clock.Now()); n > 0 {
			lapsed[k] = permits{n, slot}
		}
		if r.open < r.slots && Table[k.Operation].Concurrent > 0 {
			done := make(chan struct{})
			r.gives, given = append(r.gives, done), append(given, done)
			s.serve(k, r, nil)
		} else if r.open == 0 {
			delete(s.keys, k)
		}
	}
	s.mu.Unlock()
	for _, done := range given {
		<-done
	}
	for k, p := range lapsed {
		err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
			_, err := tx.Exec(addAdmitted, k.text(), p.slot, -p.n)
			return err
		})
		if err != nil {
			return err // they count until the window is over
		}
	}
	if !all {
		return nil
	}
	first := s.clock.Now().UnixNano()/int64(slotTime) - int64(Window/slotTime)
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Later(deleteAdmitted, first); err != nil {
			return err
		}
		_, err := tx.Exec(deleteOpen)
		return err
	})
}

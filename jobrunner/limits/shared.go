package limits

import (
	"context"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// While requests arrive fast and less than half of a limit is used, a process reserves
// several requests at once, so that most requests need no statement. A reservation is a
// permit, which counts as a request in the window, and a slot, which counts as a concurrent
// request. Unused permits expire after permitTime and are returned. Once more than half of the
// limit is used, a process that needs them makes the others return them earlier.
//
// A limit is never exceeded. A request is rejected only if the other processes return too few
// unused reservations within returnTries.
const (
	permitTime  = time.Second
	returnPause = 5 * time.Millisecond // before the next try
	returnTries = 20
	// smallLimit is the largest limit for which nothing is reserved.
	smallLimit = 100
	// A process reserves at most limit / (reserveDivisor × number of processes) at once.
	reserveDivisor = 16
)

// Shared is a Limiter whose limits apply to all processes on a database together.
type Shared struct {
	SharedConfig

	mu   sync.Mutex
	keys map[Key]*reserve
}

type SharedConfig struct {
	DB      *sqldb.DB
	Clock   *clock.Clock
	Process func() string // this process's id on the shared database
	Nodes   func() int    // number of processes
	// Announce makes the other processes call ReturnUnused. It must not block, and its message
	// may be lost.
	Announce func(key string)
}

// reserve has a process's permits and slots of a Key. While a statement runs, requests wait
// in line, and the next statement serves all of them.
type reserve struct {
	querying  bool
	line      []*request
	returns   []chan struct{} // ended requests that wait until their slots are returned
	returnAll bool            // another process needs the unused permits and slots

	permits int       // requests that this process may admit
	until   time.Time // end of their validity
	slot    int64     // slot of the window in which they count
	chunk   int       // number of permits in the last reservation
	slots   int       // concurrent requests that this process may admit
	open    int       // requests in flight
	process string    // id under which the slots were reserved
	unused  int       // unused permits and slots, as in the database
	scarce  bool      // return slots as soon as their requests end
}

type request struct {
	answer  chan error
	running func() int // workers
	tries   int
}

// NewShared migrates the tables.
func NewShared(ctx context.Context, c SharedConfig) (*Shared, error) {
	if err := c.DB.Migrate(ctx, "limits", sharedSchema); err != nil {
		return nil, err
	}
	return &Shared{SharedConfig: c, keys: map[Key]*reserve{}}, nil
}

// Admit is Limiter.Admit. An error that isn't an *Exceeded comes from the database or ctx.
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
	if !r.querying && r.useReserved(s.Clock.Now(), Table[k.Operation].Concurrent > 0, s.Process()) {
		s.mu.Unlock()
		return func() { s.release(k, r) }, nil
	}
	answer := make(chan error, 1)
	r.line = append(r.line, &request{answer: answer, running: running})
	s.serve(k, r)
	s.mu.Unlock()
	select {
	case err = <-answer:
	case <-ctx.Done():
		go func() {
			if <-answer == nil { // admitted after its caller has left
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

// useReserved admits a request with a reserved permit and slot. The limiter is locked.
func (r *reserve) useReserved(now time.Time, concurrent bool, process string) bool {
	if r.permits == 0 || !now.Before(r.until) || concurrent && (r.open >= r.slots || r.process != process) {
		return false
	}
	r.permits--
	r.open++
	return true
}

// release ends a request. It returns unused slots if slots are scarce, or if no other
// request is in flight in this process.
func (s *Shared) release(k Key, r *reserve) {
	s.mu.Lock()
	r.open--
	if Table[k.Operation].Concurrent == 0 || r.slots <= r.open || !r.scarce && r.open > 0 {
		s.mu.Unlock()
		return
	}
	returned := make(chan struct{})
	r.returns = append(r.returns, returned)
	s.serve(k, r)
	s.mu.Unlock()
	<-returned
}

// ReturnUnused returns the unused permits and slots of a key to the database, because
// another process has announced that it needs them. It doesn't block.
func (s *Shared) ReturnUnused(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, r := range s.keys {
		if r.unused > 0 && k.text() == key {
			r.returnAll = true
			s.serve(k, r)
			return
		}
	}
}

// serve starts a goroutine that runs statements until no request waits, unless one is already
// running. The limiter is locked.
func (s *Shared) serve(k Key, r *reserve) {
	if r.querying {
		return
	}
	r.querying = true
	go func() {
		for {
			s.mu.Lock()
			for len(r.line) > 0 && r.useReserved(s.Clock.Now(), Table[k.Operation].Concurrent > 0, s.Process()) {
				r.line[0].answer <- nil
				r.line = r.line[1:]
			}
			line, returns, returnAll := r.line, r.returns, r.returnAll
			r.line, r.returns, r.returnAll = nil, nil, false
			if len(line)+len(returns) == 0 && !returnAll {
				r.querying = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			wait := false
			if len(line) > 0 {
				wait = s.admitLine(k, r, line, returnAll)
			} else {
				s.returnUnused(k, r, returnAll)
			}
			for _, returned := range returns {
				close(returned)
			}
			if wait {
				time.Sleep(returnPause)
			}
		}
	}()
}

func (k Key) text() string { return Table[k.Operation].Name + " " + k.Endpoint + " " + k.User }

// removeExpired removes and returns the expired permits. The limiter is locked.
func (r *reserve) removeExpired(now time.Time) (n int, slot int64) {
	if r.permits > 0 && !now.Before(r.until) {
		n, r.permits = r.permits, 0
	}
	return n, r.slot
}

// grow returns how many permits and slots to reserve for later requests. requests is the number
// of waiting requests. The reservation doubles if the last permits were used up before they
// expired. The limiter is locked.
func (r *reserve) grow(limit Limit, requests, nodes int, now time.Time) (extraPermits, extraSlots int) {
	switch {
	case r.permits > 0: // only slots are missing
	case now.Before(r.until) && limit.Rate > smallLimit:
		r.chunk = min(2*r.chunk+1, limit.Rate/(reserveDivisor*nodes))
		extraPermits = r.chunk
	default:
		r.chunk = 0
	}
	if r.chunk > 0 && limit.Concurrent > smallLimit {
		extraSlots = min(r.chunk, limit.Concurrent/(reserveDivisor*nodes))
	}
	return max(0, extraPermits-requests), max(0, extraSlots-requests)
}

// admitLine admits the requests in a line with one transaction, which also makes a
// reservation unless returnAll is true. If the limit doesn't suffice for all, it rejects the
// last requests. But while other processes have unused reservations, it keeps these requests
// in line for at most returnTries, and returns wait: the caller must pause before the next try.
func (s *Shared) admitLine(k Key, r *reserve, line []*request, returnAll bool) (wait bool) {
	limit := Table[k.Operation]
	s.mu.Lock()
	q := demand{
		text: k.text(), process: s.Process(), limit: limit, running: line[0].running, returnAll: returnAll,
		open: r.open, slots: r.slots, unused: r.unused, requests: len(line),
	}
	if r.process != q.process { // the slots of the old id no longer count
		q.slots, q.unused = 0, 0
	}
	q.expired, q.heldSlot = r.removeExpired(s.Clock.Now())
	q.held = r.permits
	q.extraPermits, q.extraSlots = r.grow(limit, len(line), max(1, s.Nodes()), s.Clock.Now())
	s.mu.Unlock()
	got, err := s.apply(q)
	if err == nil && got.announce {
		s.Announce(q.text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		for _, waiting := range line {
			waiting.answer <- err
		}
		return false
	}
	if q.held == 0 && got.admitted > 0 {
		r.until, r.slot = got.until, got.slot
	}
	r.permits += got.permits - got.admitted
	r.process, r.slots, r.unused, r.scarce = q.process, got.slots, got.unused, got.scarce
	r.open += got.admitted
	var stay []*request
	for i, waiting := range line {
		waiting.tries++
		switch {
		case i < got.admitted:
			waiting.answer <- nil
		case got.others > 0 && waiting.tries < returnTries:
			stay = append(stay, waiting)
		default:
			waiting.answer <- got.exceeded
		}
	}
	r.line = append(stay, r.line...)
	return len(stay) > 0
}

// returnUnused returns the unused slots and the expired permits, or all permits if all is
// true. If it fails, Sweep returns the slots later, and the permits count until the window ends.
func (s *Shared) returnUnused(k Key, r *reserve, all bool) {
	s.mu.Lock()
	slots, process := r.open, r.process
	permits, slot := r.removeExpired(s.Clock.Now())
	if all {
		permits, r.permits = permits+r.permits, 0
	}
	unused := r.permits
	s.mu.Unlock()
	err := s.DB.Write(context.Background(), func(tx *sqldb.Tx) error {
		if permits > 0 {
			if err := tx.Later(addAdmitted, k.text(), slot, -permits); err != nil {
				return err
			}
		}
		_, err := tx.Exec(setOpen, k.text(), process, slots, unused)
		return err
	})
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.slots, r.unused, r.scarce = slots, unused, r.scarce || all
}

// Sweep returns this process's unused slots and expired permits. If all is true, it also
// deletes outdated rows of all processes.
func (s *Shared) Sweep(ctx context.Context, all bool) error {
	s.mu.Lock()
	var returns []chan struct{}
	for k, r := range s.keys {
		if r.querying || s.Clock.Now().Before(r.until) {
			continue
		}
		if Table[k.Operation].Concurrent > 0 && (r.open < r.slots || r.unused > 0) {
			done := make(chan struct{})
			r.returns, returns = append(r.returns, done), append(returns, done)
			s.serve(k, r)
		} else if r.open == 0 {
			delete(s.keys, k)
		}
	}
	s.mu.Unlock()
	for _, done := range returns {
		<-done
	}
	if !all {
		return nil
	}
	return s.DB.Write(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Later(deleteAdmitted, firstSlot(s.Clock.Now())); err != nil {
			return err
		}
		_, err := tx.Exec(deleteOpen)
		return err
	})
}

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

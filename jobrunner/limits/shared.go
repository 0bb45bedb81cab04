package limits

import (
	"context"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// A process reserves several requests at a time while they come fast and less than half
// of a limit is used, so that most cost no statement. What it does not use in permitTime
// lapses, and is given back, and before that when another process has come to the half.
// A limit is never exceeded, and a request is refused only where no process that answers
// within returnTries has an unused reservation.
const (
	permitTime  = time.Second
	returnPause = 5 * time.Millisecond // until the database is asked again
	returnTries = 20
	// A limit below this is counted request by request.
	smallLimit = 100
	// So many reservations of all processes together are a whole limit.
	reservations = 16
)

// Shared is a Limiter for the processes that share a database: what it admits counts
// for all.
type Shared struct {
	SharedConfig

	mu   sync.Mutex
	keys map[Key]*reserve
}

// SharedConfig says what a Shared works with.
type SharedConfig struct {
	DB      *sqldb.DB
	Clock   *clock.Clock
	Process func() string // the id of this process among those that share the database
	Nodes   func() int    // how many those are
	// Announce has the others call GiveBack. It returns at once, and may be in vain.
	Announce func(key string)
}

// reserve is what this process may admit of a Key by itself. While the database is asked
// it admits nothing, and requests wait in line: those that wait are asked for together.
type reserve struct {
	asking bool
	line   []*request
	gives  []chan struct{} // of requests that are over, whose slots are to be given back
	wanted bool            // another process needs what is unused

	permits int       // requests
	until   time.Time // their end
	slot    int64     // in which they count
	chunk   int       // how many were reserved last
	slots   int       // requests at a time
	open    int       // of these, those in flight
	process string    // that has the slots
	unused  int       // that the database knows of
	scarce  bool      // slots are given back as soon as their requests are over
}

// request waits to be admitted.
type request struct {
	answer  chan error
	running func() int // workers
	tries   int        // to admit it
}

// NewShared prepares the tables.
func NewShared(ctx context.Context, c SharedConfig) (*Shared, error) {
	if err := c.DB.Migrate(ctx, "limits", sharedSchema); err != nil {
		return nil, err
	}
	return &Shared{SharedConfig: c, keys: map[Key]*reserve{}}, nil
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
	if r.admit(s.Clock.Now(), Table[k.Operation].Concurrent > 0, s.Process()) {
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
	s.serve(k, r)
	s.mu.Unlock()
	<-given
}

// GiveBack gives back what is reserved of a key and unused, which another process has
// announced that it needs. It returns at once.
func (s *Shared) GiveBack(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, r := range s.keys {
		if r.unused > 0 && k.text() == key {
			r.wanted = true
			s.serve(k, r)
			return
		}
	}
}

// serve asks the database, one time after the other, until nobody waits. The limiter is
// locked.
func (s *Shared) serve(k Key, r *reserve) {
	if r.asking {
		return
	}
	r.asking = true
	go func() {
		for {
			s.mu.Lock()
			for len(r.line) > 0 && r.reserved(s.Clock.Now(), Table[k.Operation].Concurrent > 0, s.Process()) {
				r.line[0].answer <- nil
				r.line = r.line[1:]
			}
			line, gives, wanted := r.line, r.gives, r.wanted
			r.line, r.gives, r.wanted = nil, nil, false
			if len(line)+len(gives) == 0 && !wanted {
				r.asking = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			wait := false
			if len(line) > 0 {
				wait = s.ask(k, r, line, wanted)
			} else {
				s.giveBack(k, r, wanted)
			}
			for _, given := range gives {
				close(given)
			}
			if wait {
				time.Sleep(returnPause)
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

// grow says how many permits and slots to reserve beside those for requests in line: at a
// time the more, the faster the last ones were used. The limiter is locked.
func (r *reserve) grow(limit Limit, requests, nodes int, now time.Time) (chunk, spare int) {
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
	return max(0, chunk-requests), max(0, spare-requests)
}

// ask asks the database to admit the requests in a line, and reserves others, unless what
// is unused is wanted elsewhere. Those that exceed a limit at this moment are refused, the
// last first; but while other processes have unused reservations they stay in line, and
// ask tells to wait.
func (s *Shared) ask(k Key, r *reserve, line []*request, wanted bool) (wait bool) {
	limit := Table[k.Operation]
	s.mu.Lock()
	q := question{
		text: k.text(), process: s.Process(), limit: limit, running: line[0].running, wanted: wanted,
		open: r.open, slots: r.slots, unused: r.unused, requests: len(line),
	}
	if r.process != q.process { // the database has forgotten what the former one had
		q.slots, q.unused = 0, 0
	}
	q.lapsed, q.heldSlot = r.takeLapsed(s.Clock.Now())
	q.held = r.permits
	q.chunk, q.spare = r.grow(limit, len(line), max(1, s.Nodes()), s.Clock.Now())
	s.mu.Unlock()
	got, err := s.put(q)
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

// giveBack gives the slots back that no request has, and the permits that lapsed, or all
// that are wanted elsewhere. What fails is given back by Sweep, or counts until the window
// is over.
func (s *Shared) giveBack(k Key, r *reserve, wanted bool) {
	s.mu.Lock()
	slots, process := r.open, r.process
	permits, slot := r.takeLapsed(s.Clock.Now())
	if wanted {
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
	r.slots, r.unused, r.scarce = slots, unused, r.scarce || wanted
}

// Sweep gives back what this process has reserved and does not use, and with all deletes
// the rows that count no more.
func (s *Shared) Sweep(ctx context.Context, all bool) error {
	s.mu.Lock()
	var given []chan struct{}
	for k, r := range s.keys {
		if r.asking || s.Clock.Now().Before(r.until) {
			continue
		}
		if Table[k.Operation].Concurrent > 0 && (r.open < r.slots || r.unused > 0) {
			done := make(chan struct{})
			r.gives, given = append(r.gives, done), append(given, done)
			s.serve(k, r)
		} else if r.open == 0 {
			delete(s.keys, k)
		}
	}
	s.mu.Unlock()
	for _, done := range given {
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

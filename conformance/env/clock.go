package env

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Clock is the time that the target goes by. Cases read it and wait on it, and
// on nothing else.
type Clock interface {
	Now() time.Time
	// Latest is Now or, while the clock is being advanced, the time that it is advanced to:
	// what the target does meanwhile occurs between the two.
	Latest() time.Time
	// Until waits until a time of the clock. A case that waits lets others run.
	Until(ctx context.Context, t time.Time) error
	// Expect announces so many calls of Begin: the clock is not advanced before them.
	Expect(n int)
	// Begin waits for a turn and takes it; End gives it back. Between them the
	// clock is not advanced, but for the time in which the holder is in Until.
	Begin(ctx context.Context) error
	End()
}

// Real is the real-time clock, for targets whose clock can't be advanced, and for
// those that run in a testing/synctest bubble together with the suite.
//
// A case that wakes continues at once, however many others run: one that had to wait
// for a turn would check too late. The limit holds for new cases.
type Real struct {
	limit int

	mu      sync.Mutex
	running int
	waiting []chan struct{} // of Begin, closed when the turn is there
}

// NewReal returns a clock for so many cases at a time.
func NewReal(parallel int) *Real { return &Real{limit: max(parallel, 1)} }

// Now and Latest return the time.
func (r *Real) Now() time.Time    { return time.Now() }
func (r *Real) Latest() time.Time { return time.Now() }

// Expect implements Clock.
func (r *Real) Expect(int) {}

// Begin implements Clock.
func (r *Real) Begin(ctx context.Context) error {
	turn := make(chan struct{})
	r.mu.Lock()
	r.waiting = append(r.waiting, turn)
	r.startNext()
	r.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.waiting, turn); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		return ctx.Err()
	}
	r.running-- // the turn came meanwhile
	r.startNext()
	return ctx.Err()
}

// End implements Clock.
func (r *Real) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.startNext()
}

// startNext gives free turns to cases that wait to begin.
func (r *Real) startNext() {
	for r.running < r.limit && len(r.waiting) > 0 {
		close(r.waiting[0])
		r.waiting = r.waiting[1:]
		r.running++
	}
}

// Until implements Clock.
func (r *Real) Until(ctx context.Context, t time.Time) error {
	r.End()
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running++
	return ctx.Err()
}

// Shared is the clock of a target whose time can be advanced, shared by all
// cases that run on it. Cases run side by side in real time, a few at a time,
// and sleep in the target's. Only when every one of them sleeps is the clock
// advanced, to the earliest time that one of them waits for: half an hour costs
// the milliseconds that the target needs for it, and what a case sees does not
// depend on which others run.
//
// Where the target's time also passes by itself, a case whose time has come continues at
// once, as on a Real clock: if it waited for the others, it would check too late.
type Shared struct {
	// advance is the target's: it moves the time on by at least d and says what it
	// is then.
	advance func(ctx context.Context, d time.Duration) (time.Time, error)
	limit   int // of cases that run at a time

	still bool // the target's time moves by advance alone

	mu        sync.Mutex
	told      time.Time // the target's time when it was last told
	at        time.Time // that on the wall then
	expected  int       // of those that have not begun
	running   int
	ready     []chan struct{} // these wait for a turn
	sleepers  map[*sleeper]bool
	advancing bool
	step      time.Duration // by which the clock is being advanced
	broken    error         // why the clock can't be advanced any more
	steps     int
}

type sleeper struct {
	until time.Time
	woken chan struct{} // closed when the sleeper has a turn again
	err   error
}

// wakeSlack is how late a sleeper may be woken, so that sleepers with almost the same
// time are woken together.
const wakeSlack = 50 * time.Millisecond

// NewShared asks the target for its time.
func NewShared(ctx context.Context, parallel int, t *Target) (*Shared, error) {
	now, err := t.Advance(ctx, time.Millisecond)
	if err != nil {
		return nil, err
	}
	return &Shared{
		advance: t.Advance, limit: max(parallel, 1), still: t.ClockStopped, told: now, at: time.Now(), sleepers: map[*sleeper]bool{},
	}, nil
}

// Now is the target's time.
func (s *Shared) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// Latest implements Clock. A clock that moves only when it is advanced is exact, so that
// Latest is Now.
func (s *Shared) Latest() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.still || !s.advancing {
		return s.now()
	}
	return s.now().Add(s.step)
}

func (s *Shared) now() time.Time {
	if s.still {
		return s.told
	}
	return s.told.Add(time.Since(s.at))
}

// Steps returns how often the clock was advanced.
func (s *Shared) Steps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps
}

// Expect implements Clock.
func (s *Shared) Expect(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected += n
}

// Begin implements Clock.
func (s *Shared) Begin(ctx context.Context) error {
	turn := make(chan struct{})
	s.mu.Lock()
	s.expected = max(s.expected-1, 0)
	s.giveTurn(turn)
	s.mu.Unlock()
	<-turn // those who have a turn end it or sleep: it does not take long
	if ctx.Err() != nil {
		s.End()
	}
	return ctx.Err()
}

// End implements Clock.
func (s *Shared) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returnTurn()
}

// giveTurn queues for a turn, and gives it at once where one is free. No turn is given
// while the clock is being advanced.
func (s *Shared) giveTurn(turn chan struct{}) {
	s.ready = append(s.ready, turn)
	s.dispatch()
}

// returnTurn frees a turn.
func (s *Shared) returnTurn() {
	s.running--
	s.dispatch()
}

// dispatch gives the free turns, or advances the clock where all cases sleep.
func (s *Shared) dispatch() {
	if s.advancing {
		return
	}
	for s.running < s.limit && len(s.ready) > 0 {
		close(s.ready[0])
		s.ready = s.ready[1:]
		s.running++
	}
	if s.running == 0 && s.expected == 0 && len(s.sleepers) > 0 {
		s.advancing = true
		go s.advanceToNext()
	}
}

// Until implements Clock.
func (s *Shared) Until(ctx context.Context, t time.Time) error {
	s.mu.Lock()
	if s.broken != nil {
		defer s.mu.Unlock()
		return s.broken
	}
	me := &sleeper{until: t, woken: make(chan struct{})}
	if !s.still {
		due := time.AfterFunc(t.Sub(s.now()), func() { s.wakeDue(me) })
		defer due.Stop()
	}
	s.sleepers[me] = true
	s.returnTurn()
	s.mu.Unlock()
	select {
	case <-me.woken:
		return me.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	if s.sleepers[me] {
		s.wakeSleeper(me)
	}
	s.mu.Unlock()
	<-me.woken
	return ctx.Err()
}

// advanceToNext advances the clock to the earliest sleepers and wakes them.
func (s *Shared) advanceToNext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		s.advancing = false
		s.dispatch()
	}()
	target, some := s.nextTarget()
	if !some {
		return
	}
	if d := target.Sub(s.now()); d > 0 {
		s.steps++
		s.step = d
		s.mu.Unlock()
		now, err := s.advance(context.Background(), d)
		s.mu.Lock()
		if err != nil {
			s.broken = err
		} else {
			s.told, s.at = now, time.Now()
		}
	}
	now := s.now()
	for one := range s.sleepers {
		if s.broken != nil || !one.until.After(now) {
			one.err = s.broken
			s.wakeSleeper(one)
		}
	}
}

// nextTarget returns the time of the earliest sleeper, or a little later where others
// follow closely.
func (s *Shared) nextTarget() (target time.Time, some bool) {
	var first time.Time
	for one := range s.sleepers {
		if first.IsZero() || one.until.Before(first) {
			first = one.until
		}
	}
	for one := range s.sleepers {
		if one.until.After(target) && one.until.Sub(first) <= wakeSlack {
			target = one.until
		}
	}
	return target, !first.IsZero()
}

// wakeSleeper queues a sleeper for its turn or, where time does not stand still, gives it
// one at once.
func (s *Shared) wakeSleeper(one *sleeper) {
	delete(s.sleepers, one)
	if s.still {
		s.giveTurn(one.woken)
		return
	}
	s.running++
	close(one.woken)
}

// wakeDue wakes a sleeper whose time has come while other cases run. During an advance,
// advanceToNext wakes it.
func (s *Shared) wakeDue(one *sleeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sleepers[one] && !s.advancing {
		s.wakeSleeper(one)
	}
}

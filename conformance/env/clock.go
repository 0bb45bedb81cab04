package env

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Clock is the target's clock. Cases use no other time.
type Clock interface {
	Now() time.Time
	// Latest is Now or, during an advance, the time to which the clock is advanced. Effects
	// during an advance happen between Now and Latest.
	Latest() time.Time
	// Until waits until a time of the clock. Other cases run meanwhile.
	Until(ctx context.Context, t time.Time) error
	// Expect announces n calls of Begin. The clock isn't advanced before these.
	Expect(n int)
	// Begin waits for a turn, and End returns it. The clock isn't advanced while a case
	// holds a turn, except while the case is in Until.
	Begin(ctx context.Context) error
	End()
}

// Real is the real-time clock. It is for targets whose clock can't be advanced, and for
// targets that run in a testing/synctest bubble together with the suite.
//
// A case that wakes continues at once, even if the limit is reached: waiting for a turn
// would make it check too late. The limit applies to new cases.
type Real struct {
	limit int

	mu      sync.Mutex
	running int
	waiting []chan struct{} // by Begin; each is closed when its case gets a turn
}

// NewReal returns a clock that lets parallel cases run at a time.
func NewReal(parallel int) *Real { return &Real{limit: max(parallel, 1)} }

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
	r.running-- // the case got a turn meanwhile
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
	select {
	case <-time.After(time.Until(t)):
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running++
	return ctx.Err()
}

// Shared is the clock of a target whose time can be advanced. Cases run concurrently in
// real time, up to a limit, and sleep in the target's time. The clock is advanced only when
// all cases sleep, to the earliest time for which a case waits. So half an hour takes
// milliseconds, and what a case sees doesn't depend on the other cases.
//
// If the target's time also passes by itself, a case continues as soon as its time has
// come, as on a Real clock. Waiting for the others would make it check too late.
type Shared struct {
	// advance advances the target's clock by at least d and returns its new time.
	advance func(ctx context.Context, d time.Duration) (time.Time, error)
	limit   int // the maximum number of concurrent cases

	stopped bool // only advance moves the target's clock

	mu        sync.Mutex
	lastTime  time.Time // the last time that the target reported
	readAt    time.Time // the real time of that report
	expected  int       // cases that have not begun
	running   int
	ready     []chan struct{} // the queue of cases that wait for a turn
	sleepers  map[*sleeper]bool
	advancing bool
	step      time.Duration // the length of the current advance
	broken    error         // why the last advance failed
}

type sleeper struct {
	until time.Time
	woken chan struct{} // closed when the sleeper gets its next turn
	err   error
}

// wakeSlack is how late a sleeper may be woken. Sleepers with almost the same time are
// woken together.
const wakeSlack = 50 * time.Millisecond

// NewShared returns a clock with the target's time, which it requests.
func NewShared(ctx context.Context, parallel int, t *Target) (*Shared, error) {
	now, err := t.Advance(ctx, time.Millisecond)
	if err != nil {
		return nil, err
	}
	return &Shared{
		advance: t.Advance, limit: max(parallel, 1), stopped: t.ClockStopped, lastTime: now, readAt: time.Now(), sleepers: map[*sleeper]bool{},
	}, nil
}

// Now implements Clock.
func (s *Shared) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// Latest implements Clock. A stopped clock has its new time only after the advance.
func (s *Shared) Latest() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || !s.advancing {
		return s.now()
	}
	return s.now().Add(s.step)
}

func (s *Shared) now() time.Time {
	if s.stopped {
		return s.lastTime
	}
	return s.lastTime.Add(time.Since(s.readAt))
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
	<-turn // short: each holder ends its turn or sleeps
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

// giveTurn queues for a turn, which is granted by dispatch.
func (s *Shared) giveTurn(turn chan struct{}) {
	s.ready = append(s.ready, turn)
	s.dispatch()
}

func (s *Shared) returnTurn() {
	s.running--
	s.dispatch()
}

// dispatch grants the free turns, or advances the clock if all cases sleep. No turn is
// granted while the clock is advanced.
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
	self := &sleeper{until: t, woken: make(chan struct{})}
	if !s.stopped {
		due := time.AfterFunc(t.Sub(s.now()), func() { s.wakeDue(self) })
		defer due.Stop()
	}
	s.sleepers[self] = true
	s.returnTurn()
	s.mu.Unlock()
	select {
	case <-self.woken:
		return self.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	if s.sleepers[self] {
		s.wakeSleeper(self)
	}
	s.mu.Unlock()
	<-self.woken
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
	target, ok := s.nextTarget()
	if !ok {
		return
	}
	if d := target.Sub(s.now()); d > 0 {
		s.step = d
		s.mu.Unlock()
		now, err := s.advance(context.Background(), d)
		s.mu.Lock()
		if err != nil {
			s.broken = err
		} else {
			s.lastTime, s.readAt = now, time.Now()
		}
	}
	now := s.now()
	for sl := range s.sleepers {
		if s.broken != nil || !sl.until.After(now) {
			sl.err = s.broken
			s.wakeSleeper(sl)
		}
	}
}

// nextTarget returns the time of the earliest sleeper, or up to wakeSlack later if others
// follow.
func (s *Shared) nextTarget() (target time.Time, ok bool) {
	var first time.Time
	for sl := range s.sleepers {
		if first.IsZero() || sl.until.Before(first) {
			first = sl.until
		}
	}
	for sl := range s.sleepers {
		if sl.until.After(target) && sl.until.Sub(first) <= wakeSlack {
			target = sl.until
		}
	}
	return target, !first.IsZero()
}

// wakeSleeper queues a sleeper for a turn. Unless the clock is stopped, it gets the turn at
// once.
func (s *Shared) wakeSleeper(sl *sleeper) {
	delete(s.sleepers, sl)
	if s.stopped {
		s.giveTurn(sl.woken)
		return
	}
	s.running++
	close(sl.woken)
}

// wakeDue wakes a sleeper whose time has come while other cases run. During an advance,
// advanceToNext wakes it.
func (s *Shared) wakeDue(sl *sleeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sleepers[sl] && !s.advancing {
		s.wakeSleeper(sl)
	}
}

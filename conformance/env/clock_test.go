package env_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// deployment is a target whose clock can be advanced.
type deployment struct {
	mu                sync.Mutex
	offset            time.Duration
	steps             []time.Duration
	busy              atomic.Int64 // running cases
	advancedWhileBusy atomic.Bool
	advanceErr        error
	stopped, hangs    bool
	began             time.Time
	onAdvance         func(time.Duration) // called within an advance
}

func (d *deployment) advance(ctx context.Context, by time.Duration) (time.Time, error) {
	if d.hangs {
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	}
	if d.busy.Load() > 0 {
		d.advancedWhileBusy.Store(true)
	}
	if d.onAdvance != nil {
		d.onAdvance(by)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offset += by
	d.steps = append(d.steps, by)
	if d.stopped {
		return d.began.Add(d.offset), d.advanceErr
	}
	return time.Now().Add(d.offset), d.advanceErr
}

func newClock(t *testing.T, parallel int, d *deployment, stopped bool) *env.Clock {
	t.Helper()
	if d.stopped = stopped; stopped {
		d.began = time.Now()
	}
	clock := env.NewClock(parallel)
	must.Succeed(t, clock.Control(t.Context(), &env.Target{Advance: d.advance, ClockStopped: stopped}))
	d.steps = nil // the first step only requests the time
	return clock
}

// Many cases sleep, and run for minutes. No case is woken early or late, and the clock isn't advanced while
// a case runs. If the clock is stopped, no more than limit cases run at a time.
func TestClock(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			const limit = 3
			d := new(deployment)
			d.offset = time.Hour
			clock := newClock(t, limit, d, seed%2 == 0)
			var group sync.WaitGroup
			var mu sync.Mutex
			var longest time.Duration
			clock.Announce(40)
			for n := range 40 {
				random := rand.New(rand.NewPCG(seed, uint64(n)))
				group.Go(func() {
					must.Equal(t, clock.Begin(t.Context()), nil)
					defer clock.End()
					work := func() {
						// if time passes by itself, due cases continue at once
						must.Hold(t, d.busy.Add(1) <= limit || !d.stopped, "too many cases run")
						time.Sleep(time.Duration(random.IntN(5)) * time.Minute)
						d.busy.Add(-1)
					}
					work()
					var slept time.Duration
					for range random.IntN(6) {
						sleep := time.Duration(random.Int64N(int64(24 * time.Hour)))
						until := clock.Now().Add(sleep)
						must.Equal(t, clock.Until(t.Context(), until), nil)
						late := clock.Now().Sub(until)
						must.Hold(t, late >= 0 && late <= 2*time.Second && (!d.stopped || late <= 50*time.Millisecond), "woken", late, "late")
						slept += sleep
						work()
					}
					mu.Lock()
					defer mu.Unlock()
					longest = max(longest, slept)
				})
			}
			group.Wait()
			must.Hold(t, !d.advancedWhileBusy.Load(), "the clock was advanced while a case ran")
			passed := d.offset - time.Hour
			must.Hold(t, passed <= longest+time.Minute, passed, "passed, and no case slept for more than", longest)
		})
	}
}

// If time passes by itself, a case is woken on time. An effect during an advance may be as late as its end.
func TestClockWakesOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(deployment)
		clock := newClock(t, 2, d, false)
		_ = clock.Begin(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			_ = clock.Begin(t.Context())
			defer clock.End()
			until := clock.Now().Add(5 * time.Second)
			err := clock.Until(t.Context(), until)
			must.Hold(t, err == nil && clock.Now().Equal(until), "woken late by", clock.Now().Sub(until), err)
		})
		time.Sleep(8 * time.Second) // runs for longer than the other one sleeps
		clock.End()
		group.Wait()
		must.Equal(t, d.steps, nil, "the steps")
		d.onAdvance = func(by time.Duration) { must.Equal(t, clock.Latest().Sub(clock.Now()), by, "ahead in an advance of") }
		_ = clock.Begin(t.Context())
		defer clock.End()
		_ = clock.Until(t.Context(), clock.Now().Add(time.Hour))
	})
}

// Cases that begin to wait at almost the same time are woken by one step.
func TestClockMergesSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(deployment)
		clock := newClock(t, 8, d, false)
		var group sync.WaitGroup
		clock.Announce(8)
		for n := range 8 {
			group.Go(func() {
				_ = clock.Begin(t.Context())
				defer clock.End()
				time.Sleep(time.Duration(n) * time.Millisecond)
				_ = clock.Until(t.Context(), clock.Now().Add(time.Hour))
			})
		}
		group.Wait()
		must.Hold(t, len(d.steps) == 1, "the steps are", d.steps)
	})
}

// A cancelled case stops waiting, and a clock that can't be advanced or doesn't answer ends every wait.
func TestClockEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(deployment)
		clock := newClock(t, 2, d, true)
		_ = clock.Begin(t.Context()) // keeps the clock from being advanced
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_ = clock.Begin(t.Context())
			defer clock.End()
			done <- clock.Until(ctx, clock.Now().Add(time.Hour))
		}()
		synctest.Wait()
		cancel()
		err := <-done
		must.Hold(t, errors.Is(err, context.Canceled) && len(d.steps) == 0, "ended with", err, "after the steps", d.steps)
		clock.End()
		d.advanceErr = errors.New("no clock")
		for range 2 {
			_ = clock.Begin(t.Context())
			must.ErrorIs(t, clock.Until(t.Context(), clock.Now().Add(time.Minute)), d.advanceErr, "returned")
			clock.End()
		}
		d.advanceErr = nil
		clock, d.hangs = newClock(t, 1, d, true), true
		_ = clock.Begin(t.Context())
		must.ErrorIs(t, clock.Until(t.Context(), clock.Now().Add(time.Minute)), context.DeadlineExceeded, "returned")
	})
}

// On a real-time clock, no more than the limit of cases begin, and a case that waits frees its turn.
func TestRealClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := env.NewClock(2)
		var busy atomic.Int64
		var group sync.WaitGroup
		start := time.Now()
		for range 10 {
			group.Go(func() {
				_ = clock.Begin(t.Context())
				defer clock.End()
				must.Hold(t, busy.Add(1) <= 2, "too many run")
				busy.Add(-1)
				_ = clock.Until(t.Context(), clock.Now().Add(time.Hour))
			})
		}
		group.Wait()
		must.Equal(t, time.Since(start), time.Hour, "took")
	})
}

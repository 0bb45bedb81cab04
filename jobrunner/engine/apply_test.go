package engine

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// Every event is applied in every state, before, at and after each limit in time. Only the table's transitions happen.
func TestApply(t *testing.T) {
	const deadline, deleteAt = 100, 200
	states := []State{absent, draft, InQueue, InProgress, Completed, Failed, Cancelled, TimedOut}
	// The state after an event that isn't listed here is the state before.
	table := map[eventKind]map[State]State{
		released:  {draft: InQueue},
		taken:     {InQueue: InProgress},
		completed: {InProgress: Completed},
		failed:    {InProgress: Failed},
		lost:      {InProgress: InQueue},
		returned:  {InProgress: InQueue},
		cancelled: {draft: Cancelled, InQueue: Cancelled, InProgress: Cancelled},
		retried:   {Failed: InQueue, TimedOut: InQueue},
		removal:   {draft: absent, InQueue: absent, InProgress: absent, Completed: absent, Failed: absent, Cancelled: absent, TimedOut: absent},
	}
	noTransition := map[eventKind]bool{progressed: true, ttlChanged: true} // these events apply, and the state stays
	for _, from := range states {
		for kind := timePasses; kind <= called; kind++ {
			for _, now := range []int64{deadline - 1, deadline, deadline + 1, deleteAt - 1, deleteAt, deleteAt + 1} {
				for _, staleAttempt := range []bool{false, true} {
					r := row{state: from, expiresAt: deleteAt, deleteAt: deleteAt, retention: 50, attempt: 1}
					if from == InProgress {
						r.worker, r.startedAt, r.deadline = "w", 10, deadline
					}
					due := r
					if due.apply(event{kind: timePasses}, now).ok {
						want := absent
						if from == InProgress && now < deleteAt {
							want = TimedOut
						}
						must.Equal(t, due.state, want, from, "at", now)
						continue
					}
					must.Hold(t, from == absent || now < deleteAt && (from != InProgress || now < deadline), "a job in", from, "isn't due at", now)
					ev := event{kind: kind, worker: "w", attempt: 1, timeout: 60, ttl: deleteAt, callAt: deleteAt, deleteAt: deleteAt}
					if staleAttempt {
						ev.attempt = 2
					}
					want, applies := table[kind][from]
					if report := kind >= completed && kind <= returned; report && staleAttempt {
						want, applies = from, false
					} else if !applies {
						want, applies = from, noTransition[kind] && (kind == ttlChanged && from != absent || from == InProgress)
					}
					fx := r.apply(ev, now)
					must.Hold(t, r.state == want && fx.ok == applies && fx.from == from && fx.to == want, "event", kind, "in", from, "at", now, "by a stale attempt:", staleAttempt,
						"has the effect", fx, "want the state", want, "and ok", applies)
				}
			}
		}
	}
}

// A job whose worker dies is dispatched again once.
func TestApplyLost(t *testing.T) {
	r := row{state: InQueue, deleteAt: 1000, expiresAt: 1000, retention: 1000, turn: 7}
	for attempt := 1; attempt <= 2; attempt++ {
		must.Hold(t, r.apply(event{kind: taken, worker: "w", timeout: 100}, 10).ok, "attempt", attempt, "wasn't taken")
		fx := r.apply(event{kind: lost, worker: "w", attempt: attempt, message: "it crashed"}, 20)
		if attempt == 1 {
			must.Hold(t, fx.retry && fx.clearsResult && r.state == InQueue && r.turn == 7 && r.worker == "", "the first loss has the effect", fx, "and the job is", r)
		} else {
			must.Hold(t, fx.setsResult && fx.message == "job timed out after 1 retries: it crashed" && r.state == Failed && r.execution() == 10*time.Millisecond, "the second loss has the effect", fx, "and the job is", r)
		}
	}
}

// Keys grow, differ and contain the process's number, even if the latest is another process's and in the future.
func TestKeys(t *testing.T) {
	e := &Engine{Config: Config{Clock: new(clock.Clock)}}
	e.Clock.Stop()
	e.number.Store(511)
	e.lastKey.Store((e.now()+1)<<(processBits+sequenceBits) | 510<<sequenceBits)
	var mu sync.Mutex
	seen := map[int64]bool{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			last := int64(0)
			for range 3000 { // 4 × 3000 keys: more than the numbers of a millisecond
				k := e.newKey()
				must.Hold(t, k > last && k>>sequenceBits&511 == 511, "the key after", last, "is", k)
				last = k
				mu.Lock()
				seen[k] = true
				mu.Unlock()
				id := NewJob{Sync: k%2 == 0}.id(k)
				got, ok := keyOf(id)
				must.Hold(t, ok && got == k, "the id", id, "has the key", got, "want", k)
			}
		})
	}
	all.Wait()
	must.Equal(t, len(seen), 12_000, "the number of different keys")
	u := uuid.MustParse(NewJob{}.id(e.newKey())[:36])
	must.Equal(t, fmt.Sprint(u.Version(), u.Variant()), "VERSION_7 RFC4122", "the id is a UUID of")
	for _, id := range []string{"", "x", "sync-x-q1"} {
		_, ok := keyOf(id)
		must.Hold(t, !ok, "the invalid id", id, "has a key")
	}
}

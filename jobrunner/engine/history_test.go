package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// call is a call of the engine in a history, with its result.
type call struct {
	op      string
	id      string
	attempt int

	gotID      string // of submit and take
	gotAttempt int    // of take
	gotState   engine.State
	ok         bool // of a report: it was accepted; of a retry: the job was retried
}

// entry is a job in the sequential model.
type entry struct {
	state            engine.State
	attempt, retries int
}

// sequential is the engine's specification. A history is linearizable if the model allows some order of its calls.
// Purge is missing, because it isn't atomic.
var sequential = porcupine.Model{
	Init:  func() any { return map[string]entry{} },
	Equal: func(a, b any) bool { return maps.Equal(a.(map[string]entry), b.(map[string]entry)) },
	Step: func(state, _, output any) (bool, any) {
		jobs, c := maps.Clone(state.(map[string]entry)), output.(call)
		job, known := jobs[c.id]
		isCurrent := known && job.state == engine.InProgress && job.attempt == c.attempt
		end := func(s engine.State) (bool, any) {
			if isCurrent && c.ok {
				job.state = s
				jobs[c.id] = job
			}
			return isCurrent == c.ok, jobs
		}
		switch c.op {
		case "submit":
			jobs[c.gotID] = entry{state: engine.InQueue}
			return true, jobs
		case "take":
			if c.gotID == "" {
				for _, j := range jobs {
					if j.state == engine.InQueue {
						return false, jobs
					}
				}
				return true, jobs
			}
			j, ok := jobs[c.gotID]
			allowed := ok && j.state == engine.InQueue && j.attempt+1 == c.gotAttempt
			j.state, j.attempt = engine.InProgress, c.gotAttempt
			jobs[c.gotID] = j
			return allowed, jobs
		case "done":
			return end(engine.Completed)
		case "fail":
			return end(engine.Failed)
		case "lost":
			if job.retries > 0 {
				return end(engine.Failed)
			}
			job.retries++
			return end(engine.InQueue)
		case "cancel":
			if known && !job.state.Terminal() {
				job.state = engine.Cancelled
				jobs[c.id] = job
			}
			return job.state == c.gotState, jobs
		case "retry":
			retryable := known && (job.state == engine.Failed || job.state == engine.TimedOut)
			if retryable {
				job.state, job.retries = engine.InQueue, 0
				jobs[c.id] = job
			}
			return retryable == c.ok && (retryable || job.state == c.gotState), jobs
		}
		return job.state == c.gotState, jobs // get
	},
	DescribeOperation: func(_, output any) string { return fmt.Sprintf("%+v", output) },
}

// Every history of concurrent clients and workers is linearizable.
func TestHistories(t *testing.T) {
	for _, config := range []sqldb.Config{{}, {Dir: t.TempDir()}} {
		e := newTester(t, config, nil)
		for round := range 60 {
			history := record(t, e.Engine, fmt.Sprint("ep", round))
			if result := porcupine.CheckOperationsTimeout(sequential, history, 20*time.Second); result == porcupine.Illegal {
				for _, op := range history {
					t.Logf("%d %d..%d %+v", op.ClientId, op.Call, op.Return, op.Output)
				}
				t.Fatal("the history isn't linearizable")
			}
		}
	}
}

// record records random concurrent calls of five clients.
func record(t *testing.T, e *engine.Engine, endpoint string) (history []porcupine.Operation) {
	t.Helper()
	var (
		mu      sync.Mutex
		ids     = []string{"unknown"}
		taken   []engine.Ref
		start   = time.Now()
		clients sync.WaitGroup
	)
	pick := func() (id string, ref engine.Ref) {
		mu.Lock()
		defer mu.Unlock()
		if len(taken) > 0 {
			ref = taken[rand.IntN(len(taken))]
		}
		return ids[rand.IntN(len(ids))], ref
	}
	ops := []string{"submit", "submit", "take", "take", "done", "fail", "fail", "lost", "cancel", "retry", "retry", "get"}
	for client := range 5 {
		clients.Go(func() {
			for range 9 {
				id, ref := pick()
				op := ops[rand.IntN(len(ops))]
				began := time.Since(start).Nanoseconds()
				c, err := perform(t.Context(), e, endpoint, op, id, ref)
				ended := time.Since(start).Nanoseconds()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Call: began, Output: c, Return: ended})
				switch {
				case op == "submit":
					ids = append(ids, c.gotID)
				case op == "take" && c.gotID != "":
					taken = append(taken, engine.Ref{Endpoint: endpoint, ID: c.gotID, Worker: "w", Attempt: c.gotAttempt})
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return history
}

func perform(ctx context.Context, e *engine.Engine, endpoint, op, id string, ref engine.Ref) (c call, err error) {
	c = call{op: op, id: id}
	recordState := func(job engine.Job, err error) error {
		c.gotState = job.State
		if errors.Is(err, engine.ErrNotFound) {
			return nil
		}
		return err
	}
	report := func(r engine.Report) error {
		c.id, c.attempt = ref.ID, ref.Attempt
		got, err := e.Report(ctx, ref, r)
		c.ok = got == engine.Accepted
		return err
	}
	switch op {
	case "submit":
		job, err := e.Submit(ctx, engine.NewJob{Endpoint: endpoint, Input: []byte(`{}`)})
		c.gotID = job.ID
		return c, err
	case "take":
		jobs, err := e.TakeQueued(ctx, engine.Take{Endpoint: endpoint, Worker: "w", Max: 1})
		if len(jobs) > 0 {
			c.gotID, c.gotAttempt = jobs[0].ID, jobs[0].Attempt
		}
		return c, err
	case "done":
		err = report(engine.Done(nil))
	case "fail":
		err = report(engine.Fail("no", nil))
	case "lost":
		err = report(engine.Lost(""))
	case "cancel":
		err = recordState(e.Cancel(ctx, endpoint, id))
	case "retry":
		_, err = e.Retry(ctx, endpoint, id)
		var refused *engine.NotRetryable
		switch {
		case errors.As(err, &refused):
			c.gotState, err = refused.State, nil
		case errors.Is(err, engine.ErrNotFound):
			err = nil
		default:
			c.ok = err == nil
		}
	case "get":
		err = recordState(e.Get(ctx, endpoint, id))
	}
	return c, err
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// batchIs checks a batch's state and its numbers of requests: total, running, completed and failed.
func (t *tester) batchIs(id, want string) {
	t.Helper()
	b, err := t.Batch(t.ctx, "ep", id)
	got := fmt.Sprintf("%s %d %d %d %d", b.State, b.Total, b.InProgress, b.Completed, b.Failed)
	must.Hold(t, err == nil && got == want, "the batch is", got, err, want)
}

func (t *tester) requestsAre(id string, want ...string) {
	t.Helper()
	all, total, err := t.Requests(t.ctx, "ep", id, 0, 100, 1<<20)
	var got []string
	for _, r := range all {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s%s", r.State, r.Output, r.Error)))
	}
	must.Hold(t, err == nil && total == len(want) && strings.Join(got, ", ") == strings.Join(want, ", "), "the requests are", got, total, err, want)
}

func (t *tester) takeNoneOf(k engine.Take) {
	t.Helper()
	k.Worker, k.Max = "w", 1
	jobs, err := t.Take(t.ctx, k)
	must.Hold(t, err == nil && len(jobs) == 0, "took", jobs, err, "expected none")
}

func testBatches(t *tester) {
	b, err := t.CreateBatch(t.ctx, "ep", inputs(2))
	must.Require(t, err == nil && b.State == engine.BatchDraft && b.Total == 2, "got", b, err)
	_, added, err := t.AddRequests(t.ctx, "ep", b.ID, inputs(3))
	must.Require(t, err == nil && len(added) == 3, "added", added, err)
	must.Do(t.RemoveRequest(t.ctx, "ep", b.ID, added[1]))(t)
	must.FailWith(t, must.Err(t.RemoveRequest(t.ctx, "ep", b.ID, added[1])), engine.ErrNoRequest, "the same call again")
	t.batchIs(b.ID, "DRAFT 4 0 0 0")
	t.takeNoneOf(takeFromBatch)
	t.restart()
	t.batchIs(b.ID, "DRAFT 4 0 0 0")
	for range 2 { // the second call is a no-op
		must.Do(t.FinalizeBatch(t.ctx, "ep", b.ID))(t)
	}
	t.batchIs(b.ID, "FINALIZED 4 0 0 0")
	t.takeNone() // the queue of /run doesn't have them
	must.Equal(t, t.Counts("ep"), engine.Counts{}, "the endpoint counts")
	var refused *engine.BatchRefused
	_, _, err = t.AddRequests(t.ctx, "ep", b.ID, inputs(1))
	must.Hold(t, errors.As(err, &refused), "adding a request:", err)
	_, err = t.RemoveRequest(t.ctx, "ep", b.ID, added[0])
	must.Hold(t, errors.As(err, &refused), "removing a request:", err)
	for i, report := range []engine.Report{engine.Done([]byte(`"out"`)), engine.Fail("no", nil)} {
		job := t.take(takeFromBatch)
		t.batchIs(b.ID, fmt.Sprintf("FINALIZED 4 1 %d 0", i))
		t.report(job.Ref, report, engine.Accepted)
	}
	t.report(t.take(takeFromBatch).Ref, engine.Lost(), engine.Accepted)
	t.requestsAre(b.ID, `COMPLETED "out"`, "FAILED no", "IN_QUEUE", "IN_QUEUE")
	t.report(t.take(takeFromBatch).Ref, engine.Lost(), engine.Accepted)
	t.report(t.take(takeFromBatch).Ref, engine.Done(nil), engine.Accepted)
	t.takeNoneOf(takeFromBatch)
	t.batchIs(b.ID, "FINALIZED 4 0 2 2")
	must.Equal(t, must.Do(t.CancelBatch(t.ctx, "ep", b.ID))(t).State, engine.BatchFinalized, "the cancelled batch, whose requests had ended")
	t.advance(24 * time.Hour)
	t.batchIs(b.ID, "FINALIZED 4 0 2 2") // results are kept
	t.advance(7 * 24 * time.Hour)
	must.FailWith(t, must.Err(t.Batch(t.ctx, "ep", b.ID)), engine.ErrNoBatch, "after its retention")
}

// Queued requests are cancelled. Once the running requests have ended, the batch has ended.
func testBatchDrains(t *tester) {
	for _, verdict := range []engine.BatchState{engine.BatchCancelled, engine.BatchFailed} {
		b, err := t.CreateBatch(t.ctx, "ep", inputs(3))
		if err == nil {
			_, err = t.FinalizeBatch(t.ctx, "ep", b.ID)
		}
		must.Succeed(t, err)
		long := takeFromBatch
		long.Timeout = 7 * 24 * time.Hour
		if verdict == engine.BatchFailed {
			t.advance(6 * 24 * time.Hour)
		}
		t.take(long)
		if verdict == engine.BatchFailed {
			t.advance(24 * time.Hour)
		} else {
			for range 2 {
				must.Do(t.CancelBatch(t.ctx, "ep", b.ID))(t)
			}
		}
		t.batchIs(b.ID, "FINALIZED 3 1 0 0")
		t.takeNoneOf(takeFromBatch)
		c := t.Counts("ep-batch")
		must.Hold(t, c.InQueue == 0 && c.InProgress == 1, "the queue counts", c)
		must.Hold(t, must.Err(t.FinalizeBatch(t.ctx, "ep", b.ID)) != nil, "it was finalized again")
		t.restart()
		t.report(t.take(long).Ref, engine.Done([]byte(`1`)), engine.Accepted) // requeued after the restart
		t.batchIs(b.ID, string(verdict)+" 3 0 1 0")
		t.requestsAre(b.ID, "COMPLETED 1", "CANCELLED", "CANCELLED")
		must.Succeed(t, t.DropEndpoint(t.ctx, "ep"))
		must.FailWith(t, must.Err(t.Batch(t.ctx, "ep", b.ID)), engine.ErrNoBatch, "a batch of a deleted endpoint")
	}
	draft, err := t.CreateBatch(t.ctx, "ep", inputs(1))
	if err == nil {
		draft, err = t.CancelBatch(t.ctx, "ep", draft.ID)
	}
	must.Hold(t, err == nil && draft.State == engine.BatchCancelled, "the cancelled draft is", draft, err)
	c := t.Counts("ep-batch")
	must.Hold(t, c.InQueue == 0 && c.InProgress == 0, "the queue counts", c)
}

func inputs(n int) (all [][]byte) {
	for i := range n {
		all = append(all, fmt.Appendf(nil, `{"n":%d}`, i))
	}
	return all
}

var takeFromBatch = engine.Take{Endpoint: "ep-batch"}

func testBatchLimits(t *tester) {
	var refused *engine.BatchRefused
	err := must.Err(t.CreateBatch(t.ctx, "ep", inputs(engine.MaxBatchRequests+1)))
	must.Hold(t, errors.As(err, &refused) && !refused.Active, "too many requests:", err)
	var ids []string
	for range engine.MaxActiveBatches {
		ids = append(ids, must.Do(t.CreateBatch(t.ctx, "ep", inputs(1)))(t).ID)
	}
	full := func() {
		t.Helper()
		_, err := t.CreateBatch(t.ctx, "ep", nil)
		must.Hold(t, errors.As(err, &refused) && refused.Active, "a batch above the limit:", err)
	}
	full()
	must.Do(t.CreateBatch(t.ctx, "other", nil))(t)
	if _, _, err := t.AddRequests(t.ctx, "ep", ids[0], inputs(engine.MaxBatchRequests)); !errors.As(err, &refused) {
		t.Errorf("too many requests: %v", err)
	}
	t.batchIs(ids[0], "DRAFT 1 0 0 0") // nothing was added
	if _, _, err := t.AddRequests(t.ctx, "ep", ids[0], inputs(engine.MaxBatchRequests-1)); err != nil {
		t.Error(err)
	}
	t.batchIs(ids[0], "DRAFT 5000 0 0 0")
	must.Do(t.FinalizeBatch(t.ctx, "ep", ids[1]))(t)
	full()
	t.report(t.take(takeFromBatch).Ref, engine.Fail("no", nil), engine.Accepted)
	must.Do(t.CreateBatch(t.ctx, "ep", nil))(t)
	full()
	must.Do(t.CancelBatch(t.ctx, "ep", ids[2]))(t)
	batches, total, err := t.Batches(t.ctx, "ep", 1, 2)
	must.Hold(t, err == nil && total == 11 && len(batches) == 2 && batches[0].ID == ids[9] && batches[1].ID == ids[8], batches, total, err)
	t.advance(7 * 24 * time.Hour) // the retention of drafts
	batches, total, err = t.Batches(t.ctx, "ep", 0, 20)
	must.Hold(t, err == nil && total == 1 && batches[0].ID == ids[1], "got", batches, "of", total, err)
	c := t.Counts("ep-batch")
	must.Hold(t, c.InQueue == 0 && c.InProgress == 0, "the queue counts", c)
}

// testBatchModel applies random operations to batches and to a model of them, and compares the two.
func testBatchModel(t *testing.T, h harness) {
	rapid.Check(t, func(r *rapid.T) {
		var failure any
		h(t, func(env *tester) {
			defer func() { failure = recover() }() // rapid needs the panic outside the bubble
			m := &batchModel{env: env, ctx: env.ctx, now: time.Now()}
			r.Repeat(map[string]func(*rapid.T){
				"create": m.create, "add": m.add, "remove": m.remove, "finalize": m.finalize, "cancel": m.cancel,
				"take": m.take, "report": m.report, "advance": m.advance, "restart": m.restart, "drop": m.drop, "": m.compare,
			})
		})
		if failure != nil {
			panic(failure)
		}
	})
}

// batchModel has the batches of the endpoint ep.
type batchModel struct {
	env     *tester
	ctx     context.Context
	now     time.Time
	batches []*modelBatch
	running []engine.Taken
}

type modelBatch struct {
	id         string
	final      bool
	verdict    engine.BatchState
	ends, gone time.Time
	requests   []*modelRequest
}

type modelRequest struct {
	id     string
	state  engine.State
	result string // output and error
	lost   bool   // its worker died once
}

func (b *modelBatch) count(states ...engine.State) (n int) {
	for _, r := range b.requests {
		for _, s := range states {
			if r.state == s {
				n++
			}
		}
	}
	return n
}

func (b *modelBatch) open() int { return b.count(engine.InQueue, engine.InProgress) }

func (b *modelBatch) state() engine.BatchState {
	switch {
	case b.verdict != "" && b.open() == 0:
		return b.verdict
	case b.final:
		return engine.BatchFinalized
	}
	return engine.BatchDraft
}

func (b *modelBatch) end(verdict engine.BatchState) {
	b.verdict = verdict
	for _, r := range b.requests {
		if r.state == engine.InQueue {
			r.state = engine.Cancelled
		}
	}
}

func (m *batchModel) draw(r *rapid.T) *modelBatch {
	if len(m.batches) == 0 {
		r.Skip("no batch")
	}
	return rapid.SampledFrom(m.batches).Draw(r, "batch")
}

func (m *batchModel) create(r *rapid.T) {
	active := 0
	for _, b := range m.batches {
		if !b.final && b.verdict == "" || b.open() > 0 {
			active++
		}
	}
	b, err := m.env.CreateBatch(m.ctx, "ep", nil)
	if active >= engine.MaxActiveBatches {
		if refused := new(engine.BatchRefused); !errors.As(err, &refused) || !refused.Active {
			r.Fatalf("with %d active batches: %v", active, err)
		}
		return
	}
	if err != nil {
		r.Fatal(err)
	}
	m.batches = append(m.batches, &modelBatch{id: b.ID, gone: m.now.Add(7 * 24 * time.Hour)})
}

// expect checks whether a call was rejected.
func expect(r *rapid.T, err error, works bool) {
	r.Helper()
	if refused := new(engine.BatchRefused); err != nil && !errors.As(err, &refused) || works != (err == nil) {
		r.Fatalf("got %v, expected success: %v", err, works)
	}
}

func (m *batchModel) add(r *rapid.T) {
	b, n := m.draw(r), rapid.IntRange(0, 3).Draw(r, "requests")
	_, ids, err := m.env.AddRequests(m.ctx, "ep", b.id, inputs(n))
	expect(r, err, !b.final && b.verdict == "")
	for _, id := range ids {
		b.requests = append(b.requests, &modelRequest{id: id, state: engine.InQueue})
	}
}

func (m *batchModel) remove(r *rapid.T) {
	b := m.draw(r)
	if len(b.requests) == 0 {
		r.Skip("no request")
	}
	i := rapid.IntRange(0, len(b.requests)-1).Draw(r, "request")
	remove := func() error { return must.Err(m.env.RemoveRequest(m.ctx, "ep", b.id, b.requests[i].id)) }
	err := remove()
	expect(r, err, !b.final && b.verdict == "")
	if err != nil {
		return
	}
	if err := remove(); !errors.Is(err, engine.ErrNoRequest) {
		r.Fatalf("removing a request twice: %v", err)
	}
	b.requests = slices.Delete(b.requests, i, i+1)
}

func (m *batchModel) finalize(r *rapid.T) {
	b := m.draw(r)
	_, err := m.env.FinalizeBatch(m.ctx, "ep", b.id)
	expect(r, err, b.verdict == "")
	if err == nil && !b.final {
		b.final, b.ends, b.gone = true, m.now.Add(7*24*time.Hour), m.now.Add(8*24*time.Hour)
	}
}

func (m *batchModel) cancel(r *rapid.T) {
	b := m.draw(r)
	_, err := m.env.CancelBatch(m.ctx, "ep", b.id)
	expect(r, err, true)
	if b.verdict == "" && (!b.final || b.open() > 0) {
		b.end(engine.BatchCancelled)
	}
}

// request returns the request of a job, or nil if its batch is deleted.
func (m *batchModel) request(id string) (*modelBatch, *modelRequest) {
	for _, b := range m.batches {
		for _, q := range b.requests {
			if q.id == id {
				return b, q
			}
		}
	}
	return nil, nil
}

func (m *batchModel) take(r *rapid.T) {
	waiting := 0
	for _, b := range m.batches {
		if b.final {
			waiting += b.count(engine.InQueue)
		}
	}
	jobs, err := m.env.Take(m.ctx, engine.Take{Endpoint: "ep-batch", Worker: "w", Max: 2, Timeout: 7 * 24 * time.Hour})
	if err != nil || len(jobs) != min(2, waiting) {
		r.Fatalf("took %d of %d, %v", len(jobs), waiting, err)
	}
	for _, job := range jobs {
		b, q := m.request(job.ID)
		if q == nil || !b.final || q.state != engine.InQueue {
			r.Fatalf("%s was taken", job.ID)
		}
		q.state = engine.InProgress
		m.running = append(m.running, job)
	}
}

func (m *batchModel) report(r *rapid.T) {
	if len(m.running) == 0 {
		r.Skip("nothing runs")
	}
	job := m.running[0]
	m.running = m.running[1:]
	kind := rapid.SampledFrom([]string{"done", "fail", "lost"}).Draw(r, "kind")
	report := map[string]engine.Report{"done": engine.Done([]byte(`1`)), "fail": engine.Fail("no", nil), "lost": engine.Lost()}[kind]
	want := engine.Stale
	if _, q := m.request(job.ID); q != nil && q.state == engine.InProgress {
		want = engine.Accepted
		switch {
		case kind == "done":
			q.state, q.result = engine.Completed, "1"
		case kind == "fail":
			q.state, q.result = engine.Failed, "no"
		case q.lost:
			q.state, q.result = engine.Failed, "job timed out after 1 retries: its worker died"
		default:
			q.state, q.lost = engine.InQueue, true
		}
	}
	if got, err := m.env.Report(m.ctx, job.Ref, report); err != nil || got != want {
		r.Fatalf("report: %v, %v; want %v", got, err, want)
	}
}

func (m *batchModel) advance(r *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Second, 24 * time.Hour, 3 * 24 * time.Hour}).Draw(r, "time")
	m.env.advance(d)
	m.now = m.now.Add(d)
	var left []*modelBatch
	for _, b := range m.batches {
		if !b.gone.After(m.now) {
			continue
		}
		left = append(left, b)
		if b.final && b.verdict == "" && !b.ends.After(m.now) && b.open() > 0 {
			b.end(engine.BatchFailed)
		}
	}
	m.batches = left
	// Jobs that have run for seven days have timed out.
	for i := 0; i < len(m.running); i++ {
		if m.running[i].Deadline.After(m.now) {
			continue
		}
		if _, q := m.request(m.running[i].ID); q != nil && q.state == engine.InProgress {
			q.state = engine.TimedOut
		}
	}
}

// restart restarts the engine, which requeues the requests that ran.
func (m *batchModel) restart(*rapid.T) {
	synctest.Wait()
	m.env.restart()
	synctest.Wait()
	for _, job := range m.running {
		if _, q := m.request(job.ID); q != nil && q.state == engine.InProgress {
			q.state = engine.InQueue
		}
	}
	m.running = nil
}

func (m *batchModel) drop(r *rapid.T) {
	if usually(r) {
		r.SkipNow()
	}
	if err := m.env.DropEndpoint(m.ctx, "ep"); err != nil {
		r.Fatal(err)
	}
	for _, b := range m.batches {
		if _, err := m.env.Batch(m.ctx, "ep", b.id); !errors.Is(err, engine.ErrNoBatch) {
			r.Fatalf("a batch of a deleted endpoint: %v", err)
		}
	}
	m.batches = nil
}

func (m *batchModel) compare(r *rapid.T) {
	all, total, err := m.env.Batches(m.ctx, "ep", 0, 1000)
	if err != nil || total != len(m.batches) || len(all) != total {
		r.Fatalf("%d of %d batches, %v; want %d", len(all), total, err, len(m.batches))
	}
	queued, running := 0, 0
	for i, want := range m.batches {
		got := all[len(all)-1-i]
		if got.ID != want.id || got.State != want.state() || got.Total != len(want.requests) || got.InProgress != want.count(engine.InProgress) ||
			got.Completed != want.count(engine.Completed) || got.Failed != want.count(engine.Failed, engine.TimedOut) {
			r.Fatalf("batch %d is %+v, want %s %+v", i, got, want.state(), want)
		}
		if want.final {
			queued += want.count(engine.InQueue)
		}
		running += want.count(engine.InProgress)
		requests, total, err := m.env.Requests(m.ctx, "ep", want.id, 0, 1000, 1<<20)
		if err != nil || total != len(want.requests) || len(requests) != total {
			r.Fatalf("%d of %d requests, %v; want %d", len(requests), total, err, len(want.requests))
		}
		for i, q := range requests {
			if w := want.requests[i]; q.ID != w.id || q.State != w.state || string(q.Output)+q.Error != w.result {
				r.Fatalf("request %d is %+v, want %+v", i, q, w)
			}
		}
	}
	if c := m.env.Counts("ep-batch"); c.InQueue != queued || c.InProgress != running {
		r.Fatalf("the queue counts %+v, want %d and %d", c, queued, running)
	}
	if c := m.env.Counts("ep"); c != (engine.Counts{}) {
		r.Fatalf("the endpoint counts %+v", c)
	}
}

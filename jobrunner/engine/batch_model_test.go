package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

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
	id               string
	finalized        bool
	verdict          engine.BatchState
	endsAt, deleteAt time.Time
	requests         []*modelRequest
}

type modelRequest struct {
	id     string
	state  engine.State
	result string // output and error
	lost   bool   // its worker died once
}

func (b *modelBatch) count(states ...engine.State) (n int) {
	for _, r := range b.requests {
		if slices.Contains(states, r.state) {
			n++
		}
	}
	return n
}

func (b *modelBatch) unfinished() int { return b.count(engine.InQueue, engine.InProgress) }

func (b *modelBatch) state() engine.BatchState {
	switch {
	case b.verdict != "" && b.unfinished() == 0:
		return b.verdict
	case b.finalized:
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
		if !b.finalized && b.verdict == "" || b.unfinished() > 0 {
			active++
		}
	}
	b, err := m.env.CreateBatch(m.ctx, "ep", nil)
	if active >= engine.MaxActiveBatches {
		refused := new(engine.BatchRefused)
		must.Require(r, errors.As(err, &refused) && refused.TooManyActive, "creating a batch beside", active, "active batches returned", err)
		return
	}
	must.Succeed(r, err)
	m.batches = append(m.batches, &modelBatch{id: b.ID, deleteAt: m.now.Add(7 * 24 * time.Hour)})
}

// checkAccepted checks that a call succeeded or, if accepted is false, was rejected.
func checkAccepted(r *rapid.T, err error, accepted bool) {
	r.Helper()
	refused := new(engine.BatchRefused)
	must.Require(r, (err == nil || errors.As(err, &refused)) && accepted == (err == nil), "the call returned", err, "want success:", accepted)
}

func (m *batchModel) add(r *rapid.T) {
	b, n := m.draw(r), rapid.IntRange(0, 3).Draw(r, "requests")
	_, ids, err := m.env.AddRequests(m.ctx, "ep", b.id, inputs(n))
	checkAccepted(r, err, !b.finalized && b.verdict == "")
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
	checkAccepted(r, err, !b.finalized && b.verdict == "")
	if err != nil {
		return
	}
	must.ErrorIs(r, remove(), engine.ErrNoRequest, "removing a request again")
	b.requests = slices.Delete(b.requests, i, i+1)
}

func (m *batchModel) finalize(r *rapid.T) {
	b := m.draw(r)
	_, err := m.env.FinalizeBatch(m.ctx, "ep", b.id)
	checkAccepted(r, err, b.verdict == "")
	if err == nil && !b.finalized {
		b.finalized, b.endsAt, b.deleteAt = true, m.now.Add(7*24*time.Hour), m.now.Add(8*24*time.Hour)
	}
}

func (m *batchModel) cancel(r *rapid.T) {
	b := m.draw(r)
	_, err := m.env.CancelBatch(m.ctx, "ep", b.id)
	checkAccepted(r, err, true)
	if b.verdict == "" && (!b.finalized || b.unfinished() > 0) {
		b.end(engine.BatchCancelled)
	}
}

// request returns the request of a job, or nil if its batch is deleted.
func (m *batchModel) request(id string) (*modelBatch, *modelRequest) {
	for _, b := range m.batches {
		for _, req := range b.requests {
			if req.id == id {
				return b, req
			}
		}
	}
	return nil, nil
}

func (m *batchModel) take(r *rapid.T) {
	waiting, lostWaits := 0, false
	for _, b := range m.batches {
		if b.finalized {
			waiting += b.count(engine.InQueue)
			lostWaits = lostWaits || slices.ContainsFunc(b.requests, func(r *modelRequest) bool { return r.lost && r.state == engine.InQueue })
		}
	}
	jobs, err := m.env.TakeQueued(m.ctx, engine.Take{Endpoint: "ep-batch", Worker: "w", Max: 2, Timeout: 7 * 24 * time.Hour})
	must.Require(r, err == nil && (len(jobs) == min(2, waiting) || len(jobs) == 1 && lostWaits), "took", len(jobs), "of", waiting, "waiting requests", err, "want at most 2")
	for _, job := range jobs {
		b, req := m.request(job.ID)
		must.Require(r, req != nil && b.finalized && req.state == engine.InQueue && (len(jobs) == 1 || job.Retries == 0),
			"took", len(jobs), "requests with", job.ID, "which isn't a queued request of a finalized batch, or was lost and should be taken alone")
		req.state = engine.InProgress
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
	report := map[string]engine.Report{"done": engine.Done([]byte(`1`)), "fail": engine.Fail("no", nil), "lost": engine.Lost("")}[kind]
	want := engine.Stale
	if _, req := m.request(job.ID); req != nil && req.state == engine.InProgress {
		want = engine.Accepted
		switch {
		case kind == "done":
			req.state, req.result = engine.Completed, "1"
		case kind == "fail":
			req.state, req.result = engine.Failed, "no"
		case req.lost:
			req.state, req.result = engine.Failed, "job timed out after 1 retries: its worker died"
		default:
			req.state, req.lost = engine.InQueue, true
		}
	}
	got, err := m.env.Report(m.ctx, job.Ref, report)
	must.Require(r, err == nil && got == want, "the report returned", got, err, "want", want)
}

func (m *batchModel) advance(r *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Second, 24 * time.Hour, 3 * 24 * time.Hour}).Draw(r, "time")
	m.env.advance(d)
	m.now = m.now.Add(d)
	var remaining []*modelBatch
	for _, b := range m.batches {
		if !b.deleteAt.After(m.now) {
			continue
		}
		remaining = append(remaining, b)
		if b.finalized && b.verdict == "" && !b.endsAt.After(m.now) && b.unfinished() > 0 {
			b.end(engine.BatchFailed)
		}
	}
	m.batches = remaining
	// Jobs that have run for seven days have timed out.
	for i := 0; i < len(m.running); i++ {
		if m.running[i].Deadline.After(m.now) {
			continue
		}
		if _, req := m.request(m.running[i].ID); req != nil && req.state == engine.InProgress {
			req.state = engine.TimedOut
		}
	}
}

// restart restarts the engine, which requeues the requests that ran.
func (m *batchModel) restart(r *rapid.T) {
	if m.env.db.Memory() > 0 {
		r.SkipNow()
	}
	synctest.Wait()
	m.env.restart()
	synctest.Wait()
	for _, job := range m.running {
		if _, req := m.request(job.ID); req != nil && req.state == engine.InProgress {
			req.state = engine.InQueue
		}
	}
	m.running = nil
}

func (m *batchModel) drop(r *rapid.T) {
	if usually(r) {
		r.SkipNow()
	}
	must.Succeed(r, m.env.DropEndpoint(m.ctx, "ep"))
	for _, b := range m.batches {
		must.ErrorIs(r, must.Err(m.env.Batch(m.ctx, "ep", b.id)), engine.ErrNoBatch, "reading a batch of a deleted endpoint")
	}
	m.batches = nil
}

func (m *batchModel) compare(r *rapid.T) {
	all, total, err := m.env.Batches(m.ctx, "ep", 0, 1000)
	must.Require(r, err == nil && total == len(m.batches) && len(all) == total, "read", len(all), "of", total, "batches", err, "want", len(m.batches))
	queued, running := 0, 0
	for i, want := range m.batches {
		got := all[len(all)-1-i]
		must.Require(r, got.ID == want.id && got.State == want.state() && got.Total == len(want.requests) && got.InProgress == want.count(engine.InProgress) &&
			got.Completed == want.count(engine.Completed) && got.Failed == want.count(engine.Failed, engine.TimedOut), "batch", i, "is", got, "want", want.state(), want)
		if want.finalized {
			queued += want.count(engine.InQueue)
		}
		running += want.count(engine.InProgress)
		requests, total, err := m.env.Requests(m.ctx, "ep", want.id, 0, 1000, 1<<20)
		must.Require(r, err == nil && total == len(want.requests) && len(requests) == total, "read", len(requests), "of", total, "requests", err, "want", len(want.requests))
		for i, req := range requests {
			w := want.requests[i]
			must.Require(r, req.ID == w.id && req.State == w.state && string(req.Output)+req.Error == w.result, "request", i, "is", req, "want", w)
		}
	}
	c := m.env.Counts("ep-batch")
	must.Require(r, c.InQueue == queued && c.InProgress == running, "the batch queue counts", c, "want", queued, "queued and", running, "running")
	must.Equal(r, m.env.Counts("ep"), engine.Counts{}, "the counts of the endpoint's own queue")
}

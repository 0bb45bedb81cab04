package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// testModel applies random operations to an engine and to a model of its states and transitions, and compares them.
func testModel(t *testing.T, h harness) {
	setFlag(t, "rapid.steps", "120")
	rapid.Check(t, func(r *rapid.T) {
		var failure any
		h(t, func(env *tester) {
			defer func() { failure = recover() }() // rapid needs the panic outside the bubble
			m := &model{env: env, ctx: env.ctx, now: time.Now(), totals: map[string]*engine.Counts{}}
			r.Repeat(map[string]func(*rapid.T){
				// rapid prefers names that sort first: these give a job a long history.
				"1 advance": m.advance,
				"1 report":  m.report,
				"1 retry":   m.retry,
				"1 submit":  m.submit,
				"1 take":    m.take,
				"2 report":  m.report,
				"2 take":    m.take,
				"cancel":    m.cancel,
				"drain":     m.drain,
				"drop":      m.drop,
				"purge":     m.purge,
				"restart":   m.restart,
				"set ttl":   m.setTTL,
				"":          m.compare,
			})
		})
		if failure != nil {
			panic(failure)
		}
	})
}

const ms = time.Millisecond

var (
	endpoints = []string{"ep", "ep2"}
	// A step of 0 ends when the next job expires or times out. A step of -ms ends a millisecond earlier.
	steps    = []time.Duration{0, -ms, 5 * time.Second, 20 * time.Minute, 24 * time.Hour}
	timeouts = []time.Duration{0, 5 * time.Second, 30 * time.Second, time.Hour}
	ttls     = []time.Duration{0, 10 * time.Second, time.Minute, 7 * 24 * time.Hour, 7 * 24 * time.Hour}
	waits    = []time.Duration{0, time.Second, 2 * time.Minute, 5 * time.Minute}
)

var idForm = regexp.MustCompile(`^(sync-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9a-z]+$`)

type model struct {
	env    *tester
	ctx    context.Context
	now    time.Time
	jobs   []*modelJob
	refs   []engine.Ref // of all takes
	totals map[string]*engine.Counts
}

func (m *model) total(endpoint string) *engine.Counts {
	if m.totals[endpoint] == nil {
		m.totals[endpoint] = new(engine.Counts)
	}
	return m.totals[endpoint]
}

// submit usually does nothing if more than three jobs exist, because short histories of a job prove little.
func (m *model) submit(r *rapid.T) {
	if m.countExisting() > 3 && usually(r) {
		r.SkipNow()
	}
	n := engine.NewJob{
		Endpoint:    rapid.SampledFrom(endpoints).Draw(r, "endpoint"),
		Input:       fmt.Appendf(nil, `{"n":  %d}`, len(m.jobs)),
		LowPriority: rapid.Bool().Draw(r, "low"),
		Timeout:     rapid.SampledFrom(timeouts).Draw(r, "timeout"),
		TTL:         rapid.SampledFrom(ttls).Draw(r, "ttl"),
		Sync:        rapid.Bool().Draw(r, "sync"),
		Wait:        rapid.SampledFrom(waits).Draw(r, "wait"),
	}
	if rapid.Bool().Draw(r, "rest") {
		n.Rest = fmt.Appendf(nil, `{"policy": {"n": %d}}`, len(m.jobs))
	}
	job, err := m.env.Submit(m.ctx, n)
	must.Require(r, err == nil && idForm.MatchString(job.ID) && strings.HasPrefix(job.ID, "sync-") == n.Sync, "the submission returned the id", job.ID, err)
	ttl := cmp.Or(n.TTL, 24*time.Hour)
	m.jobs = append(m.jobs, &modelJob{NewJob: n, Job: job, submittedAt: m.now, queuedAt: m.now, turn: m.now, place: len(m.jobs), expiresAt: m.now.Add(ttl)})
}

func (m *model) finish(j *modelJob, s engine.State, at time.Time) {
	j.finish(s, at)
	switch s {
	case engine.Completed:
		m.total(j.endpoint()).Completed++
	case engine.Failed:
		m.total(j.endpoint()).Failed++
	}
}

func (m *model) lose(j *modelJob, at time.Time) {
	if j.Retries == 1 {
		j.Output, j.Error = nil, "job timed out after 1 retries: its worker died"
		m.finish(j, engine.Failed, at)
		return
	}
	j.requeue(at)
	j.Retries++
	m.total(j.endpoint()).Retried++
}

func (m *model) take(r *rapid.T) {
	request := engine.Take{
		Endpoint: rapid.SampledFrom(endpoints).Draw(r, "endpoint"),
		Worker:   rapid.SampledFrom([]string{"a", "b"}).Draw(r, "worker"),
		Max:      rapid.IntRange(1, 3).Draw(r, "max"),
		Timeout:  rapid.SampledFrom(timeouts).Draw(r, "timeout"),
	}
	got := must.Do(m.env.TakeQueued(m.ctx, request))(r)
	want := m.queue(request.Endpoint)
	want = want[:min(len(want), request.Max)]
	if i := slices.IndexFunc(want, func(j *modelJob) bool { return j.Retries > 0 }); i >= 0 {
		want = want[:max(i, 1)]
	}
	must.Require(r, len(got) == len(want), "took", len(got), "jobs, want", len(want))
	for i, j := range want {
		timeout := cmp.Or(j.Timeout, request.Timeout, 10*time.Minute)
		j.attempt++
		j.State, j.Worker, j.Started, j.deadline, j.Delay = engine.InProgress, request.Worker, m.now, m.now.Add(timeout), m.now.Sub(j.queuedAt)
		ref := engine.Ref{Endpoint: request.Endpoint, ID: j.id(), Worker: request.Worker, Attempt: j.attempt}
		must.Require(r, got[i].Ref == ref && got[i].Delay == j.Delay && got[i].Retries == j.Retries && got[i].Deadline.Equal(j.deadline), "took", got[i], "want", ref, "until", j.deadline)
		must.Require(r, got[i].LowPriority == j.LowPriority && string(got[i].Input) == string(j.Input) && string(got[i].Rest) == string(j.Rest) && (got[i].Rest == nil) == (j.Rest == nil),
			"took", string(got[i].Input), string(got[i].Rest), "want", j.NewJob)
		m.refs = append(m.refs, ref)
	}
}

func (m *model) report(r *rapid.T) {
	if len(m.refs) == 0 {
		r.SkipNow()
	}
	refs := m.refs
	if running := m.runningRefs(); len(running) > 0 && usually(r) {
		refs = running
	}
	ref := rapid.SampledFrom(refs).Draw(r, "take")
	kind := rapid.SampledFrom([]string{"lost", "fail", "done", "progress", "chunk"}).Draw(r, "kind")
	switch rapid.IntRange(0, 15).Draw(r, "wrong part") { // rapid prefers small numbers: no part is wrong
	case 11:
		ref.Endpoint = "other"
	case 12:
		ref.ID = "unknown"
	case 13:
		ref.Worker = "other"
	case 14:
		ref.Attempt++
	case 15:
		ref.Attempt--
	}
	output := fmt.Appendf(nil, "%d", rapid.IntRange(0, 9).Draw(r, "output"))
	if string(output) == "0" && (kind == "done" || kind == "fail") {
		output = nil
	}
	report := map[string]engine.Report{
		"done": engine.Done(output), "fail": engine.Fail("bad", output), "progress": engine.Progress(output),
		"chunk": engine.Chunk(output, nil), "lost": engine.Lost(""),
	}[kind]
	got := must.Do(m.env.Report(m.ctx, ref, report))(r)
	if !slices.Contains(m.runningRefs(), ref) {
		must.Require(r, got == engine.Stale, kind, "on", ref, "was accepted")
		return
	}
	j := m.jobs[slices.IndexFunc(m.jobs, func(j *modelJob) bool { return j.id() == ref.ID })]
	must.Require(r, got == engine.Accepted, kind, "on", ref, "was refused")
	switch kind {
	case "done":
		j.Output = output
		m.finish(j, engine.Completed, m.now)
	case "fail":
		j.Output, j.Error = output, "bad"
		m.finish(j, engine.Failed, m.now)
	case "progress":
		j.Output = output
	case "chunk":
		j.chunks = append(j.chunks, fmt.Sprintf(`{"output":%s}`, output))
	case "lost":
		m.lose(j, m.now)
	}
}

// usually is true three times out of four.
func usually(r *rapid.T) bool { return rapid.IntRange(0, 3).Draw(r, "usually") > 0 }

func (m *model) cancel(r *rapid.T) {
	j := m.draw(r, engine.InQueue, engine.InProgress)
	got, err := m.env.Cancel(m.ctx, j.endpoint(), j.id())
	if !j.deleted && !j.State.Terminal() {
		j.finish(engine.Cancelled, m.now)
	}
	m.expectJob(r, j, got, err)
}

func (m *model) retry(r *rapid.T) {
	j := m.draw(r, engine.Failed, engine.TimedOut)
	got, err := m.env.Retry(m.ctx, j.endpoint(), j.id())
	var refused *engine.NotRetryable
	switch {
	case j.deleted:
		m.expectJob(r, j, got, err)
	case j.State == engine.Failed || j.State == engine.TimedOut:
		must.Succeed(r, err)
		j.requeue(m.now)
		j.turn, j.Finished, j.Retries, j.Execution, j.Error = m.now, time.Time{}, 0, 0, ""
		m.expectJob(r, j, got, nil)
	default:
		must.Require(r, errors.As(err, &refused) && refused.State == j.State, "the retry of a job in state", j.State, "returned", got, err)
	}
}

func (m *model) purge(r *rapid.T) {
	if usually(r) {
		r.SkipNow()
	}
	endpoint := rapid.SampledFrom(endpoints).Draw(r, "endpoint")
	waiting := m.queue(endpoint)
	for _, j := range waiting {
		j.deleted = true
	}
	n, err := m.env.Purge(m.ctx, endpoint)
	must.Require(r, err == nil && n == len(waiting), "purged", n, "jobs", err, "want", len(waiting))
}

func (m *model) drain(r *rapid.T) {
	j := m.draw(r, engine.InQueue, engine.InProgress, engine.Completed, engine.Failed)
	got, chunks, more, err := m.env.Drain(m.ctx, j.endpoint(), j.id(), engine.MaxDrain)
	m.expectJob(r, j, got, err)
	if j.deleted {
		return
	}
	must.Require(r, fmt.Sprintf("%s", chunks) == fmt.Sprintf("%s", j.chunks) && !more, "drained", fmt.Sprintf("%s", chunks), "with more:", more, "want", j.chunks)
	j.chunks = nil
}

func (m *model) setTTL(r *rapid.T) {
	j := m.draw(r, engine.InQueue, engine.InProgress, engine.Completed)
	ttl := rapid.SampledFrom(ttls[1:]).Draw(r, "ttl")
	err := m.env.SetTTL(m.ctx, j.endpoint(), j.id(), ttl)
	if j.deleted {
		must.ErrorIs(r, err, engine.ErrNotFound, "setting the ttl of a deleted job")
		return
	}
	must.Succeed(r, err)
	j.expiresAt = j.submittedAt.Add(ttl)
	m.passTime()
	got, err := m.env.Get(m.ctx, j.endpoint(), j.id())
	m.expectJob(r, j, got, err)
	synctest.Wait()
}

func (m *model) advance(r *rapid.T) {
	d := rapid.SampledFrom(steps).Draw(r, "step")
	if usually(r) { // otherwise most jobs would expire before anything happens to them
		d = 999 * ms
	}
	to := m.now.Add(d)
	if d <= 0 {
		to = m.nextDue(m.now.Add(7 * 24 * time.Hour)).Add(d)
	}
	m.env.advance(to.Sub(m.now))
	for m.now.Before(to) {
		m.now = m.nextDue(to)
		m.passTime()
	}
}

// nextDue returns when a job next expires or times out, or a limit if that is earlier.
func (m *model) nextDue(limit time.Time) time.Time {
	for _, j := range m.jobs {
		if at := j.nextDue(); at.After(m.now) && at.Before(limit) {
			limit = at
		}
	}
	return limit
}

// passTime makes the transitions that are due.
func (m *model) passTime() {
	passed := func(t time.Time) bool { return !t.IsZero() && !t.After(m.now) }
	for _, j := range m.jobs {
		switch {
		case j.deleted:
		case passed(j.expiresAt) || j.State.Terminal() && passed(j.retentionEnd()):
			j.deleted = true
		case j.State == engine.InProgress && passed(j.deadline):
			j.finish(engine.TimedOut, j.deadline)
		}
	}
}

func (m *model) restart(r *rapid.T) {
	if m.env.db.Memory() > 0 {
		r.SkipNow()
	}
	m.env.restart()
	for _, j := range m.jobs {
		if !j.deleted && j.State == engine.InProgress {
			j.requeue(m.now)
		}
	}
}

func (m *model) drop(r *rapid.T) {
	if usually(r) {
		r.SkipNow()
	}
	endpoint := rapid.SampledFrom(endpoints).Draw(r, "endpoint")
	must.Succeed(r, m.env.DropEndpoint(m.ctx, endpoint))
	for _, j := range m.jobs {
		j.deleted = j.deleted || j.endpoint() == endpoint
	}
	m.totals[endpoint] = nil
}

// compare compares the engine with the model after every step.
func (m *model) compare(r *rapid.T) {
	for _, j := range m.jobs {
		got, err := m.env.Get(m.ctx, j.endpoint(), j.id())
		m.expectJob(r, j, got, err)
	}
	for _, endpoint := range endpoints {
		want := *m.total(endpoint)
		load := engine.Load{}
		for _, j := range m.jobs {
			if j.deleted || j.endpoint() != endpoint {
				continue
			}
			switch j.State {
			case engine.InQueue:
				want.InQueue++
			case engine.InProgress:
				want.InProgress++
				load.Running++
			}
		}
		for _, j := range m.queue(endpoint) {
			if !j.LowPriority {
				if load.Waiting == 0 {
					load.Oldest = j.queuedAt
				}
				load.Waiting++
			}
		}
		got := m.env.Counts(endpoint)
		must.Require(r, got.InQueue == want.InQueue && got.InProgress == want.InProgress && got.Completed == want.Completed && got.Failed == want.Failed && got.Retried == want.Retried,
			"counts of", endpoint, "are", got, "want", want)
		gotLoad, err := m.env.Load(m.ctx, endpoint)
		must.Require(r, err == nil && gotLoad.Waiting == load.Waiting && gotLoad.Running == load.Running && gotLoad.Oldest.Equal(load.Oldest), "load of", endpoint, "is", gotLoad, err, "want", load)
	}
}

func (m *model) expectJob(r *rapid.T, j *modelJob, got engine.Job, err error) {
	r.Helper()
	if j.deleted {
		must.Require(r, errors.Is(err, engine.ErrNotFound), "the deleted job", j.id(), "is", got, err, "want no job")
		return
	}
	want := j.Job
	want.Queued, want.Size = j.queuedAt, len(j.Output)
	for _, at := range []*time.Time{&want.Queued, &want.Started, &want.Finished} {
		if !at.IsZero() {
			*at = time.UnixMilli(at.UnixMilli())
		}
	}
	must.Require(r, err == nil && fmt.Sprintf("%+v", got) == fmt.Sprintf("%+v", want), "job is", got, err, "want", want)
}

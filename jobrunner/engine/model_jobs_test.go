package engine_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

type modelJob struct {
	engine.NewJob
	engine.Job
	submittedAt, queuedAt time.Time
	expiresAt, deadline   time.Time
	turn                  time.Time
	place                 int // among jobs of the same turn
	attempt               int
	chunks                []string // unread
	deleted               bool
}

func (j *modelJob) id() string { return j.ID }

func (j *modelJob) endpoint() string { return j.Job.Endpoint }

// retentionEnd returns when the retention of a finished job ends.
func (j *modelJob) retentionEnd() time.Time {
	retention := 30 * time.Minute
	if j.Sync {
		retention = max(time.Minute, j.Wait)
	}
	return j.Finished.Add(retention)
}

func (j *modelJob) finish(s engine.State, at time.Time) {
	j.State, j.Finished = s, at
	if !j.Started.IsZero() {
		j.Execution = at.Sub(j.Started)
	}
}

func (j *modelJob) requeue(at time.Time) {
	j.State, j.queuedAt, j.Worker, j.Delay, j.Output, j.chunks = engine.InQueue, at, "", 0, nil, nil
	j.Started, j.deadline = time.Time{}, time.Time{}
}

func (m *model) queue(endpoint string) (queue []*modelJob) {
	for _, j := range m.jobs {
		if !j.deleted && j.endpoint() == endpoint && j.State == engine.InQueue {
			queue = append(queue, j)
		}
	}
	slices.SortFunc(queue, func(a, b *modelJob) int {
		if c := a.turn.Compare(b.turn); c != 0 {
			return c
		}
		return a.place - b.place
	})
	return queue
}

func (m *model) countExisting() (n int) {
	for _, j := range m.jobs {
		if !j.deleted {
			n++
		}
	}
	return n
}

func (m *model) runningRefs() (refs []engine.Ref) {
	for _, j := range m.jobs {
		if !j.deleted && j.State == engine.InProgress {
			refs = append(refs, engine.Ref{Endpoint: j.endpoint(), ID: j.id(), Worker: j.Worker, Attempt: j.attempt})
		}
	}
	return refs
}

// draw usually draws an existing job in one of the states. Otherwise it draws any job, which may be
// deleted, or a job that doesn't exist because its id is of another endpoint.
func (m *model) draw(r *rapid.T, states ...engine.State) *modelJob {
	if len(m.jobs) == 0 {
		r.SkipNow()
	}
	preferred := slices.DeleteFunc(slices.Clone(m.jobs), func(j *modelJob) bool { return j.deleted || !slices.Contains(states, j.State) })
	if len(preferred) > 0 && usually(r) {
		return rapid.SampledFrom(preferred).Draw(r, "job")
	}
	j := rapid.SampledFrom(m.jobs).Draw(r, "job")
	if rapid.IntRange(0, 9).Draw(r, "other endpoint") == 9 {
		j = &modelJob{Job: engine.Job{Endpoint: "other", ID: j.id()}, deleted: true}
	}
	return j
}

// nextDue returns when a job next expires or times out.
func (j *modelJob) nextDue() time.Time {
	if j.deleted {
		return time.Time{}
	}
	next := j.expiresAt
	consider := func(at time.Time) {
		if at.Before(next) {
			next = at
		}
	}
	switch {
	case j.State == engine.InProgress:
		consider(j.deadline)
	case j.State.Terminal():
		consider(j.retentionEnd())
	}
	return next
}

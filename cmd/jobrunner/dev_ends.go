package main

import (
	"context"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

// finishedJobs shows how clients' jobs ended.
type finishedJobs struct {
	ended   chan engine.Event
	running chan struct{} // signals that a job runs

	mu   sync.Mutex      // held while dev sends a job
	sent map[string]bool // ids of dev's own jobs
}

// maxEnds limits the queued events. Further ones are dropped.
const maxEnds = 1000

func newFinishedJobs() *finishedJobs {
	return &finishedJobs{ended: make(chan engine.Event, maxEnds), running: make(chan struct{}, 1), sent: map[string]bool{}}
}

// observe queues the end of a job.
func (j *finishedJobs) observe(e engine.Event) {
	if e.To == engine.InProgress {
		select {
		case j.running <- struct{}{}:
		default:
		}
	}
	if !e.To.Terminal() {
		return
	}
	select {
	case j.ended <- e:
	default:
	}
}

// own sends a job of dev itself. jobLoop shows its end in full.
func (j *finishedJobs) own(send func() (api.Job, error)) (api.Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	job, err := send()
	j.sent[job.ID] = true
	return job, err
}

func (j *finishedJobs) isOwn(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sent[id]
}

// show shows ended jobs without output until ctx ends.
func (j *finishedJobs) show(ctx context.Context, e *devEndpoint, out *terminal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.running:
			out.repeats.release(func(id, text string) { out.showLine(now(), id, text) })
		case event := <-j.ended:
			if j.isOwn(event.Job) {
				continue
			}
			job, err := e.client.Jobs.Status(ctx, e.id, event.Job)
			if err != nil {
				continue // the job has expired, or the program ends
			}
			job.Output, job.Error = nil, logline.Headline(job.Error)
			out.show("JOB", "", describe(job))
		}
	}
}

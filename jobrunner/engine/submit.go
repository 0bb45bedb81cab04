package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Submit puts a job into its endpoint's queue: (none) → IN_QUEUE. The id is the
// client's to keep from the moment that Submit returns.
func (e *Engine) Submit(ctx context.Context, n NewJob) (Job, error) {
	id, now := n.newID(), e.now()
	gone := now + cmp.Or(n.TTL, DefaultTTL).Milliseconds()
	err := e.db.Write(ctx, func(tx *sqldb.Tx) error {
		var k int64
		err := tx.QueryRow(submitted, n.Endpoint, id, asInt(n.Low), n.Webhook, n.Timeout.Milliseconds(), n.retention().Milliseconds(),
			now, now, now, gone, gone).Scan(&k)
		if err != nil {
			return err
		}
		_, err = tx.Exec(addInput, k, n.Input, n.Rest)
		return err
	})
	if err != nil {
		return Job{}, err
	}
	e.apply(change{endpoint: n.Endpoint, id: id, low: n.Low, from: none, to: InQueue, due: gone})
	return Job{Endpoint: n.Endpoint, ID: id, State: InQueue, Queued: fromMillis(now)}, nil
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Take is a request for jobs.
type Take struct {
	Endpoint string
	Worker   string        // who asks, unique among the workers of the endpoint
	Max      int           // at most so many jobs
	Timeout  time.Duration // the endpoint's execution time-out, for jobs that have none; 0 is DefaultTimeout
	Lease    time.Duration // the worker counts as dead unless it reports within this time; 0 where it is watched by other means
}

// Taken is a job in the hands of a worker.
type Taken struct {
	Ref
	Input    []byte
	Rest     []byte // nil where the submission had no other members
	Low      bool
	Retries  int
	Delay    time.Duration
	Deadline time.Time // the end of its execution time-out
}

// Ref names a job in the hands of a worker: this take, and no other of the
// same job.
type Ref struct {
	Endpoint string
	ID       string
	Worker   string
	Attempt  int
}

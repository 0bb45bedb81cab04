package engine

import (
	"context"
	"time"
)

// TakeQueued is Take, but doesn't wait if the queue is empty.
func (e *Engine) TakeQueued(ctx context.Context, t Take) ([]Taken, error) {
	q, jobs, err := e.takeQueued(ctx, t)
	if err != nil {
		return nil, err
	}
	q.unlock()
	return e.loadInputs(ctx, jobs)
}

func (c *Config) SetPoll(interval time.Duration) { c.poll = interval }

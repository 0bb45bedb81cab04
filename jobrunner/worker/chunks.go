package worker

import (
	"context"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// maxGathered bounds the chunks of a job that wait to be kept, in bytes: then its
// handler waits.
const maxGathered = 1 << 20

// gatherFor is how long the chunks that follow others are gathered, in real time.
const gatherFor = 2 * time.Millisecond

// chunks are what a handler streams, on its way to the queue. The first goes at
// once; what comes while others are on their way, or soon after, goes together.
type chunks struct {
	store func([][]byte) error
	over  chan struct{} // closed by flush

	mu      sync.Mutex
	changed sync.Cond // of mu: less waits, or nothing is on its way
	waiting [][]byte
	bytes   int
	sending bool
	err     error // of the first that was not kept: later ones are not either
}

func newChunks(keep func([][]byte) error) *chunks {
	c := &chunks{store: keep, over: make(chan struct{})}
	c.changed.L = &c.mu
	return c
}

// add passes a chunk on, or answers why an earlier one was not kept.
func (c *chunks) add(output []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && c.bytes > 0 && c.bytes+len(output) > maxGathered {
		c.changed.Wait()
	}
	if c.err != nil {
		return c.err
	}
	c.waiting, c.bytes = append(c.waiting, output), c.bytes+len(output)
	if !c.sending {
		c.sending = true
		go c.send()
	}
	return nil
}

func (c *chunks) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > 0 && c.err == nil {
		next := c.waiting
		c.waiting, c.bytes = nil, 0
		c.changed.Broadcast()
		c.mu.Unlock()
		err := c.store(next)
		c.mu.Lock()
		if c.err = err; err == nil && c.bytes < maxGathered/2 {
			c.gather()
		}
	}
	c.sending = false
	c.changed.Broadcast()
}

// gather lets more chunks come, until there are no more.
func (c *chunks) gather() {
	c.mu.Unlock()
	defer c.mu.Lock()
	timer := time.NewTimer(gatherFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.over:
	}
}

// flush waits until all are kept, or one is not, and returns why. It is called once.
func (c *chunks) flush() error {
	close(c.over)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.sending {
		c.changed.Wait()
	}
	return c.err
}

// chunks are those of a job that the worker holds, until ctx ends.
func (w *worker) chunks(ctx context.Context, job engine.Taken) *chunks {
	return newChunks(func(outputs [][]byte) error {
		switch got, err := w.report(ctx, job.Ref, engine.Chunks(outputs)); {
		case err != nil:
			w.pool.logger.Error("a chunk could not be kept", "endpoint", w.pool.id, "job", job.ID, "error", err)
			return errChunkNotKept
		case got == engine.Stale:
			return errRevoked
		}
		return nil
	})
}

package worker

import (
	"context"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// maxGathered bounds the bytes of a job's chunks that wait for a batch. At the limit, the handler waits.
const maxGathered = 1 << 20

// gatherFor is how long to wait for more chunks after a batch, in real time.
const gatherFor = 2 * time.Millisecond

// chunks batches the chunks that a handler streams. The first chunk is stored at once. The chunks
// that arrive while a batch is in flight, or within gatherFor after it, are stored together.
type chunks struct {
	store func([][]byte) error
	ended chan struct{} // closed by flush

	mu      sync.Mutex
	changed sync.Cond // signals that fewer bytes wait, or that no batch is in flight
	waiting [][]byte
	bytes   int
	sending bool
	err     error // first failure; nothing is stored after it
}

func newChunks(store func([][]byte) error) *chunks {
	c := &chunks{store: store, ended: make(chan struct{})}
	c.changed.L = &c.mu
	return c
}

// add queues a chunk, or returns why an earlier one couldn't be stored.
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

// gather waits for more chunks.
func (c *chunks) gather() {
	c.mu.Unlock()
	defer c.mu.Lock()
	timer := time.NewTimer(gatherFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ended:
	}
}

// flush waits until all chunks are stored or one fails, and returns that failure. It is called once.
func (c *chunks) flush() error {
	close(c.ended)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.sending {
		c.changed.Wait()
	}
	return c.err
}

// chunksOf returns the stream of a job that the worker holds. It reports chunks until ctx ends.
func (w *worker) chunksOf(ctx context.Context, job engine.Taken) *chunks {
	return newChunks(func(outputs [][]byte) error {
		switch got, err := w.report(ctx, job.Ref, engine.Chunks(outputs)); {
		case err != nil:
			w.pool.logger.Error("a chunk could not be stored", "endpoint", w.pool.id, "job", job.ID, "error", err)
			return errChunkNotStored
		case got == engine.Stale:
			return errRevoked
		}
		return nil
	})
}

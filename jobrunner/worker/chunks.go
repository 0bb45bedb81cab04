package worker

import (
	"context"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// maxWaitingBytes bounds the bytes of a job's chunks that wait for a batch. At the limit, the handler waits.
const maxWaitingBytes = 1 << 20

// batchWait is how long to wait for more chunks after a batch, in real time.
const batchWait = 2 * time.Millisecond

// chunkBatcher batches the chunks that a handler streams. The first chunk is stored at once. The chunks
// that arrive while a batch is in flight, or within batchWait after it, are stored together.
type chunkBatcher struct {
	store func([][]byte) error
	ended chan struct{} // closed by flush

	mu      sync.Mutex
	changed sync.Cond // signals that fewer bytes wait, or that no batch is in flight
	waiting [][]byte
	bytes   int
	sending bool
	err     error // first failure; nothing is stored after it
}

func newChunkBatcher(store func([][]byte) error) *chunkBatcher {
	c := &chunkBatcher{store: store, ended: make(chan struct{})}
	c.changed.L = &c.mu
	return c
}

// add queues a chunk, or returns why an earlier chunk couldn't be stored.
func (c *chunkBatcher) add(output []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && c.bytes > 0 && c.bytes+len(output) > maxWaitingBytes {
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

func (c *chunkBatcher) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > 0 && c.err == nil {
		next := c.waiting
		c.waiting, c.bytes = nil, 0
		c.changed.Broadcast()
		c.mu.Unlock()
		err := c.store(next)
		c.mu.Lock()
		if c.err = err; err == nil && c.bytes < maxWaitingBytes/2 {
			c.mu.Unlock()
			select {
			case <-time.After(batchWait):
			case <-c.ended:
			}
			c.mu.Lock()
		}
	}
	c.sending = false
	c.changed.Broadcast()
}

// flush waits until all chunks are stored or a chunk fails, and returns that failure. It is called once.
func (c *chunkBatcher) flush() error {
	close(c.ended)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.sending {
		c.changed.Wait()
	}
	return c.err
}

// batchChunksOf returns the batcher of a job that the worker holds. It reports chunks until ctx ends.
func (w *worker) batchChunksOf(ctx context.Context, job engine.Taken) *chunkBatcher {
	return newChunkBatcher(func(outputs [][]byte) error {
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

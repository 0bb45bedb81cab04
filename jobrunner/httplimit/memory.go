package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// memoryWait is how long an answer waits for memory. Clients wait as long for
// the jobs themselves.
const memoryWait = 30 * time.Second

// RetryAfter is when to try again, in seconds, what ErrMemory refused.
const RetryAfter = "5"

// ErrMemory says that there is no memory left for a body. Its answer is 503.
var ErrMemory = errors.New("the deployment has no memory left for this: other bodies are under way, try again in a few seconds")

// Memory is a budget of bytes that bodies under way share. One that is larger
// than the whole budget is admitted when there is no other. A nil Memory has no
// bound.
type Memory struct {
	limit int64

	mu      sync.Mutex
	used    int64
	waiting []*waiter // the first one first
}

type waiter struct {
	bytes int64
	ready chan struct{}
}

// NewMemory makes a budget.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit} }

// Hold is a part of the budget. A nil Hold is of no Memory.
type Hold struct {
	memory *Memory
	bytes  int64
}

// Reserve takes a part of the budget, or answers ErrMemory at once.
func (m *Memory) Reserve(bytes int64) (*Hold, error) {
	if m == nil {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) > 0 || !m.fits(bytes) {
		return nil, ErrMemory
	}
	m.used += bytes
	return &Hold{m, bytes}, nil
}

// Wait takes a part of the budget when there is one: ErrMemory after half a
// minute, or the error of ctx.
func (m *Memory) Wait(ctx context.Context, bytes int64) (*Hold, error) {
	hold, err := m.Reserve(bytes)
	if err == nil {
		return hold, nil
	}
	w := &waiter{bytes, make(chan struct{})}
	m.mu.Lock()
	m.waiting = append(m.waiting, w)
	m.serve() // something may have been released since
	m.mu.Unlock()
	timer := time.NewTimer(memoryWait)
	defer timer.Stop()
	select {
	case <-w.ready:
		return &Hold{m, bytes}, nil
	case <-timer.C:
		err = ErrMemory
	case <-ctx.Done():
		err = ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.waiting, w); i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
		m.serve()
		return nil, err
	}
	return &Hold{m, bytes}, nil // it was served at the last moment
}

func (m *Memory) fits(bytes int64) bool { return m.used == 0 || m.used+bytes <= m.limit }

// serve gives those who wait their parts, as far as they fit.
func (m *Memory) serve() {
	for len(m.waiting) > 0 && m.fits(m.waiting[0].bytes) {
		m.used += m.waiting[0].bytes
		close(m.waiting[0].ready)
		m.waiting = m.waiting[1:]
	}
}

// Resize makes the part another size, however little is left.
func (h *Hold) Resize(bytes int64) {
	if h == nil {
		return
	}
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	h.memory.used += bytes - h.bytes
	h.bytes = bytes
	h.memory.serve()
}

// grow makes the part larger, as far as the budget has room.
func (h *Hold) grow(bytes int64) error {
	if h == nil {
		return nil
	}
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	if more := bytes - h.bytes; h.memory.used != h.bytes && h.memory.used+more > h.memory.limit {
		return ErrMemory
	}
	h.memory.used += bytes - h.bytes
	h.bytes = bytes
	return nil
}

// Release gives the part back. It may be called again.
func (h *Hold) Release() { h.Resize(0) }

// A body is read into a buffer of its length, where the client tells that, else
// into one that grows from this on.
const firstBuffer = 16 << 10

// ReadBody reads the body of a request from a reader of it, and reserves a
// multiple of its size, for what the caller makes of it. Until the caller is done
// with that it keeps the hold. With wait, which is for the deployment's own
// workers, it waits for the memory.
func (m *Memory) ReadBody(r *http.Request, from io.Reader, multiple int64, wait bool) (body []byte, hold *Hold, err error) {
	size := max(r.ContentLength+1, firstBuffer) // one more, to see the end
	if wait {
		hold, err = m.Wait(r.Context(), multiple*size)
	} else {
		hold, err = m.Reserve(multiple * size)
	}
	if err != nil {
		return nil, nil, err
	}
	body = make([]byte, 0, size)
	for {
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, hold, nil
		}
		if err == nil && len(body) == cap(body) {
			// The old and the new buffer are there for a moment.
			if err = hold.grow((2*multiple + 1) * int64(cap(body))); err == nil {
				body = append(make([]byte, 0, 2*cap(body)), body...)
				hold.Resize(multiple * int64(cap(body)))
			}
		}
		if err != nil {
			hold.Release()
			return nil, nil, err
		}
	}
}

package httplimit

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/sync/semaphore"
)

const memoryWait = 30 * time.Second

// RetryAfter is the Retry-After header of the 503 for an error of this package, in seconds.
const RetryAfter = "5"

// ErrMemory means that the budget has no room for a body. The answer is 503.
var ErrMemory = errors.New("the deployment has no memory left for this body: other bodies are in flight, try again in a few seconds")

// Memory is a budget of bytes for bodies in flight, first come, first served. A reservation that exceeds it
// takes the whole budget.
type Memory struct {
	limit   int64
	free    *semaphore.Weighted
	waiting atomic.Int64 // calls of ReserveWhenFree
}

func NewMemory(limit int64) *Memory { return &Memory{limit: limit, free: semaphore.NewWeighted(limit)} }

func (m *Memory) Limit() int64 { return m.limit }

// Reservation is a reserved part of the budget. A nil Reservation reserves nothing.
type Reservation struct {
	memory *Memory
	bytes  int64
}

// Reserve reserves a part of the budget, or returns ErrMemory at once.
func (m *Memory) Reserve(bytes int64) (*Reservation, error) {
	r := &Reservation{memory: m}
	if err := r.grow(bytes); err != nil {
		return nil, err
	}
	return r, nil
}

// ReserveWhenFree waits until a part of the budget is free, and reserves it. It returns ErrMemory after
// memoryWait, or ctx's error.
func (m *Memory) ReserveWhenFree(ctx context.Context, bytes int64) (*Reservation, error) {
	waitCtx, cancel := context.WithTimeout(ctx, memoryWait)
	defer cancel()
	bytes = min(bytes, m.limit)
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	if m.free.Acquire(waitCtx, bytes) != nil {
		return nil, cmp.Or(ctx.Err(), ErrMemory)
	}
	return &Reservation{m, bytes}, nil
}

// grow enlarges the reservation to a number of bytes, or returns ErrMemory at once.
func (r *Reservation) grow(bytes int64) error {
	bytes = min(bytes, r.memory.limit)
	if extra := bytes - r.bytes; extra > 0 && !r.memory.free.TryAcquire(extra) {
		return ErrMemory
	}
	r.bytes = bytes
	return nil
}

// Contended reports whether somebody waits for a part of the budget.
func (m *Memory) Contended() bool { return m.waiting.Load() > 0 }

// Shrink releases all but the given number of bytes.
func (r *Reservation) Shrink(bytes int64) {
	if r != nil {
		bytes = min(bytes, r.bytes)
		r.memory.free.Release(r.bytes - bytes)
		r.bytes = bytes
	}
}

// Release releases the reservation. It may be called again.
func (r *Reservation) Release() { r.Shrink(0) }

// initialBufferSize is the initial buffer size of a body without Content-Length.
const initialBufferSize = 16 << 10

// ReadBody reads a request's body from a reader that enforces limit. It reserves a multiple of the
// body's size, because the caller needs memory to process it. The caller must release the reservation. If
// wait is true, as for the deployment's own workers, ReadBody waits for its first reservation, which is
// the only one if the request has a Content-Length. If the Content-Length exceeds the limit, ReadBody
// returns an *http.MaxBytesError.
func (m *Memory) ReadBody(r *http.Request, from io.Reader, limit, multiple int64, wait bool) (body []byte, reservation *Reservation, err error) {
	if r.ContentLength > limit {
		return nil, nil, &http.MaxBytesError{Limit: limit}
	}
	size := r.ContentLength + 1 // one byte more, to detect the end
	if r.ContentLength < 0 {
		size = initialBufferSize
	}
	if wait {
		reservation, err = m.ReserveWhenFree(r.Context(), multiple*size)
	} else {
		reservation, err = m.Reserve(multiple * size)
	}
	if err != nil {
		return nil, nil, err
	}
	body = make([]byte, 0, size)
	for {
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, reservation, nil
		}
		if err == nil && len(body) == cap(body) {
			// Both buffers exist while one is copied to the other.
			if err = reservation.grow((2*multiple + 1) * int64(cap(body))); err == nil {
				body = append(make([]byte, 0, 2*cap(body)), body...)
				reservation.Shrink(multiple * int64(cap(body)))
			}
		}
		if err != nil {
			reservation.Release()
			return nil, nil, err
		}
	}
}

// bodyShare divides the machine's memory to get the budget of bodies in flight.
const bodyShare = 16

// Limits of the default budget, and its value if the machine's memory is unknown.
const (
	minBodyMemory     = 128 << 20
	maxBodyMemory     = 4 << 30
	unknownBodyMemory = 256 << 20
)

// MachineMemory returns the size of the machine's memory in bytes, or the limit of the control group if it is
// smaller. 0 means unknown.
func MachineMemory() int64 {
	bytes, _ := memlimit.FromSystem() // 0 on error
	if limit, err := memlimit.FromCgroup(); err == nil && (bytes == 0 || limit < bytes) {
		bytes = limit
	}
	return int64(min(bytes, math.MaxInt64)) //nolint:gosec // min keeps it in range
}

// DefaultMemory is a sixteenth of the machine's or container's memory, within 128 MiB and 4 GiB.
func DefaultMemory() int64 {
	bytes := MachineMemory()
	if bytes == 0 {
		return unknownBodyMemory
	}
	return min(max(bytes/bodyShare, minBodyMemory), maxBodyMemory)
}

package page

import (
	"sync"
	"time"
)

// cached is a value that all readers share for a moment: they ask every second.
type cached[T any] struct {
	mu   sync.Mutex
	read time.Time // zero: never, or dropped
	last T
}

// get returns the value, which read reads again where it is older than age.
func (c *cached[T]) get(now time.Time, age time.Duration, read func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since := now.Sub(c.read); since >= 0 && since < age {
		return c.last, nil
	}
	value, err := read()
	if err == nil {
		c.last, c.read = value, now
	}
	return value, err
}

// drop has the next reader read again.
func (c *cached[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = time.Time{}
}

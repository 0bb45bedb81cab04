package page

import (
	"sync"
	"time"
)

// cached is a value that all readers share for a moment, because each reads it every second.
type cached[T any] struct {
	mu   sync.Mutex
	read time.Time // zero if never read, or dropped
	last T
}

// get returns the value. If it's older than age, it is read again.
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

// drop makes the next reader read the value again.
func (c *cached[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = time.Time{}
}

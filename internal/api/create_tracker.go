package api

import (
	"context"
	"slices"
	"sync"
)

// createTracker coordinates the creates of one kind in this run. A create with a lost answer
// waits until no other is in flight, and new ones wait until it is resolved. So an object found
// for one create can't belong to another.
type createTracker[T any] struct {
	mu        sync.Mutex
	inFlight  int
	ambiguous []*pendingCreate[T]
	resolving *pendingCreate[T] // the ambiguous create that is being resolved
	known     map[string]bool   // ids that this run created, read or deleted
	changed   chan struct{}     // closed by the next change
}

// wait blocks until ready returns true. ready runs under the lock and may change the tracker
// when it returns true.
func (t *createTracker[T]) wait(ctx context.Context, ready func() bool) error {
	for {
		t.mu.Lock()
		if ready() {
			t.mu.Unlock()
			return nil
		}
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *createTracker[T]) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

func (t *createTracker[T]) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return t.wait(ctx, func() bool {
		if len(t.ambiguous) > 0 {
			return false
		}
		t.inFlight++
		return true
	})
}

// finish ends an answered create. id is the created object, or "".
func (t *createTracker[T]) finish(id string) {
	t.change(func() {
		t.inFlight--
		t.add(id)
	})
}

// awaitTurn waits until a create with a lost answer may look for its object.
func (t *createTracker[T]) awaitTurn(ctx context.Context, a *pendingCreate[T]) error {
	t.change(func() {
		t.inFlight--
		t.ambiguous = append(t.ambiguous, a)
	})
	err := t.wait(ctx, func() bool {
		if t.inFlight > 0 || t.resolving != nil {
			return false
		}
		t.resolving = a
		return true
	})
	if err != nil {
		t.resolved(a)
	}
	return err
}

func (t *createTracker[T]) resolved(a *pendingCreate[T]) {
	t.change(func() {
		t.ambiguous = slices.DeleteFunc(t.ambiguous, func(b *pendingCreate[T]) bool { return a == b })
		if t.resolving == a {
			t.resolving = nil
		}
	})
}

// claims counts the lost creates, including a, that could have made one of the objects in
// question. alike reports whether all of them asked for the same.
func (t *createTracker[T]) claims(a *pendingCreate[T], could func(*pendingCreate[T]) bool) (n int, alike bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	alike = true
	for _, b := range t.ambiguous {
		if b == a || could(b) {
			n++
			alike = alike && a.body == b.body
		}
	}
	return n, alike
}

// account marks an id as created by this run, or as deleted: a stale list must not show it as
// new.
func (t *createTracker[T]) account(id string) { t.change(func() { t.add(id) }) }

// addRead marks an id that was read: the object is managed, so no lost create left it
// behind.
func (t *createTracker[T]) addRead(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(id)
}

// add marks an id as known, so that no other create claims it.
func (t *createTracker[T]) add(id string) {
	if id == "" {
		return
	}
	if t.known == nil {
		t.known = map[string]bool{}
	}
	t.known[id] = true
}

func (t *createTracker[T]) isKnown(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[id]
}

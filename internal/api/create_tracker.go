package api

import (
	"context"
	"slices"
	"sync"
)

// createTracker follows the creates of one kind in this run. An ambiguous one
// waits until no other is in flight, and others wait until it is resolved: an
// object that one finds can then not be the answer to another.
type createTracker[T any] struct {
	mu        sync.Mutex
	inFlight  int
	ambiguous []*pendingCreate[T]
	resolving *pendingCreate[T] // of the ambiguous creates
	accounted map[string]bool   // ids that this run made, read or deleted
	changed   chan struct{}     // closed by the next change
}

// wait waits for ready, which is called under the lock and whose effects hold
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

// finish ends a create that was answered; id is what it made, "" for nothing.
func (t *createTracker[T]) finish(id string) {
	t.change(func() {
		t.inFlight--
		t.add(id)
	})
}

// awaitTurn waits for the turn of a create whose answer was lost.
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

// claims counts the lost creates, a included, that could have made one of the
// objects in question; alike tells that all of them asked for the same.
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

// account marks an id as the answer to a create, or as deleted: a list that lags
// must not show it as new.
func (t *createTracker[T]) account(id string) { t.change(func() { t.add(id) }) }

// accountRead marks an id that was asked for: the object is managed, and no
// create left it behind.
func (t *createTracker[T]) accountRead(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(id)
}

// add marks an id as accounted for: no other create can have made it.
func (t *createTracker[T]) add(id string) {
	if id == "" {
		return
	}
	if t.accounted == nil {
		t.accounted = map[string]bool{}
	}
	t.accounted[id] = true
}

func (t *createTracker[T]) isAccounted(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.accounted[id]
}

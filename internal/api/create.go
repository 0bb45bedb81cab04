package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// Create sends a POST and returns the created object. If the answer is lost (no answer, a 5xx, a
// broken body), it looks for an object that equals want in everything that the API returns. It adopts the object
// only if it didn't exist before the POST, isn't from another create of this run, and isn't in the run's state.
//
//   - If names are unique, the candidate is the object with the name.
//   - Otherwise every such object is a candidate. If several creates of this run sent the same body
//     and lost their answers, there may be as many candidates as such creates, but not more.
//   - If the kind has secrets, which the API doesn't return, no object is adopted, because its
//     secrets can't be compared. The object with the name is deleted and created again. If it can't
//     be deleted now, it is returned with an error, so that the caller doesn't lose it.
//
// An object that existed before is never adopted, even if it is equal: it may belong to another
// configuration. The POST is repeated only if no new object is visible, and either a unique name prevents a
// second one or the server asks for it (503 with Retry-After). If the outcome stays unclear, the error is an
// *UnresolvedCreateError.
//
// Sources: docs/guides/adoption.md; field notes, "create may be ambiguous".
func (r *Collection[T]) Create(ctx context.Context, want T) (T, error) {
	var none T
	ctx, _ = redact.NewContext(ctx) // includes the lookups after a lost answer
	body, err := r.create(want)
	if err != nil {
		return none, err
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return none, fmt.Errorf("encoding the body: %w", err)
	}
	attempt := &pendingCreate[T]{want: want, body: string(encoded)}
	defer r.cache.beginWrite()()
	c := httpclient.Call{Method: http.MethodPost, URL: r.settings.BaseURL + r.path, Body: body}
	for try := 1; ; try++ {
		attempt.isLastTry = try == httpclient.MaxTries
		got, err := r.createOnce(ctx, c, attempt)
		if unresolved, ok := errors.AsType[*UnresolvedCreateError](err); !ok || !unresolved.repeatable || attempt.isLastTry || ctx.Err() != nil {
			return got, err
		}
		if wait, ok := httpclient.Backoff(try, err); !ok || httpclient.Sleep(ctx, wait) != nil {
			return got, err
		}
	}
}

// pendingCreate is an object that this run is creating.
type pendingCreate[T any] struct {
	want      T
	body      string
	existing  map[string]bool // ids right before the POST; nil if the list was refused
	ambiguous bool            // an answer was lost
	isLastTry bool            // no further POST follows
}

func (r *Collection[T]) createOnce(ctx context.Context, c httpclient.Call, a *pendingCreate[T]) (T, error) {
	var none T
	if err := r.creates.acquire(ctx, 1); err != nil {
		return none, r.NotSent(c, err)
	}
	if !a.ambiguous { // after a lost answer, the first list still counts
		existing, err := r.currentIDs(ctx)
		if err != nil {
			r.creates.finish("")
			return none, fmt.Errorf("nothing was created, because the existing %ss could not be listed first: %w", r.kind, err)
		}
		a.existing = existing
	}
	got, response, err := r.sendForObject(ctx, c, "", a.want)
	if err == nil && a.existing[r.id(got)] {
		err = response.UnreadableError(fmt.Errorf("it describes the %s %s, which existed before", r.kind, r.id(got)))
	}
	if err == nil {
		r.creates.finish(r.id(got))
		r.RecentCreates.Add(r.id(got), time.Time{})
		return got, nil
	}
	failure, ok := errors.AsType[*Error](err)
	switch {
	case ok && failure.Ambiguous():
		a.ambiguous = true
	case !ok || !r.uniqueNames || failure.Method != http.MethodPost ||
		!slices.Contains([]int{http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity}, failure.Status): // the error doesn't say that the name is taken
		r.creates.finish("")
		return none, err
	}
	resolveCtx, release := httpclient.WithGracePeriod(ctx, resolveAfterInterrupt)
	defer release()
	if err := r.creates.awaitTurn(resolveCtx, a); err != nil {
		return none, r.searchError(failure, interrupted{})
	}
	defer r.creates.endResolution(a)
	if r.uniqueNames {
		return r.resolveByName(resolveCtx, a, failure, ctx.Err() != nil)
	}
	return r.resolveByNewObjects(resolveCtx, a, failure)
}

// createTracker coordinates the creates of one kind in this run. A create with a lost answer
// waits until no other is in flight, and new ones wait until it is resolved. So an object found
// for one create can't belong to another.
type createTracker[T any] struct {
	once sync.Once
	// turns has one unit for each create in flight. A create that is being resolved has all units.
	turns *semaphore.Weighted

	mu        sync.Mutex
	ambiguous []*pendingCreate[T]
	handled   map[string]bool // ids that this run created, read or deleted, or that a plan has warned about
}

const allTurns = 1 << 30

func (t *createTracker[T]) acquire(ctx context.Context, turns int64) error {
	t.once.Do(func() { t.turns = semaphore.NewWeighted(allTurns) })
	return t.turns.Acquire(ctx, turns)
}

// finish ends an answered create. id is the created object, or "".
func (t *createTracker[T]) finish(id string) {
	t.markHandled(id)
	t.turns.Release(1)
}

// awaitTurn waits until a create with a lost answer may look for its object. The caller must then
// call endResolution, unless the wait fails.
func (t *createTracker[T]) awaitTurn(ctx context.Context, a *pendingCreate[T]) error {
	t.mu.Lock()
	t.ambiguous = append(t.ambiguous, a)
	t.mu.Unlock()
	t.turns.Release(1)
	err := t.acquire(ctx, allTurns)
	if err != nil {
		t.removeAmbiguous(a)
	}
	return err
}

func (t *createTracker[T]) endResolution(a *pendingCreate[T]) {
	t.removeAmbiguous(a)
	t.turns.Release(allTurns)
}

func (t *createTracker[T]) removeAmbiguous(a *pendingCreate[T]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ambiguous = slices.DeleteFunc(t.ambiguous, func(b *pendingCreate[T]) bool { return a == b })
}

// countClaims counts the creates with lost answers, including a, that could have made one of the
// candidates. alike reports whether all of them sent the same body.
func (t *createTracker[T]) countClaims(a *pendingCreate[T], couldHaveMade func(*pendingCreate[T]) bool) (n int, alike bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	alike = true
	for _, b := range t.ambiguous {
		if b == a || couldHaveMade(b) {
			n++
			alike = alike && a.body == b.body
		}
	}
	return n, alike
}

// markHandled adds an id to handled. A create with a lost answer doesn't adopt the object, even if a stale list
// showed it only after the POST.
func (t *createTracker[T]) markHandled(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handled == nil {
		t.handled = map[string]bool{}
	}
	t.handled[id] = true
}

func (t *createTracker[T]) isHandled(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handled[id]
}

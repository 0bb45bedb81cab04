package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// Create sends a POST and finds out what it made. If the answer is lost (no answer, a 5xx, a
// broken body), it adopts an object only if the object didn't exist before the POST, isn't from
// another create of this run, isn't in its state, and equals want in everything that the API returns.
//
//   - If names are unique, the candidate is the object with the name.
//   - Otherwise there must be at most as many candidates as equal creates of this run whose answers
//     were lost.
//   - If the kind has secrets, which the API doesn't return, no object is adopted, because its
//     secrets can't be compared. The object with the name is deleted and created again. If it can't
//     be deleted now, it is returned with an error, so that the caller doesn't lose it.
//
// An object that existed before is never adopted, even if it is equal: it may belong to another
// configuration. The POST is repeated only if a unique name would prevent a second object, or
// if the server asks for it (503 with Retry-After) and nothing new is visible. If the outcome
// stays unclear, the error is an *UnresolvedCreateError.
//
// Sources: docs/guides/adoption.md; field notes, create may be ambiguous.
func (r *restCollection[T]) Create(ctx context.Context, want T) (T, error) {
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
		attempt.last = try == httpclient.MaxTries
		got, err := r.createOnce(ctx, c, attempt)
		if !errors.Is(err, errNothingCreated) || attempt.last || ctx.Err() != nil {
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
	before    map[string]bool // ids right before the POST; nil if the list was refused
	ambiguous bool            // an answer was lost
	last      bool            // no further POST follows
}

// errNothingCreated marks a failed create that may safely be repeated.
var errNothingCreated = errors.New("nothing was created")

func (r *restCollection[T]) createOnce(ctx context.Context, c httpclient.Call, a *pendingCreate[T]) (T, error) {
	var none T
	if err := r.creates.begin(ctx); err != nil {
		return none, r.NotSent(c, err)
	}
	if !a.ambiguous { // after a lost answer, the first list still counts
		before, err := r.currentIDs(ctx)
		if err != nil {
			r.creates.finish("")
			return none, fmt.Errorf("nothing was created, because the %ss that exist could not be listed first: %w", r.kind, err)
		}
		a.before = before
	}
	var response *httpclient.Response
	c.Succeeded = func(r *httpclient.Response) { response = r }
	got, err := r.sendForObject(ctx, c, "")
	if err == nil && a.before[r.id(got)] {
		err = response.Unreadable(fmt.Errorf("it describes the %s %s, which existed before", r.kind, r.id(got)))
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
	case !ok || !r.uniqueNames || failure.Method != http.MethodPost || !refusesName(failure.Status):
		r.creates.finish("")
		return none, err
	}
	resolveCtx, release := httpclient.Grace(ctx, resolveAfterInterrupt)
	defer release()
	if err := r.creates.awaitTurn(resolveCtx, a); err != nil {
		return none, r.searchFailed(failure, errors.New("interrupted"))
	}
	defer r.creates.resolved(a)
	if r.uniqueNames {
		return r.resolveByName(resolveCtx, a, failure, ctx.Err() != nil)
	}
	return r.resolveByNewObjects(resolveCtx, a, failure)
}

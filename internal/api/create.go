package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// Create sends a POST and accounts for it. An object is taken for what the
// POST made on evidence alone: the answer was lost (no answer, a 5xx, a broken
// body), the object was not there before, nothing else in this run made it or
// owns it, and it equals what was asked for in all that the API returns.
//
//   - a kind whose names are unique: the object of that name.
//   - any other kind: the only such object. Equal creates of one run share out
//     what they find.
//   - a kind with secrets, which the API does not return: none is taken for
//     complete. What the lost POST left under the name is deleted, and created
//     again; where that can't be done now it is returned with an error, so that
//     the caller does not lose it.
//
// What was there before is never taken over, also where it is equal: it may be
// another configuration's. Nothing is created a second time unless the name
// would refuse it, or the server asks for it (503 with Retry-After) and nothing
// new is to be seen. What can't be known is an *UnsettledError.
//
// Sources: docs/guides/adoption.md; field notes, create may be ambiguous.
func (r *rest[T, W]) Create(ctx context.Context, want T) (T, error) {
	var none T
	body, err := r.create(want)
	if err != nil {
		return none, err
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return none, fmt.Errorf("encoding the body: %w", err)
	}
	attempt := &creation[T]{want: want, body: string(encoded)}
	defer r.shelf.write()()
	c := httpclient.Call{Method: http.MethodPost, URL: r.settings.BaseURL + r.path, Body: body, Secrets: r.secrets(want)}
	for try := 1; ; try++ {
		attempt.last = try == httpclient.MaxTries
		got, err := r.createOnce(ctx, c, attempt)
		if !errors.Is(err, errNothingMade) || attempt.last || ctx.Err() != nil {
			return got, err
		}
		if wait, ok := httpclient.Backoff(try, err); !ok || httpclient.Sleep(ctx, wait) != nil {
			return got, err
		}
	}
}

// creation is one object that this run is making.
type creation[T any] struct {
	want   T
	body   string
	before map[string]bool // ids right before the POST; nil where the list is refused
	lost   bool            // an answer was lost
	last   bool            // no further POST follows
}

// resolveAfterInterrupt is how long a lost answer is looked into, from the
// interruption of the caller on.
const resolveAfterInterrupt = 8 * time.Second

// lookups are the pauses before each look for what a lost answer made.
var lookups = []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second}

// errNothingMade marks the failure of a create that may safely be sent again.
var errNothingMade = errors.New("nothing was made")

func (r *rest[T, W]) createOnce(ctx context.Context, c httpclient.Call, a *creation[T]) (T, error) {
	var none T
	if err := r.makers.begin(ctx); err != nil {
		return none, r.NotSent(c, err)
	}
	if !a.lost { // after a lost answer the first list still counts
		before, err := r.idsNow(ctx)
		if err != nil {
			r.makers.end("")
			return none, fmt.Errorf("nothing was created, because the %ss that exist could not be listed first: %w", r.kind, err)
		}
		a.before = before
	}
	got, err := r.object(ctx, c)
	if err == nil {
		r.makers.end(r.id(got))
		r.RecentCreates.Add(r.id(got), time.Time{})
		return got, nil
	}
	failure, ok := errors.AsType[*Error](err)
	switch {
	case ok && failure.Ambiguous():
		a.lost = true
	case !ok || !r.unique || failure.Method != http.MethodPost || !refusedBody(failure.Status):
		r.makers.end("")
		return none, err
	}
	settling, release := httpclient.Grace(ctx, resolveAfterInterrupt)
	defer release()
	if err := r.makers.lose(settling, a); err != nil {
		return none, r.unsettled(failure, "whether it was created could not be looked up: interrupted")
	}
	defer r.makers.settled(a)
	if r.unique {
		return r.settleByName(settling, a, failure, ctx.Err() != nil)
	}
	return r.settleByNews(settling, a, failure)
}

// refusedBody are the statuses with which a taken name is refused.
func refusedBody(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusConflict || status == http.StatusUnprocessableEntity
}

// settleByName looks for the object that has the name.
func (r *rest[T, W]) settleByName(ctx context.Context, a *creation[T], failure *Error, interrupted bool) (T, error) {
	var none T
	named := func(o T) bool { return r.name(o) == r.name(a.want) }
	found, err := r.look(ctx, a, named, failure.Ambiguous())
	switch {
	case err != nil && !a.lost:
		return none, failure
	case err != nil:
		return none, r.unsettled(failure, "whether it was created could not be looked up: "+strings.TrimSuffix(err.Error(), "."))
	case len(found) == 0 && failure.Ambiguous():
		return none, notMade{r.unsettled(failure, fmt.Sprintf("no %s has its name, so it was not created", r.kind))}
	case len(found) == 0:
		return none, failure
	}
	o := found[0]
	switch id := r.id(o); {
	case !a.lost || a.before[id]:
		return none, r.unsettled(failure, fmt.Sprintf("another %s has the name, and names are unique (a replacement with create_before_destroy needs a new name)", r.kind), o)
	case a.before == nil:
		return none, r.unsettled(failure, fmt.Sprintf("a %s has the name, and whether it was there before is not known, since the list was refused", r.kind), o)
	case r.opaque:
		if ctx.Err() == nil && !interrupted && !a.last && r.Delete(ctx, id) == nil {
			return none, notMade{r.unsettled(failure, fmt.Sprintf("%s had its name, and was deleted", id))}
		}
		r.makers.recordID(id)
		return o, fmt.Errorf("%w It was then looked for: %s is new and has the name. Whether it holds the credentials is not known: the next apply makes it again", withoutAdvice{failure}, id)
	case !r.same(o, a.want):
		return none, r.unsettled(failure, fmt.Sprintf("another %s has the name, with other settings, and names are unique", r.kind), o)
	}
	r.makers.recordID(r.id(o))
	return o, nil
}

// settleByNews looks for the only object that can be the one that was made.
func (r *rest[T, W]) settleByNews(ctx context.Context, a *creation[T], failure *Error) (T, error) {
	var none T
	if a.before == nil {
		return none, r.unsettled(failure, fmt.Sprintf("whether it was created is not known, since the list of %ss is refused", r.kind))
	}
	fresh := func(o T) bool { return !a.before[r.id(o)] && r.name(o) == r.name(a.want) }
	found, err := r.look(ctx, a, fresh, true)
	if err != nil {
		return none, r.unsettled(failure, "whether it was created could not be looked up: "+strings.TrimSuffix(err.Error(), "."))
	}
	var equal []T
	for _, o := range found {
		if r.same(o, a.want) {
			equal = append(equal, o)
		}
	}
	switch claims, alike := r.makers.claims(a, func(b *creation[T]) bool {
		return slices.ContainsFunc(equal, func(o T) bool { return r.same(o, b.want) })
	}); {
	case len(equal) > 0 && alike && len(equal) <= claims:
		r.makers.recordID(r.id(equal[0]))
		return equal[0], nil
	case len(equal) > 0:
		return none, r.unsettled(failure, fmt.Sprintf("more than one new %s could be the one that was created, and which one is not known", r.kind), equal...)
	case len(found) > 0:
		return none, r.unsettled(failure, fmt.Sprintf("a %s of its name is new, with other settings: whether it is the one that was created is not known", r.kind), found...)
	}
	unseen := r.unsettled(failure, fmt.Sprintf("no new %s of its name has appeared, so it was most likely not created", r.kind))
	if failure.Status == http.StatusServiceUnavailable && failure.RetryAfter > 0 {
		return none, notMade{unseen} // the server asks for it
	}
	return none, unseen
}

// look lists until something is found that this run has not made otherwise;
// with patience it lists several times, as what was just made may take a
// moment to show.
func (r *rest[T, W]) look(ctx context.Context, a *creation[T], fits func(T) bool, patient bool) ([]T, error) {
	for n, wait := range lookups {
		if n > 0 && (!patient || r.unique) {
			break // another POST is harmless, or nothing was made just now
		}
		if err := httpclient.Sleep(ctx, wait); err != nil {
			return nil, errors.New("interrupted")
		}
		elements, err := r.elements(ctx, r.secrets(a.want)...)
		if err != nil {
			return nil, err
		}
		var found []T
		for _, e := range elements {
			if r.makers.mine(e.id) {
				continue
			}
			o, err := r.decode(e.raw)
			if err == nil && fits(o) && r.shelf.short(e.raw, r.full) {
				o, err = r.fetchOne(ctx, e.id, r.secrets(a.want)...)
			}
			if err == nil && fits(o) {
				found = append(found, o)
			}
		}
		if len(found) > 0 {
			slices.SortFunc(found, func(a, b T) int { return cmp.Compare(r.id(a), r.id(b)) })
			return found, nil
		}
	}
	return nil, nil
}

// idsNow are the ids of the kind at this moment, for several creates that ask
// at once from one list; nil where the list is refused.
func (r *rest[T, W]) idsNow(ctx context.Context) (map[string]bool, error) {
	asked := r.before.DoChan("", func() (any, error) {
		elements, err := r.elements(context.WithoutCancel(ctx))
		ids := make(map[string]bool, len(elements))
		for _, e := range elements {
			ids[e.id] = true
		}
		return ids, err
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case answer := <-asked:
		if listRefused(answer.Err) {
			return nil, nil
		}
		return answer.Val.(map[string]bool), answer.Err
	}
}

func (r *rest[T, W]) unsettled(cause *Error, verdict string, candidates ...T) *UnsettledError {
	e := &UnsettledError{Kind: r.kind, Verdict: verdict, Cause: cause}
	for _, o := range candidates {
		e.Candidates = append(e.Candidates, r.id(o))
	}
	return e
}

// UnsettledError is a create of which is not known what it made, or whose name
// is taken. Candidates are the ids of the objects that it may be.
type UnsettledError struct {
	Kind       string
	Verdict    string
	Candidates []string
	Cause      *Error
}

func (e *UnsettledError) Error() string {
	text := e.Cause.Sentence() + " It was then looked for: " + e.Verdict
	if len(e.Candidates) > 0 {
		text += ": " + strings.Join(e.Candidates, ", ") + ". Nothing was taken over and nothing was created again: look at it, and import it if it is yours."
	} else {
		text += ". Nothing was created again: apply again, and look for it first if the next plan warns of it."
	}
	if e.Cause.TimedOut {
		text += " " + e.Cause.Remedy()
	}
	return text
}

func (e *UnsettledError) Unwrap() error { return e.Cause }

// withoutAdvice is an error without its advice.
type withoutAdvice struct{ cause *Error }

func (e withoutAdvice) Error() string { return e.cause.Sentence() }
func (e withoutAdvice) Unwrap() error { return e.cause }

// notMade is a failed create that may be sent again.
type notMade struct{ error }

func (e notMade) Unwrap() error      { return e.error }
func (notMade) Is(target error) bool { return target == errNothingMade }

// makers are the creates of one kind in this run. A lost one waits until no
// other is in flight, and others wait until it is settled: an object that one
// finds can then not be the answer to another.
type makers[T any] struct {
	mu      sync.Mutex
	flying  int
	losers  []*creation[T]
	turn    *creation[T]    // of the losers that is being settled
	made    map[string]bool // ids that this run made, read or deleted
	changed chan struct{}   // closed by the next change
}

// until waits for ready, which is called under the lock and whose effects hold
// when it returns true.
func (m *makers[T]) until(ctx context.Context, ready func() bool) error {
	for {
		m.mu.Lock()
		if ready() {
			m.mu.Unlock()
			return nil
		}
		if m.changed == nil {
			m.changed = make(chan struct{})
		}
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *makers[T]) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

func (m *makers[T]) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.until(ctx, func() bool {
		if len(m.losers) > 0 {
			return false
		}
		m.flying++
		return true
	})
}

// end is a create that was answered; id is what it made, "" for nothing.
func (m *makers[T]) end(id string) {
	m.change(func() {
		m.flying--
		m.note(id)
	})
}

// lose waits for the turn of a create whose answer was lost.
func (m *makers[T]) lose(ctx context.Context, a *creation[T]) error {
	m.change(func() {
		m.flying--
		m.losers = append(m.losers, a)
	})
	err := m.until(ctx, func() bool {
		if m.flying > 0 || m.turn != nil {
			return false
		}
		m.turn = a
		return true
	})
	if err != nil {
		m.settled(a)
	}
	return err
}

func (m *makers[T]) settled(a *creation[T]) {
	m.change(func() {
		m.losers = slices.DeleteFunc(m.losers, func(b *creation[T]) bool { return a == b })
		if m.turn == a {
			m.turn = nil
		}
	})
}

// claims counts the lost creates, a included, that could have made one of the
// objects in question; alike tells that all of them asked for the same.
func (m *makers[T]) claims(a *creation[T], could func(*creation[T]) bool) (n int, alike bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	alike = true
	for _, b := range m.losers {
		if b == a || could(b) {
			n++
			alike = alike && a.body == b.body
		}
	}
	return n, alike
}

// recordID marks an id as the answer to a create.
func (m *makers[T]) recordID(id string) { m.change(func() { m.note(id) }) }

// deleted keeps an id from being taken for a new object's, where a list lags.
func (m *makers[T]) deleted(id string) { m.recordID(id) }

// know is an id that somebody asked for: it is managed, and nothing that a
// create left behind.
func (m *makers[T]) know(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(id)
}

// note marks an id as accounted for: no other create can have made it.
func (m *makers[T]) note(id string) {
	if id == "" {
		return
	}
	if m.made == nil {
		m.made = map[string]bool{}
	}
	m.made[id] = true
}

func (m *makers[T]) mine(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made[id]
}

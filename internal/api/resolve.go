package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// resolveAfterInterrupt limits the search for the object of a lost answer after the caller was
// interrupted.
const resolveAfterInterrupt = 8 * time.Second

// lookupPauses are the pauses before each search for the object of a lost answer.
var lookupPauses = []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second}

// resolveByName looks for the object with the unique name of the create.
func (r *Collection[T]) resolveByName(ctx context.Context, a *pendingCreate[T], failure *Error, interrupted bool) (T, error) {
	var none T
	hasName := func(o T) bool { return r.sameName(o, a.want) }
	postFollows := failure.Ambiguous() && !a.isLastTry && !interrupted // harmless, and it proves whether the name is taken
	found, err := r.search(ctx, hasName, hasName, a.ambiguous && !postFollows)
	switch {
	case err != nil && a.ambiguous:
		return none, r.searchError(failure, err)
	case len(found) == 0 && failure.Ambiguous(): // so a.ambiguous is true, and err nil
		return none, r.repeatableError(failure, fmt.Sprintf("no %s has this name, so it was not created", r.kind))
	case len(found) == 0 || err != nil:
		return none, failure
	}
	o := found[0]
	r.RecentCreates.Add(r.id(o), time.Time{}) // a read or deletion of it may get 404 for a while
	switch id := r.id(o); {
	case !a.ambiguous || a.existing[id] || head(o).Name != head(a.want).Name:
		return none, r.unresolvedError(failure, fmt.Sprintf("another %s has the name, and names must be unique (a replacement with create_before_destroy needs a new name)", r.kind), o)
	case a.existing == nil:
		return none, r.unresolvedError(failure, fmt.Sprintf("a %s has the name, but it may have existed before: the list was refused", r.kind), o)
	case r.writeOnly:
		if ctx.Err() == nil && !interrupted && !a.isLastTry && r.Delete(ctx, id) == nil {
			return none, r.repeatableError(failure, fmt.Sprintf("%s had the name, and was deleted", id))
		}
		r.creates.markHandled(id)
		return o, fmt.Errorf("%w A search for it found %s, which is new and has the name. It may lack the credentials, so the next apply creates it again", withoutAdvice{failure}, id)
	case !r.isEqual(o, a.want):
		return none, r.unresolvedError(failure, fmt.Sprintf("another %s has the name, with other settings, and names must be unique", r.kind), o)
	}
	r.creates.markHandled(r.id(o))
	return o, nil
}

// resolveByNewObjects looks for the only object that the create may have made.
func (r *Collection[T]) resolveByNewObjects(ctx context.Context, a *pendingCreate[T], failure *Error) (T, error) {
	var none T
	if a.existing == nil {
		return none, r.unresolvedError(failure, fmt.Sprintf("it may have been created: the list of %ss is refused", r.kind))
	}
	isNew := func(o T) bool { return !a.existing[r.id(o)] && r.sameName(o, a.want) }
	isWanted := func(o T) bool { return r.isEqual(o, a.want) }
	found, err := r.search(ctx, isNew, isWanted, true)
	if err != nil {
		return none, r.searchError(failure, err)
	}
	equal := slices.DeleteFunc(slices.Clone(found), func(o T) bool { return !isWanted(o) })
	switch claims, alike := r.creates.countClaims(a, func(b *pendingCreate[T]) bool {
		return slices.ContainsFunc(equal, func(o T) bool { return r.isEqual(o, b.want) })
	}); {
	case len(equal) > 0 && alike && len(equal) <= claims:
		r.creates.markHandled(r.id(equal[0]))
		r.RecentCreates.Add(r.id(equal[0]), time.Time{})
		return equal[0], nil
	case len(equal) > 0:
		return none, r.unresolvedError(failure, fmt.Sprintf("several new %ss could be the created one", r.kind), equal...)
	case len(found) > 0:
		return none, r.unresolvedError(failure, fmt.Sprintf("there is a new %s with the name, but with other settings, so it may not be the created one", r.kind), found...)
	}
	unresolved := r.unresolvedError(failure, fmt.Sprintf("no new %s with the name has appeared, so it was probably not created", r.kind))
	unresolved.repeatable = failure.Status == http.StatusServiceUnavailable && failure.RetryAfter > 0 // the server asked for it
	return none, unresolved
}

// search returns the objects that fit, except the handled ones (createTracker). A new object may take
// a moment to appear: if repeats is true, it lists several times, until an object isWanted. It also repeats a
// list that can't be decoded.
func (r *Collection[T]) search(ctx context.Context, fits, isWanted func(T) bool, repeats bool) (found []T, err error) {
	for n, wait := range lookupPauses {
		if n > 0 && err == nil && (!repeats || slices.ContainsFunc(found, isWanted)) {
			break
		}
		if httpclient.Sleep(ctx, wait) != nil {
			return nil, interrupted{}
		}
		var elements []element
		if elements, err = r.fetchList(ctx); err != nil && statusOf(err) != http.StatusOK {
			return nil, err
		}
		found = nil
		for _, e := range elements {
			if r.creates.isHandled(e.id) {
				continue
			}
			o, err := r.decode(e.raw)
			if err == nil && fits(o) && !ValidID(e.id) {
				return nil, fmt.Errorf("the deployment lists it under an id that can't be used, %s: delete it there", quoteID(e.id))
			}
			if err == nil && fits(o) && r.cache.isIncomplete(e.raw, r.required) {
				o, err = r.GetFresh(ctx, e.id)
			}
			if err == nil && fits(o) {
				found = append(found, o)
			}
		}
	}
	slices.SortFunc(found, func(a, b T) int { return cmp.Compare(r.id(a), r.id(b)) })
	return found, err
}

// currentIDs returns the ids that exist now, from one list for concurrent creates. It returns
// nil if the list is refused.
func (r *Collection[T]) currentIDs(ctx context.Context) (map[string]bool, error) {
	uncached := func() (map[string]bool, bool) { return nil, false }
	ids, err := share(ctx, &r.idsFlight, "", "listing the "+r.kind+"s", uncached, func(ctx context.Context) (map[string]bool, error) {
		elements, err := r.fetchList(ctx)
		ids := make(map[string]bool, len(elements))
		for _, e := range elements {
			ids[e.id] = true
		}
		return ids, err
	})
	if listRefused(err) {
		return nil, nil
	}
	return ids, err
}

func (r *Collection[T]) unresolvedError(cause *Error, verdict string, candidates ...T) *UnresolvedCreateError {
	e := &UnresolvedCreateError{Verdict: "A search for it: " + verdict, Cause: cause}
	for _, o := range candidates {
		e.Candidates = append(e.Candidates, r.id(o))
	}
	return e
}

// repeatableError returns the error of a create that may be sent again, because its object doesn't exist.
func (r *Collection[T]) repeatableError(cause *Error, verdict string) *UnresolvedCreateError {
	e := r.unresolvedError(cause, verdict)
	e.repeatable = true
	return e
}

func (r *Collection[T]) searchError(cause *Error, err error) *UnresolvedCreateError {
	return &UnresolvedCreateError{Verdict: "A search for it failed: " + strings.TrimSuffix(err.Error(), "."), Cause: cause}
}

// UnresolvedCreateError is a create that has an unknown outcome or a name that is taken. Candidates
// are the ids of objects that it may have created.
type UnresolvedCreateError struct {
	Verdict    string // result of the search
	Candidates []string
	Cause      *Error

	repeatable bool // the create may safely be sent again
}

// Error describes the failure, the result of the search, and the remedy.
func (e *UnresolvedCreateError) Error() string {
	text := e.Cause.Sentence() + " " + e.Verdict
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

func (e *UnresolvedCreateError) Unwrap() error { return e.Cause }

// Imports lists the commands that import the candidates.
func (e *UnresolvedCreateError) Imports(typeName string) string {
	if len(e.Candidates) == 0 {
		return ""
	}
	commands := make([]string, len(e.Candidates))
	for i, id := range e.Candidates {
		commands[i] = importCommand(typeName, id)
	}
	return "\n\nTo import (or with tofu): " + strings.Join(commands, ", or ")
}

func importCommand(typeName, id string) string {
	return fmt.Sprintf("terraform import %s.NAME %s", typeName, id)
}

type withoutAdvice struct{ cause *Error }

func (e withoutAdvice) Error() string { return e.cause.Sentence() }
func (e withoutAdvice) Unwrap() error { return e.cause }

// ExistingMatch is an object that equals a planned one or has its unique name.
type ExistingMatch struct {
	ID        string
	Equal     bool // equal in all that the API returns
	NameTaken bool // has the planned name, which is unique
}

// ExistingWarning returns the plan's warning about the matches of an object. title is the kind's
// name in messages, typeName the resource type. Each summary contains an id, because Terraform
// merges warnings with equal summaries.
func ExistingWarning(matches []ExistingMatch, title, typeName string) (summary, detail string) {
	m := matches[0]
	command := importCommand(typeName, m.ID)
	if m.NameTaken {
		settings := "" // an auth that differs may have the same credentials, which the API doesn't return
		if m.Equal {
			settings = ", with the same settings in all that the API shows"
		}
		return fmt.Sprintf("The name of the %s is taken: %s", title, m.ID),
			fmt.Sprintf("%s has this name, which is unique%s. The apply fails unless it removes or renames %s first: an object that was there before is never taken over. "+
				"If an interrupted apply left it, import it before you apply (with terraform or tofu): %s\nIf it is managed elsewhere, or create_before_destroy replaces it, choose another name.", m.ID, settings, m.ID, command)
	}
	var ids, commands []string
	for _, match := range matches {
		ids, commands = append(ids, match.ID), append(commands, importCommand(typeName, match.ID))
	}
	more := ""
	if len(matches) > 1 {
		more = fmt.Sprintf(" and %d more", len(matches)-1)
	}
	return fmt.Sprintf("An equal %s exists already: %s%s", title, m.ID, more),
		fmt.Sprintf("No resource that was read so far manages %s, with the same name and settings. If an interrupted apply left it, import it before you apply (with terraform or tofu): %s\n"+
			"Otherwise, if another instance of a count or for_each manages it, or if create_before_destroy replaces it, ignore this warning: the apply creates another one.", strings.Join(ids, ", "), strings.Join(commands, "\n"))
}

// ExistingMatches returns the objects that a create of want could be confused with: equal ones,
// which an interrupted run may have left, and the one with the same unique name. It uses the cached list, and
// returns nothing if the list fails. It also returns nothing once this run has written an object of the kind:
// the list would then contain the run's own objects.
//
// Only the first caller gets an equal object. Otherwise each new instance of a count would get it, although an
// instance that is read later may manage it.
func (r *Collection[T]) ExistingMatches(ctx context.Context, want T) (matches []ExistingMatch) {
	if !r.cache.canMatch() {
		return nil
	}
	elements, err := r.sharedList(ctx, false)
	if err != nil {
		r.cache.matchesUnavailable.Store(true)
		return nil
	}
	for _, e := range elements {
		o, err := r.decode(e.raw)
		if err != nil || !r.sameName(o, want) || r.creates.isHandled(e.id) {
			continue
		}
		if equal := !r.writeOnly && r.isEqual(o, want); equal || r.uniqueNames {
			matches = append(matches, ExistingMatch{ID: e.id, Equal: equal, NameTaken: r.uniqueNames})
		}
	}
	if !r.cache.canMatch() { // the list may have objects of this run's creates, which must stay adoptable
		return nil
	}
	for _, m := range matches {
		if !m.NameTaken {
			r.creates.markHandled(m.ID)
		}
	}
	return matches
}

// canMatch reports whether the shared list is usable: it has no objects of this run, and hasn't
// failed.
func (s *listCache) canMatch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared && !s.ownWrites && !s.matchesUnavailable.Load()
}

// isEqual reports whether an object is the one that a create asked for: everything that the version
// returns must be equal. It ignores members that the version never returns or that the caller
// left to the server, and the order of lists if the order has no meaning. It builds an update to
// compare the members that an update can change, and uses fixedMembersEqual for the others.
func (r *Collection[T]) isEqual(got, want T) bool {
	if !r.sameName(got, want) || r.fixedMembersEqual != nil && !r.fixedMembersEqual(got, want) {
		return false
	}
	if r.normalize != nil {
		got, want = r.normalize(got, want)
	}
	changes, err := r.update(got, want)
	return errors.Is(err, errMustReplace) || err == nil && len(changes) == 0
}

// errMustReplace rejects an update that needs a new object.
var errMustReplace = errors.New("this kind of object can't be changed: create a new one, and delete the old one")

// agrees reports whether the server's value is the requested one. It also returns true if no value was
// requested or the server returned no value.
func agrees(got, want *string) bool {
	return want == nil || got == nil || *got == *want
}

// inOrderOf returns have if want has the same elements, else want.
func inOrderOf(have, want []string) []string {
	if len(have) == len(want) && slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))) {
		return have
	}
	return want
}

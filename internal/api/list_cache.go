package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// listCache caches the objects of one kind during a run, undecoded. The first read fetches the
// list, which answers later reads until the run writes this kind, or a kind whose writes change
// this one. After a write, objects are read individually and cached until the next write,
// because a list after each write would cost more than it saves.
//
// A write counts from before it is sent until it is answered. It changes the generation, so
// that a read that began before the write ended isn't cached.
type listCache struct {
	shared     bool         // if false, nothing is cached
	dependents []*listCache // of kinds whose answers change with a write of this kind

	mu            sync.Mutex
	generation    int
	ownWrites     bool // the run has written this kind
	anyWrites     bool // the run has written this kind or one that it depends on
	complete      bool // objects and order are the complete list
	objects       map[string]element
	order         []string
	absentMembers map[string]bool // members that a read by id didn't return either

	listFailure   error // after it, objects are read by id; nil for none
	listForbidden error // a 403 for the list, which isn't requested again
	// matchesUnavailable means that a list failed while a plan looked for existing objects like a planned one. Then
	// the run stops looking, so that a plan waits only once for a deployment that doesn't answer.
	matchesUnavailable atomic.Bool

	flight singleflight.Group
}

// beginWrite marks the beginning of a write. The returned function marks its end.
func (s *listCache) beginWrite() (end func()) {
	s.invalidateAll()
	return s.invalidateAll
}

func (s *listCache) invalidateAll() {
	s.invalidate(true)
	for _, o := range s.dependents {
		o.invalidate(false)
	}
}

func (s *listCache) invalidate(own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.ownWrites = s.ownWrites || own
	s.anyWrites, s.complete, s.objects, s.order = true, false, nil, nil
}

// missingMembers returns the required members that are absent or null in an object.
func missingMembers(raw json.RawMessage, required []string) []string {
	var got map[string]json.RawMessage
	_ = json.Unmarshal(raw, &got) // can't fail: an element is an object
	return slices.DeleteFunc(slices.Clone(required), func(member string) bool { return got[member] != nil && string(got[member]) != "null" })
}

// isIncomplete reports whether a list's element lacks a member that a read by id may return.
func (s *listCache) isIncomplete(raw json.RawMessage, required []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(missingMembers(raw, required), func(member string) bool { return !s.absentMembers[member] })
}

// recordAbsentMembers records members that a read by id lacks: a list can't be expected to have
// them.
func (s *listCache) recordAbsentMembers(raw json.RawMessage, required []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, member := range missingMembers(raw, required) {
		if s.absentMembers == nil {
			s.absentMembers = map[string]bool{}
		}
		s.absentMembers[member] = true
	}
}

// lookup returns a cached object, and whether the caller should fetch the list.
func (s *listCache) lookup(id string) (cached element, generation int, needsList bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[id], s.generation, !s.complete && !s.anyWrites && s.listFailure == nil
}

func (s *listCache) store(generation int, e element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation != s.generation {
		return
	}
	if s.objects == nil {
		s.objects = map[string]element{}
	}
	s.objects[e.id] = e
}

func (s *listCache) storeList(generation int, elements []element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation != s.generation {
		return
	}
	s.complete, s.order = true, make([]string, len(elements))
	s.objects = make(map[string]element, len(elements))
	for i, e := range elements {
		s.objects[e.id], s.order[i] = e, e.id
	}
}

func (s *listCache) list() (elements []element, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.order {
		elements = append(elements, s.objects[id])
	}
	return elements, s.complete
}

// read returns an object from the cache, from the first list, or by id. Only a read by id can
// report that an object doesn't exist.
func (r *Collection[T]) read(ctx context.Context, id string) (element, error) {
	if !r.cache.shared {
		return r.fetch(ctx, id, false)
	}
	r.creates.markHandled(id)
	cached, generation, needsList := r.cache.lookup(id)
	if needsList {
		if _, err := r.sharedList(ctx, true); err != nil && !r.recordListFailure(err) {
			return element{}, err
		}
		cached, generation, _ = r.cache.lookup(id)
	}
	isCached := cached.raw != nil
	if isCached && (cached.response == nil || ctx.Value(withoutLists{}) == nil) && !r.cache.isIncomplete(cached.raw, r.required) {
		return cached, nil
	}
	_, complete := r.cache.list()
	e, err := r.fetch(ctx, id, complete && !isCached)
	if err == nil {
		r.cache.recordAbsentMembers(e.raw, r.required)
		r.cache.store(generation, e)
	}
	return e, err
}

type withoutLists struct{} // key of a context

// WithoutLists returns a context whose reads of an object don't use lists.
func WithoutLists(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutLists{}, true)
}

// recordListFailure reports whether reads by id may succeed although the list failed. If they may, it records
// the failure, so that no read requests the list again.
func (r *Collection[T]) recordListFailure(err error) bool {
	if !listRefused(err) && statusOf(err) != http.StatusOK && statusOf(err) < 500 && !errors.Is(err, httpclient.ErrTooLarge) {
		return false
	}
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	r.cache.listFailure = err
	return true
}

// listRefused reports whether the deployment has no list of the kind, or the key may not read
// it.
func listRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status != http.StatusUnauthorized && e.Status != http.StatusTooManyRequests &&
		(e.Status/100 == 4 || e.Status == http.StatusNotImplemented)
}

// sharedList returns the cached list, or requests it once for all concurrent callers. If it fails for a
// read of one object and reads by id may succeed, no later read requests it again.
func (r *Collection[T]) sharedList(ctx context.Context, forRead bool) ([]element, error) {
	s := r.cache
	if !s.shared {
		return r.fetchList(ctx)
	}
	_, generation, _ := s.lookup("")
	return share(ctx, &s.flight, strconv.Itoa(generation), "listing the "+r.kind+"s", s.list, func(ctx context.Context) ([]element, error) {
		if failure, _ := s.listErrors(); forRead && failure != nil {
			return nil, failure
		}
		elements, err := r.fetchList(ctx)
		if err == nil {
			s.storeList(generation, elements)
		} else if forRead {
			r.recordListFailure(err)
		}
		return elements, err
	})
}

func (r *Collection[T]) probe() probe {
	return probe{r.settings.BaseURL + r.path, func(ctx context.Context) error {
		_, err := r.sharedList(ctx, false)
		return err
	}}
}

// fetchList requests the list, unless an earlier request of this run was answered with 403.
func (r *Collection[T]) fetchList(ctx context.Context) ([]element, error) {
	_, forbidden := r.cache.listErrors()
	if err := cmp.Or(r.unsupported(), forbidden); err != nil {
		return nil, err
	}
	elements, err := r.elements(ctx, httpclient.Call{URL: r.settings.BaseURL + r.path, Query: r.query}, r.member)
	if err != nil {
		r.cache.recordForbidden(err)
	}
	return elements, err
}

func (s *listCache) listErrors() (failure, forbidden error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listFailure, s.listForbidden
}

// recordForbidden prevents further requests for a list that was answered with 403.
func (s *listCache) recordForbidden(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared && statusOf(err) == http.StatusForbidden {
		s.listForbidden = err
	}
}

// share returns the cached result. If there is none, it calls fetch once for all concurrent callers.
// If a caller is interrupted, the others still get the result.
func share[V any](ctx context.Context, flight *singleflight.Group, key, operation string, cached func() (V, bool), fetch func(context.Context) (V, error)) (V, error) {
	result, ok := cached()
	if ok {
		return result, nil
	}
	answers := flight.DoChan(key, func() (any, error) {
		if result, ok := cached(); ok { // another call has ended since the lookup above
			return result, nil
		}
		return fetch(context.WithoutCancel(ctx))
	})
	select {
	case <-ctx.Done():
		return result, fmt.Errorf("%s: %w", operation, waitError(ctx, ctx.Err()))
	case answer := <-answers:
		return answer.Val.(V), answer.Err
	}
}

type NamedObject struct{ ID, Name string }

// WithName returns the ids of the objects that have exactly this name, sorted. An empty name matches none.
func WithName(all []NamedObject, name string) (ids []string) {
	for _, o := range all {
		if o.Name == name && name != "" {
			ids = append(ids, o.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// ListNames lists the ids and names of the objects that aren't deleted.
func (r *Collection[T]) ListNames(ctx context.Context) (objects []NamedObject, err error) {
	elements, err := r.sharedList(ctx, false)
	for _, e := range elements {
		if !e.terminated {
			objects = append(objects, NamedObject{e.id, e.name})
		}
	}
	return objects, err
}

package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// listCache keeps what one run has read of a kind, as it came. The first read
// lists, and is what later reads are answered from, until the run writes the
// kind, or one whose writes change this one. From then on objects are read one
// by one, and kept until the next write: between writes a list of everything
// would cost more than it saves.
//
// A write counts from before it is sent until it is answered. What was asked
// before a write ended is never kept: the generation has changed.
type listCache struct {
	shared     bool         // false: nothing is kept
	dependents []*listCache // of kinds whose answers a write of this one changes

	mu            sync.Mutex
	generation    int
	ownWrites     bool // this kind was written
	anyWrites     bool // it was, or one that it depends on
	complete      bool // objects and order are the list
	objects       map[string]element
	order         []string
	named         []Named         // of the list, once somebody has asked for them
	absentMembers map[string]bool // members that a read by id did not return either

	listFailure        error // for which objects are read by id instead; nil for none
	listError          error // of a list that is not asked for again
	matchesUnavailable bool  // a list failed while existing matches were looked for

	flight singleflight.Group
}

// beginWrite begins a write and returns its end.
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
	s.anyWrites, s.complete, s.objects, s.order, s.named = true, false, nil, nil, nil
}

// incomplete tells whether a list's element lacks a member that a read by id
// returns.
func (s *listCache) incomplete(raw json.RawMessage, required []string) bool {
	var got map[string]json.RawMessage
	if json.Unmarshal(raw, &got) != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, member := range required {
		if _, ok := got[member]; !ok && !s.absentMembers[member] {
			return true
		}
	}
	return false
}

// recordAbsentMembers notes what a read by id lacks: a list can't be blamed for it.
func (s *listCache) recordAbsentMembers(raw json.RawMessage, required []string) {
	var got map[string]json.RawMessage
	if json.Unmarshal(raw, &got) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, member := range required {
		if _, ok := got[member]; !ok {
			if s.absentMembers == nil {
				s.absentMembers = map[string]bool{}
			}
			s.absentMembers[member] = true
		}
	}
}

// lookup returns a kept object, and whether a list should be asked for it.
func (s *listCache) lookup(id string) (kept element, generation int, list bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[id], s.generation, !s.complete && !s.anyWrites && s.listFailure == nil
}

// store keeps one object that was asked for at a generation.
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

// storeList keeps a list that was asked for at a generation.
func (s *listCache) storeList(generation int, elements []element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation != s.generation {
		return
	}
	s.complete, s.order, s.named = true, make([]string, len(elements)), nil
	s.objects = make(map[string]element, len(elements))
	for i, e := range elements {
		s.objects[e.id], s.order[i] = e, e.id
	}
}

// list is the kept list.
func (s *listCache) list() (elements []element, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.order {
		elements = append(elements, s.objects[id])
	}
	return elements, s.complete
}

// read returns an object: a kept one, one of the first list, or one that is
// asked for by itself. Only the last of these can report absence.
func (r *restCollection[T]) read(ctx context.Context, id string) (element, error) {
	if !r.cache.shared {
		return r.fetch(ctx, id, false)
	}
	r.creates.accountRead(id)
	kept, generation, list := r.cache.lookup(id)
	if list {
		if _, err := r.sharedList(ctx, true); err != nil && !r.readsMayWork(err) {
			return element{}, err
		}
		kept, generation, _ = r.cache.lookup(id)
	}
	listed := kept.raw != nil
	if listed && !r.cache.incomplete(kept.raw, r.required) {
		return kept, nil
	}
	_, complete := r.cache.list()
	e, err := r.fetch(ctx, id, complete && !listed)
	if err == nil {
		r.cache.recordAbsentMembers(e.raw, r.required)
		r.cache.store(generation, e)
	}
	return e, err
}

// readsMayWork tells whether a list failed in a way that reads by id need not
// share; no further list is then asked for.
func (r *restCollection[T]) readsMayWork(err error) bool {
	if !listRefused(err) && statusOf(err) != http.StatusOK && statusOf(err) < 500 {
		return false
	}
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	r.cache.listFailure = err
	return true
}

// listRefused tells that a deployment or key has no list of the kind.
func listRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok, e.Status == http.StatusUnauthorized, e.Status == http.StatusTooManyRequests:
		return false
	}
	return e.Status >= 400 && e.Status < 500 || e.Status == http.StatusNotImplemented
}

// sharedList is the list: the kept one, or one that everybody who asks at the
// moment shares. Reads do not ask again for a list that failed for another read.
func (r *restCollection[T]) sharedList(ctx context.Context, read bool) ([]element, error) {
	s := r.cache
	if !s.shared {
		return r.fetchList(ctx)
	}
	if elements, ok := s.list(); ok {
		return elements, nil
	}
	_, generation, _ := s.lookup("")
	return share(ctx, &s.flight, strconv.Itoa(generation), "listing the "+r.kind+"s", func(ctx context.Context) ([]element, error) {
		if elements, ok := s.list(); ok { // another list ended after the look above
			return elements, nil
		}
		if err := s.failure(); read && err != nil {
			return nil, err
		}
		elements, err := r.fetchList(ctx)
		if err == nil {
			s.storeList(generation, elements)
		} else if read {
			r.readsMayWork(err)
		}
		return elements, err
	})
}

// probe is the list as evidence that this API answers.
func (r *restCollection[T]) probe() probe {
	return probe{r.settings.BaseURL + r.path, func(ctx context.Context) error {
		_, err := r.sharedList(ctx, false)
		return err
	}}
}

// fetchList asks for the list, unless it was refused before in this run.
func (r *restCollection[T]) fetchList(ctx context.Context) ([]element, error) {
	if err := r.cache.refusal(); err != nil {
		return nil, err
	}
	elements, err := r.elements(ctx, httpclient.Call{URL: r.settings.BaseURL + r.path, Query: r.query}, r.member)
	if err != nil {
		r.cache.recordRefusal(err)
	}
	return elements, err
}

func (s *listCache) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listFailure
}

func (s *listCache) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listError
}

// recordRefusal keeps a run from asking again for a list that it may not have.
func (s *listCache) recordRefusal(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared && statusOf(err) == http.StatusForbidden {
		s.listError = err
	}
}

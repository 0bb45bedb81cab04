package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// shelf keeps what one run has read of a kind, as it came. The first read
// lists, and is what later reads are answered from, until the run writes the
// kind, or one whose writes change this one. From then on objects are read one
// by one, and kept until the next write: between writes a list of everything
// would cost more than it saves.
//
// A write counts from before it is sent until it is answered. What was asked
// before a write ended is never kept: gen has changed.
type shelf struct {
	shared bool     // false: nothing is kept
	others []*shelf // of kinds whose answers a write of this one changes

	mu       sync.Mutex
	gen      int
	wrote    bool // this kind was written
	written  bool // it, or one of which it is an other
	whole    bool // known and order are the list
	known    map[string]json.RawMessage
	order    []string
	lacking  map[string]bool // members that a read by id did not return either
	refused  bool            // there is no list to be had
	refusal  error           // of the list, which is not asked for again
	twinless bool            // a list failed while twins were looked for

	flight singleflight.Group
}

// element is one object of a list.
type element struct {
	id  string
	raw json.RawMessage
}

// write begins a write and returns its end.
func (s *shelf) write() (end func()) {
	s.dropAll()
	return s.dropAll
}

func (s *shelf) dropAll() {
	s.drop(true)
	for _, o := range s.others {
		o.drop(false)
	}
}

func (s *shelf) drop(own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen++
	s.wrote = s.wrote || own
	s.written, s.whole, s.known, s.order = true, false, nil, nil
}

// short tells whether a list's element lacks a member that a read by id
// returns.
func (s *shelf) short(raw json.RawMessage, full []string) bool {
	var got map[string]json.RawMessage
	if json.Unmarshal(raw, &got) != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, member := range full {
		if _, ok := got[member]; !ok && !s.lacking[member] {
			return true
		}
	}
	return false
}

// learn notes what a read by id lacks: a list can't be blamed for it.
func (s *shelf) learn(raw json.RawMessage, full []string) {
	var got map[string]json.RawMessage
	if json.Unmarshal(raw, &got) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, member := range full {
		if _, ok := got[member]; !ok {
			if s.lacking == nil {
				s.lacking = map[string]bool{}
			}
			s.lacking[member] = true
		}
	}
}

// find returns a kept object, and whether a list should be asked for it.
func (s *shelf) find(id string) (raw json.RawMessage, gen int, list bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[id], s.gen, !s.whole && !s.written && !s.refused
}

// keep keeps one object that was asked for at gen.
func (s *shelf) keep(gen int, id string, raw json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gen != s.gen {
		return
	}
	if s.known == nil {
		s.known = map[string]json.RawMessage{}
	}
	s.known[id] = raw
}

// keepAll keeps a list that was asked for at gen.
func (s *shelf) keepAll(gen int, elements []element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gen != s.gen {
		return
	}
	s.whole, s.order = true, make([]string, len(elements))
	s.known = make(map[string]json.RawMessage, len(elements))
	for i, e := range elements {
		s.known[e.id], s.order[i] = e.raw, e.id
	}
}

// all is the kept list.
func (s *shelf) all() (elements []element, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.order {
		elements = append(elements, element{id, s.known[id]})
	}
	return elements, s.whole
}

// read returns an object: a kept one, one of the first list, or one that is
// asked for by itself. Absence is told by the last alone.
func (r *rest[T, W]) read(ctx context.Context, id string) (json.RawMessage, error) {
	if !r.shelf.shared {
		return r.fetch(ctx, id, false)
	}
	r.makers.know(id)
	raw, gen, list := r.shelf.find(id)
	if list {
		if _, err := r.listed(ctx); err != nil && !r.unlisted(err) {
			return nil, err
		}
		raw, gen, _ = r.shelf.find(id)
	}
	if raw != nil && !r.shelf.short(raw, r.full) {
		return raw, nil
	}
	_, whole := r.shelf.all()
	raw, err := r.fetch(ctx, id, whole && raw == nil)
	if err == nil {
		r.shelf.learn(raw, r.full)
		r.shelf.keep(gen, id, raw)
	}
	return raw, err
}

// unlisted tells whether a list failed in a way that reads by id need not
// share; no further list is then asked for.
func (r *rest[T, W]) unlisted(err error) bool {
	if !listRefused(err) && !hasStatus(err, http.StatusOK) && !hasServerError(err) {
		return false
	}
	r.shelf.mu.Lock()
	defer r.shelf.mu.Unlock()
	r.shelf.refused = true
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

// listed is the list: the kept one, or one that everybody who asks at the
// moment shares.
func (r *rest[T, W]) listed(ctx context.Context) ([]element, error) {
	s := r.shelf
	if !s.shared {
		return r.elements(ctx)
	}
	if elements, ok := s.all(); ok {
		return elements, nil
	}
	_, gen, _ := s.find("")
	// Whoever came first may be interrupted without harm to the others.
	asked := s.flight.DoChan(strconv.Itoa(gen), func() (any, error) {
		if elements, ok := s.all(); ok { // another list ended after the look above
			return elements, nil
		}
		elements, err := r.elements(context.WithoutCancel(ctx))
		if err == nil {
			s.keepAll(gen, elements)
		}
		return elements, err
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("listing the %ss: %w", r.kind, context.Cause(ctx))
	case answer := <-asked:
		return answer.Val.([]element), answer.Err
	}
}

// probe is the list as evidence that this API answers.
func (r *rest[T, W]) probe() probe {
	return probe{r.settings.BaseURL + r.path, func(ctx context.Context) error {
		_, err := r.listed(ctx)
		return err
	}}
}

// elements asks for the list, unless it was refused before in this run. Secrets
// are kept out of its error.
func (r *rest[T, W]) elements(ctx context.Context, secrets ...string) ([]element, error) {
	if err := r.shelf.refusedBefore(); err != nil {
		return nil, err
	}
	c := httpclient.Call{Method: http.MethodGet, URL: r.settings.BaseURL + r.path, Query: r.query, Secrets: secrets}
	list := listOf{member: r.member}
	if err := r.Do(ctx, c, &list); err != nil {
		r.shelf.noteRefusal(err)
		return nil, err
	}
	return list.elements, nil
}

func (s *shelf) refusedBefore() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

// noteRefusal keeps a run from asking again for a list that it may not have.
func (s *shelf) noteRefusal(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared && hasStatus(err, http.StatusForbidden) {
		s.refusal = err
	}
}

// listOf decodes a list: API v1's bare array, or the member of API v2's
// object. A missing member must not pass for an empty list: everything would
// seem to be gone.
type listOf struct {
	member   string // "" for a bare array
	elements []element
}

func (l *listOf) UnmarshalJSON(data []byte) error {
	keyed := keyedList[json.RawMessage]{member: l.member}
	var err error
	if l.member == "" {
		err = json.Unmarshal(data, &keyed.objects)
	} else {
		err = json.Unmarshal(data, &keyed)
	}
	if err != nil {
		return err
	}
	l.elements = make([]element, len(keyed.objects))
	for i, raw := range keyed.objects {
		var head struct{ ID string }
		if err := json.Unmarshal(raw, &head); err != nil {
			return err
		}
		l.elements[i] = element{head.ID, raw}
	}
	return nil
}

package api

import "context"

// Twin is an object that a planned create would stand beside, or collide with.
type Twin struct {
	ID   string
	Same bool // equal in all that the API returns
	Name bool // has the name, which is unique
}

// Twins returns the objects that a create of want could be taken for: equal
// ones, which an interrupted run may have left, and the one that has a unique
// name. They come from the list that reads share, and nothing is looked for
// once this run has written the kind: by then its own objects are among them.
// What can't be listed has no twins.
func (r *rest[T, W]) Twins(ctx context.Context, want T) (twins []Twin) {
	if !r.shelf.unwritten() {
		return nil
	}
	elements, err := r.listed(ctx)
	if err != nil {
		r.shelf.noTwins()
		return nil
	}
	for _, e := range elements {
		o, err := r.decode(e.raw)
		if err != nil || r.name(o) != r.name(want) || r.makers.mine(e.id) {
			continue
		}
		if same := r.same(o, want); same || r.unique {
			twins = append(twins, Twin{ID: e.id, Same: same, Name: r.unique})
		}
	}
	if !r.shelf.unwritten() {
		return nil
	}
	return twins
}

func (r *rest[T, W]) TookOver(id string) bool { return r.makers.tookOver(id) }

func (s *shelf) unwritten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared && !s.wrote && !s.twinless
}

// noTwins ends the search for this run: a plan does not wait once per object
// for a deployment that does not answer.
func (s *shelf) noTwins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.twinless = true
}

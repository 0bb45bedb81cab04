package api

import (
	"context"
	"slices"
	"strconv"
)

// Named is an object's id and name.
type Named struct{ ID, Name string }

// WithName returns the ids of the objects that have exactly this name, sorted. An empty name has none.
func WithName(all []Named, name string) (ids []string) {
	for _, o := range all {
		if o.Name == name && name != "" {
			ids = append(ids, o.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Named caches the names with the list, because many callers look up names.
func (r *restCollection[T]) Named(ctx context.Context) ([]Named, error) {
	if named := r.cache.keptNames(); named != nil {
		return named, nil
	}
	_, generation, _ := r.cache.lookup("")
	if !r.cache.shared {
		return r.listNames(ctx, generation)
	}
	named, err := share(ctx, &r.namesFlight, strconv.Itoa(generation), "listing the "+r.kind+"s", func(ctx context.Context) ([]Named, error) {
		if named := r.cache.keptNames(); named != nil { // another call has ended since the lookup above
			return named, nil
		}
		return r.listNames(ctx, generation)
	})
	return slices.Clone(named), err // callers sort it
}

// listNames returns the names of the list of a generation, and caches them.
func (r *restCollection[T]) listNames(ctx context.Context, generation int) ([]Named, error) {
	all, err := r.List(ctx)
	named := make([]Named, 0, len(all))
	for _, o := range all {
		if r.absent == nil || !r.absent(o) {
			named = append(named, Named{r.id(o), r.name(o)})
		}
	}
	if err == nil {
		r.cache.storeNames(generation, named)
	}
	return named, err
}

// keptNames returns the cached ids and names, or nil.
func (s *listCache) keptNames() []Named {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.complete {
		return nil
	}
	return slices.Clone(s.named)
}

func (s *listCache) storeNames(generation int, named []Named) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation == s.generation && s.complete {
		s.named = slices.Clone(named)
	}
}

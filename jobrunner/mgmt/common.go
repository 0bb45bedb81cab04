package mgmt

import (
	"math"
	"slices"
)

// set gives a field the value that a body has for it.
func set[T any](field *T, sent *T) {
	if sent != nil {
		*field = *sent
	}
}

// list is what an answer says of a list: an empty one is [], never null.
func list(of []string) []string {
	if of == nil {
		return []string{}
	}
	return of
}

// dictionary is what an answer says of a map: an empty one is {}, never null.
func dictionary(of map[string]string) map[string]string {
	if of == nil {
		return map[string]string{}
	}
	return of
}

// orNull is nil for the empty string.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// each maps a list.
func each[A, B any](of []A, f func(A) B) []B {
	out := make([]B, 0, len(of))
	for _, a := range of {
		out = append(out, f(a))
	}
	return out
}

func sameElements(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// ceil is the next integer, of those that a float64 tells apart.
func ceil(f float64) int64 { return int64(min(math.Ceil(f), 1<<53)) }

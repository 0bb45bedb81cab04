package mgmt

import (
	"math"
	"slices"
)

// setIfPresent sets a field to the value from a body, if the body has one.
func setIfPresent[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// nonNilList makes an answer show an empty list as [], never as null.
func nonNilList(values []string) []string {
	if values == nil {
		return []string{}
	}
	return values
}

// nonNilMap makes an answer show an empty map as {}, never as null.
func nonNilMap(values map[string]string) map[string]string {
	if values == nil {
		return map[string]string{}
	}
	return values
}

// nilIfEmpty makes an answer show the empty string as null.
func nilIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// identity is the conversion of a record that is already its wire type.
func identity[T any](v T) T { return v }

// convertAll converts each item of a list.
func convertAll[A, B any](items []A, convert func(A) B) []B {
	out := make([]B, 0, len(items))
	for _, item := range items {
		out = append(out, convert(item))
	}
	return out
}

func sameElements(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// ceil rounds up to an integer. The maximum is 2⁵³, up to which a float64 represents every integer.
func ceil(f float64) int64 { return int64(min(math.Ceil(f), 1<<53)) }

package must

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// reports records what a check reports.
type reports struct {
	testing.TB
	texts []string
}

func (*reports) Helper()                        {}
func (r *reports) Fatal(args ...any)            { r.texts = append(r.texts, fmt.Sprint(args...)) }
func (r *reports) Error(args ...any)            { r.texts = append(r.texts, fmt.Sprint(args...)) }
func (r *reports) Errorf(text string, a ...any) { r.texts = append(r.texts, fmt.Sprintf(text, a...)) }

func TestChecksReportDifferencesOnly(t *testing.T) {
	failure := fmt.Errorf("reading: %w", io.EOF)
	for name, c := range map[string]struct{ holds, fails func(t testing.TB) }{
		"Succeed":           {func(t testing.TB) { Succeed(t, nil) }, func(t testing.TB) { Succeed(t, failure, "about") }},
		"Do":                {func(t testing.TB) { Do(1, nil)(t) }, func(t testing.TB) { Do(1, failure)(t) }},
		"Contain":           {func(t testing.TB) { Contain(t, "a b", "a", "b") }, func(t testing.TB) { Contain(t, "a b", "a", "c") }},
		"ErrorContains":     {func(t testing.TB) { ErrorContains(t, Err(1, failure), "reading") }, func(t testing.TB) { ErrorContains(t, failure, "writing") }},
		"ErrorContains nil": {func(t testing.TB) { ErrorContains(t, failure) }, func(t testing.TB) { ErrorContains(t, nil) }},
		"ErrorIs":           {func(t testing.TB) { ErrorIs(t, failure, io.EOF) }, func(t testing.TB) { ErrorIs(t, errors.New("EOF"), io.EOF) }},
		"Hold":              {func(t testing.TB) { Hold(t, true) }, func(t testing.TB) { Hold(t, false, "about") }},
		"Require":           {func(t testing.TB) { Require(t, true) }, func(t testing.TB) { Require(t, false, "about") }},
		"Equal":             {func(t testing.TB) { Equal(t, "a", "a") }, func(t testing.TB) { Equal(t, "a", "b", "about") }},
		"empty":             {func(t testing.TB) { Equal(t, []int{}, nil) }, func(t testing.TB) { Equal(t, []int{0}, nil) }},
		"maps":              {func(t testing.TB) { Equal(t, map[string]int{}, nil) }, func(t testing.TB) { Equal(t, nil, map[string]int{"a": 0}) }},
		"any":               {func(t testing.TB) { Equal[any](t, []any{}, []any(nil)) }, func(t testing.TB) { Equal[any](t, []any{}, nil) }},
	} {
		var holds, fails reports
		c.holds(&holds)
		c.fails(&fails)
		if len(holds.texts) != 0 || len(fails.texts) != 1 {
			t.Errorf("%s: reported %q and %q, want a report of the second only", name, holds.texts, fails.texts)
		}
	}
}

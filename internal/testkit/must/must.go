// Package must has checks that many tests share.
package must

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// Succeed ends the test unless err is nil.
func Succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Do returns the value of a call that must succeed: id := must.Do(create())(t).
func Do[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Succeed(t, err)
		return value
	}
}

// Equal reports a difference between the values. A nil slice or map equals an empty one. The
// report starts with about.
func Equal[T any](t testing.TB, got, want T, about ...any) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if (g.Kind() == reflect.Slice || g.Kind() == reflect.Map) && g.Kind() == w.Kind() && g.Len() == 0 && w.Len() == 0 {
		return
	}
	t.Errorf("%+v\n got %+v\nwant %+v", about, got, want)
}

// Contain reports each of the wanted texts that isn't in text.
func Contain(t testing.TB, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	Succeed(t, err)
	return text
}

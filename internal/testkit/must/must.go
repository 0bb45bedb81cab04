// Package must has checks that many tests share. Most call t.Helper, which is slow, only if they fail.
package must

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TB is a *testing.T, a *testing.B or a *rapid.T.
type TB interface {
	Helper()
	Error(args ...any)
	Fatal(args ...any)
}

// Succeed ends the test unless err is nil. The report starts with about.
func Succeed(t TB, err error, about ...any) {
	if err != nil {
		t.Helper()
		t.Fatal(words(append(about, err)))
	}
}

// Do returns the value of a call that must succeed: id := must.Do(create())(t).
func Do[T any](value T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		Succeed(t, err)
		return value
	}
}

// Err returns the error of a call: must.ErrorContains(t, must.Err(create()), "in use").
func Err[T any](_ T, err error) error { return err }

// ErrorContains reports an error that is nil or lacks one of the texts.
func ErrorContains(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", texts)
		return
	}
	Contain(t, err.Error(), texts...)
}

// ErrorIs reports an error that isn't the wanted one. The report starts with about.
func ErrorIs(t TB, err, want error, about ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Error(fmt.Sprintf("%s\n got %v\nwant %v", words(about), err, want))
	}
}

// Equal reports a difference, after about. A nil slice or map equals an empty one.
func Equal[T any](t TB, got, want T, about ...any) {
	if reflect.DeepEqual(got, want) {
		return
	}
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if (g.Kind() == reflect.Slice || g.Kind() == reflect.Map) && g.Kind() == w.Kind() && g.Len() == 0 && w.Len() == 0 {
		return
	}
	t.Error(fmt.Sprintf("%s\n got %+v\nwant %+v", words(about), got, want))
}

// Hold reports a condition that is false. The report consists of about.
func Hold(t TB, condition bool, about ...any) {
	if !condition {
		t.Helper()
		t.Error(words(about))
	}
}

// Require ends the test unless the condition is true. The report consists of about.
func Require(t TB, condition bool, about ...any) {
	if !condition {
		t.Helper()
		t.Fatal(words(about))
	}
}

// words formats each value on its own, which shows what a pointer leads to.
func words(about []any) string {
	var texts []string
	for _, value := range about {
		texts = append(texts, fmt.Sprintf("%+v", value))
	}
	return strings.Join(texts, " ")
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

func ReadFile(t testing.TB, path string) []byte {
	t.Helper()
	return Do(os.ReadFile(path))(t)
}

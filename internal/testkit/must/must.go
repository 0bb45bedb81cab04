// Package must has checks that many tests share.
package must

import (
	"os"
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

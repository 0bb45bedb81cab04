// Package must ends a test whose preparation fails.
package must

import (
	"os"
	"testing"
)

// Succeed ends the test unless err is nil.
func Succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	Succeed(t, err)
	return text
}

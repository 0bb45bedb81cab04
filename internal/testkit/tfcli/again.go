package tfcli

import (
	"os"
	"testing"
)

// SkipAgain skips a test that has had every CLI, or drives none, where the
// tests are only repeated with another CLI as the default (make test-tofu,
// which sets TFCLI_AGAIN).
func SkipAgain(t *testing.T) {
	t.Helper()
	if os.Getenv("TFCLI_AGAIN") != "" {
		t.Skip("this test is the same with another default CLI")
	}
}

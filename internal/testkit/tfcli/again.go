package tfcli

import (
	"os"
	"testing"
)

// SkipAgain skips a test if the tests are repeated with another CLI as the default (make
// test-tofu sets TFCLI_AGAIN) and the repetition tests nothing new: the test uses every CLI or
// none.
func SkipAgain(t *testing.T) {
	t.Helper()
	if os.Getenv("TFCLI_AGAIN") != "" {
		t.Skip("this test is the same with another default CLI")
	}
}

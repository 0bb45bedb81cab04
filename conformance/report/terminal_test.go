package report_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// An answer can't move the reader's cursor.
func TestTerminalIsHarmless(t *testing.T) {
	r := sample()
	var b strings.Builder
	report.Terminal(&b, r, false)
	if strings.ContainsAny(b.String(), "\x1b\x01") || !strings.Contains(b.String(), `\x1b[31m`) {
		t.Errorf("the terminal is sent %q", b.String())
	}
}

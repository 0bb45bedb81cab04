package kubernetes

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// If the stream breaks within a line, the log has that line once, and whole.
func TestBrokenLog(t *testing.T) {
	const log = "2026-01-02T03:04:05.000000001Z first\n2026-01-02T03:04:05.000000002Z the second line\n2026-01-02T03:04:06Z no end"
	broken := errors.New("the API server ended")
	for cut := range len(log) {
		got := new(lines)
		last, err := copyLines(io.MultiReader(strings.NewReader(log[:cut]), iotest.ErrReader(broken)), time.Time{}, got)
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		must.Do(copyLines(strings.NewReader(log), last, got))(t)
		must.Equal(t, got.String(), "first\nthe second line\nno end\n", "cut after", cut, "bytes", got)
	}
}

// Lines of stdout and stderr that arrive out of order aren't repeated.
func TestLogOutOfOrder(t *testing.T) {
	const log = "2026-01-02T03:04:05.000000002Z out\n2026-01-02T03:04:05.000000001Z err\n"
	got := new(lines)
	last, err := copyLines(strings.NewReader(log), time.Time{}, got)
	if err != nil || len(got.marks) != 2 || got.marks[1] != "2026-01-02T03:04:05.000000002Z" {
		t.Fatalf("%v, marks %q", err, got.marks)
	}
	if _, err := copyLines(strings.NewReader(log), last, got); err != nil || len(got.marks) != 2 {
		t.Errorf("%v, lines %q", err, got)
	}
}

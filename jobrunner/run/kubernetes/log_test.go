package kubernetes

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// A log whose stream breaks off in a line has that line once, and whole.
func TestBrokenLog(t *testing.T) {
	const log = "2026-01-02T03:04:05.000000001Z first\n2026-01-02T03:04:05.000000002Z the second line\n2026-01-02T03:04:06Z no end"
	broken := errors.New("the API server ended")
	for cut := range len(log) {
		var lines []string
		line := func(text, _ string) { lines = append(lines, text) }
		last, err := copyLines(io.MultiReader(strings.NewReader(log[:cut]), iotest.ErrReader(broken)), time.Time{}, line)
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if _, err := copyLines(strings.NewReader(log), last, line); err != nil {
			t.Fatal(err)
		}
		if want := []string{"first", "the second line", "no end"}; !slices.Equal(lines, want) {
			t.Errorf("cut after %d bytes: %q", cut, lines)
		}
	}
}

// Lines of stdout and stderr that come in another order than they have do not come again.
func TestLogOutOfOrder(t *testing.T) {
	const log = "2026-01-02T03:04:05.000000002Z out\n2026-01-02T03:04:05.000000001Z err\n"
	var marks []string
	last, err := copyLines(strings.NewReader(log), time.Time{}, func(_, mark string) { marks = append(marks, mark) })
	if err != nil || len(marks) != 2 || marks[1] != "2026-01-02T03:04:05.000000002Z" {
		t.Fatalf("%v, marks %q", err, marks)
	}
	if _, err := copyLines(strings.NewReader(log), last, func(text, _ string) { t.Errorf("%q comes again", text) }); err != nil {
		t.Error(err)
	}
}

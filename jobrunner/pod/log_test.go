package pod

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

func openTestLog(t *testing.T, folder string) *fileLog {
	t.Helper()
	return openLog(folder, run.LogConfig{Clock: new(clock.Clock), ID: "p"}, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// A log continues after a restart with its line numbers and its mark. Cut lines and lines beyond the
// limit are dropped.
func TestLogIsKept(t *testing.T) {
	folder := t.TempDir()
	l := openTestLog(t, folder)
	l.WriteLine("one", "2026-06-01T12:00:00Z")
	l.Note("the pod runs")
	l.WriteLine("two", "2026-06-01T12:00:01Z")
	// The deployment is killed while it writes a line.
	f, err := os.OpenFile(filepath.Join(folder, logFile), os.O_APPEND|os.O_WRONLY, 0)
	must.Succeed(t, err)
	_, _ = f.WriteString(`{"n":3,"t":"2026-0`)
	_ = f.Close()

	l = openTestLog(t, folder)
	l.WriteLine("three", "2026-06-01T12:00:02Z")
	lines, _ := l.Lines(0)
	var text []string
	for _, line := range lines {
		text = append(text, fmt.Sprintf("%d %v %s", line.Number, line.System, line.Text))
	}
	must.Equal(t, strings.Join(text, "\n"), "0 false one\n1 true the pod runs\n2 false two\n3 false three")
	must.Equal(t, l.Mark(), "2026-06-01T12:00:02Z", "the mark")
	for n := range 3 * logLines {
		l.WriteLine(fmt.Sprintf("line %d %s", n, strings.Repeat("x", 1000)), "m")
	}
	l.close()
	info, err := os.Stat(filepath.Join(folder, logFile))
	if err != nil || info.Size() > maxFileBytes+logBytes {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	l = openTestLog(t, folder)
	lines, _ = l.Lines(0)
	if last := lines[len(lines)-1]; len(lines) > logLines || last.Number != 3*logLines+3 || !strings.HasPrefix(last.Text, "line 14999 ") {
		t.Errorf("%d lines, the last is %d %.20s", len(lines), last.Number, last.Text)
	}
}

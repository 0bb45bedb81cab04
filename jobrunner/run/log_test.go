package run

import (
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// A logger's long line keeps its level and its end, where a traceback has its cause. Other lines keep their start.
// Lines that are written at the same time get different times.
func TestLongLines(t *testing.T) {
	var stopped clock.Clock
	stopped.Stop()
	log := NewLog(LogConfig{Clock: &stopped, ID: "w"})
	for range 2 { // the second call is a no-op
		log.Hide("planted-secret", `with "quotes"`, `<é😀"`)
	}
	must.Equal(t, len(log.secrets), 7, "secrets, with the escapes of Go's and Python's loggers")
	message := "Traceback:\n" + strings.Repeat("  a frame of planted-secret\n", 1000) + "KeyError: 'the cause'"
	line := must.Do(json.Marshal(map[string]string{"message": message, "level": "ERROR"}))(t)
	_, _ = log.Write(append(line, '\n'))
	_, _ = log.Write([]byte(strings.Repeat("x", 3*maxRead) + "\n"))
	_, _ = log.Write([]byte("ERROR | " + strings.Repeat("x", maxRead) + "planted-secret" + strings.Repeat("x", maxRead) + "\n"))
	_, _ = log.Write([]byte(strings.Repeat("loading\r", maxRead)))
	for range maxRead { // a progress bar that is updated for minutes
		_, _ = log.Write([]byte("  0%|    |\r"))
	}
	_, _ = log.Write([]byte("100%|█planted-secret█|\r\r\n"))
	_, _ = log.Write([]byte(`two tokens{"requestId": "j", "message": "Finished.", "level": "INFO"}` + "\n"))
	_, _ = log.Write([]byte(`half a line: with "quotes" with \"quotes\"`))
	log.Note("it ended")
	lines, _ := log.Lines(0)
	must.Require(t, len(lines) == 8, "there are", len(lines), "lines")
	for i, line := range lines {
		must.Hold(t, line.Time.Sub(lines[0].Time) == time.Duration(i), "the time of line", i, "is", line.Time, "the first line's", lines[0].Time)
	}
	if text := lines[0].Text; !strings.HasPrefix(text, "ERROR | Traceback:\n") || !strings.HasSuffix(text, "\nKeyError: 'the cause'") || len(text) > maxLine+20 || strings.Contains(text, "planted") {
		t.Errorf("the line of a logger has %d bytes: %.100s … %s", len(text), text, text[len(text)-100:])
	}
	text := lines[1].Text
	must.Hold(t, strings.HasSuffix(text, "x… (188416 bytes more)"), "the other line ends in", text[len(text)-100:])
	must.Hold(t, !strings.Contains(lines[2].Text, "planted"), "a line that is cut in a secret shows a part of it")
	must.Equal(t, lines[3].Text, "100%|█(secret)█|", "the progress bar")
	must.Hold(t, lines[4].Text == "two tokens" && strings.HasPrefix(lines[5].Text, "{"), "the SDK's line isn't separate", lines[4:6])
	must.Hold(t, lines[6].Text == "half a line: (secret) (secret)" && !lines[6].System && lines[7].Text == "it ended" && lines[7].System, "the last lines are", lines[6:])
	tail := log.Tail(1000)
	_, _ = log.Write([]byte(`{"requestId": "j", "message": "It failed:\nthe cause", "level": "ERROR"}` + "\n" + `{"requestId": "j", "message": "Ended.", "level": "INFO"}` + "\n"))
	must.Hold(t, log.LastError("j") == "the cause" && log.LastError("k") == "", "the last error is", log.LastError("j"))
	_, _ = log.Write([]byte(`\u003cé😀\" <é😀\" <\u00e9\ud83d\ude00\"` + "\n"))
	must.Contain(t, log.Tail(1000), "\n(secret) (secret) (secret)")
	must.Hold(t, strings.HasSuffix(tail, "\nhalf a line: (secret) (secret)") && !strings.Contains(tail, "it ended") && len(tail) <= 1000, "the end is", tail)
}

func TestCopiedLinesAreBounded(t *testing.T) {
	var got livelog.Log
	last := must.Do(CopyLines(strings.NewReader("2026-06-01T12:00:01Z "+strings.Repeat("x", 3<<20)+"\n2026-06-01T12:00:02Z y"), time.Time{}, &got))(t)
	must.Hold(t, len(got.String()) <= 1<<20+2 && strings.HasSuffix(got.String(), "x\ny\n") && last.Second() == 2, "the lines have", len(got.String()), "bytes, until", last)
}

// overlapCounter counts writes that begin during another write.
type overlapCounter struct {
	inUse    atomic.Bool
	overlaps atomic.Int64
}

func (c *overlapCounter) Write(b []byte) (int, error) {
	if c.inUse.Swap(true) {
		c.overlaps.Add(1)
	}
	runtime.Gosched()
	c.inUse.Store(false)
	return len(b), nil
}

func TestLogsShareTheirTee(t *testing.T) {
	var tee overlapCounter
	var logs sync.WaitGroup
	for range 4 {
		logs.Go(func() {
			log := NewLog(LogConfig{Clock: new(clock.Clock), Tee: &tee})
			for range 100 {
				log.Note("x")
			}
		})
	}
	logs.Wait()
	must.Equal(t, tee.overlaps.Load(), 0, "concurrent writes to the tee")
}

// Ephemeral ports begin at 32768 on Linux, and at a higher number on macOS and Windows.
func TestFreePortIsNotEphemeral(t *testing.T) {
	for range 100 {
		port, err := FreePort(t.Context())
		must.Require(t, err == nil && port >= 20000 && port < 30000, "FreePort returns", port, err, "want 20000 to 29999")
	}
}

package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// slowWriter is a writer that accepts one write per token.
type slowWriter struct {
	tokens chan struct{}
	writes []string
}

func (s *slowWriter) Write(p []byte) (int, error) {
	<-s.tokens
	s.writes = append(s.writes, string(p))
	return len(p), nil
}

// Lines keep their order, and lines that arrive during a write or the pause after it are combined.
func TestAsyncWriterCombinesLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowWriter{tokens: make(chan struct{}, 10)}
		writer := newAsyncWriter(slow)
		for i := range 3 {
			fmt.Fprintln(writer, i)
			synctest.Wait()
		}
		slow.tokens <- struct{}{}
		synctest.Wait()
		must.Equal(t, fmt.Sprint(slow.writes), "[0\n]", "writes before the pause has passed")
		close(slow.tokens)
		time.Sleep(10 * writePause)
		for i := range 3 {
			fmt.Fprintln(writer, 3+i)
			synctest.Wait()
		}
		writer.Close()
		fmt.Fprintln(writer, 6)
		must.Equal(t, strings.Join(slow.writes, "|"), "0\n|1\n2\n|3\n|4\n5\n|6\n", "the writes, one for the lines that arrived during a write or a pause, and one without delay after Close")
	})
}

// If the writer is slow, Write blocks and no line is lost.
func TestAsyncWriterBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowWriter{tokens: make(chan struct{})}
		writer := newAsyncWriter(slow)
		var writers sync.WaitGroup
		line, written := strings.Repeat("x", 1023)+"\n", 0
		writers.Go(func() {
			for written < 4*maxPending {
				fmt.Fprint(writer, line)
				written += len(line)
			}
		})
		synctest.Wait()
		must.Hold(t, written <= 2*(maxPending+len(line)), written, "bytes were accepted while the first write was blocked")
		close(slow.tokens)
		writers.Wait()
		writer.Close()
		must.Equal(t, len(strings.Join(slow.writes, "")), 4*maxPending, "the number of bytes that arrived")
	})
}

// A record shows the attributes of its logger, without the endpoint, and the reason below the message.
func TestTerminalLogger(t *testing.T) {
	var out strings.Builder
	log := (&terminal{w: &out}).logger().With("endpoint", "e", "host", "h")
	log.Warn("a call failed", "calls", 4, "reason", "no route")
	must.Contain(t, out.String(), " WARN  a call failed, calls: 4, host: h\n", " no route\n")
}

// Each line is "SECOND TEXT" or "SECOND JOB:TEXT". A trailing + marks the lines of the job "mine".
func TestFindJobLines(t *testing.T) {
	dyingWorker := []string{"1 INFO   | other | Started.", "2 noise", "3 mine starts+", "4 step+", "5 Traceback+", "6 killed+", "9 idle", "10 idle"}
	for name, c := range map[string]struct {
		lines  []string
		status string
	}{
		"a worker that dies":         {dyingWorker, "FAILED"},
		"the next job":               {[]string{"1 mine starts+", "2 print+", "3 mine ends+", "3.5 late+", "4 {\"message\":\"\",\"level\":\"INFO\",\"requestId\":\"b\"}", "4.1 the next one's"}, "COMPLETED"},
		"a concurrent job":           {[]string{"1 mine starts+", "2 {\"message\":\"\",\"level\":\"INFO\",\"requestId\":\"b\"}", "3 print+", "9 idle"}, "FAILED"},
		"a running job":              {[]string{"0 before", "1 mine starts+", "50 print+"}, "IN_PROGRESS"},
		"lines that name their jobs": {[]string{"1 other:print", "2 mine:before+", "3 mine:after+", "3 other:print"}, "COMPLETED"},
		"another job prints the id":  {[]string{"1 other:mine", "2 mine:other+"}, "COMPLETED"},
		"no line of the job":         {[]string{"1 print"}, "COMPLETED"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines, want []api.LogLine
			for _, text := range c.lines {
				second, text, _ := strings.Cut(text, " ")
				var line api.LogLine
				seconds, fraction, _ := strings.Cut(second, ".")
				line.Time = fmt.Sprintf("2026-06-01T00:00:%02s.%sZ", seconds, fraction+"0")
				text, isMine := strings.CutSuffix(text, "+")
				if job, rest, ok := strings.Cut(text, ":"); ok && (job == "mine" || job == "other") {
					line.Job, text = job, rest
				}
				line.Text = text
				if isMine {
					want = append(want, line)
				}
				lines = append(lines, line)
			}
			got, _ := findJobLines(api.Job{ID: "mine", Status: c.status, ExecutionTime: 3000}, lines, true)
			must.Equal(t, got, want)
		})
	}
}

// Control characters are escaped, and any other text is printed unchanged.
func FuzzEscapeControls(f *testing.F) {
	isControl := func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	}
	fuzz.Run(f, func(t *testing.T, text string) {
		got := string(escapeControls([]byte(text)))
		must.Hold(t, utf8.ValidString(got) && !strings.ContainsFunc(got, isControl), text, "is printed as", got)
		must.Hold(t, !utf8.ValidString(text) || strings.ContainsFunc(text, isControl) || got == text, "the harmless text", text, "is printed as", got)
		must.Hold(t, len(got) <= 6*len(text), len(text), "bytes are printed as", len(got))
	}, fuzz.Seed{"INFO\tone\ntwo\r\x1b[2Jthree"}, fuzz.Seed{"\x9b31mé\u202eabc\u2028"}, fuzz.Seed{"\xff\xfe😀\U000e0001"})
}

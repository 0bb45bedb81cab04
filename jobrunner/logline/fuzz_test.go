package logline

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// For any line of a worker, the parsed line is valid text of a known level, and not much longer than
// the raw line.
func FuzzParse(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, raw string) {
		l := Parse(raw)
		switch l.Level {
		case "", "DEBUG", "INFO", "WARN", "ERROR":
		default:
			t.Errorf("%q has level %q", raw, l.Level)
		}
		must.Hold(t, !l.Printed() || l.Text == raw && l.Job == "", raw, "which no logger wrote, is shown as", l)
		for name, text := range map[string]string{"text": l.Text, "failure": Failure(raw), "headline": Headline(raw)} {
			must.Hold(t, !utf8.ValidString(raw) || utf8.ValidString(text), name, raw, "is not UTF-8", text)
			// an invalid byte becomes a character of three
			must.Hold(t, len(text) <= 3*len(raw)+64, name, "of", len(raw), "bytes has", len(text))
		}
	},
		fuzz.Seed{`{"requestId": "0558ca0f-2790-4d67-bf1a-43e52bd2a92d-q1", "message": "Started.", "level": "INFO"}`},
		fuzz.Seed{`{"message": "x", "level": "WARNING", "exc_info": "Traceback\n  one\nKeyError: 'a'"}`},
		fuzz.Seed{`ERROR  | 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-q1 | Captured`},
		fuzz.Seed{`WARNING:root:low memory`},
		fuzz.Seed{`{"requestId": null, "message": "Uncaught exception | ['Traceback:\\n', '  File \"a\"\\n', \"KeyError: '\\u00fc'\\n\"]", "level": "ERROR"}`},
		fuzz.Seed{`{"error_type": "<class 'ValueError'>", "error_message": "it is \"bad\"", "error_traceback": "Trace"}`},
	)
}

// End, Tail and Shorten respect their limits.
func FuzzEnd(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, log string, most int) {
		most = min(max(most, 8), 1<<16)
		for name, got := range map[string]string{"the end": End(strings.Split(log, "\n"), 20, most), "the tail": Tail(log, most), "the short form": Shorten(log, most)} {
			must.Hold(t, len(got) <= most, name, log, "has", len(got), "bytes, expected at most", most)
			must.Hold(t, !utf8.ValidString(log) || utf8.ValidString(got), name, log, "cut to", most, "is not UTF-8", got)
		}
	},
		fuzz.Seed{"{\"message\": \"heartbeat\", \"level\": \"DEBUG\"}\nloads\nUncaught exception", 20},
		fuzz.Seed{strings.Repeat("ü", 3000) + "\nKeyError", 100},
		fuzz.Seed{"INFO   | one\n\n\ntwo", 8},
	)
}

package logline

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestParse(t *testing.T) {
	const id = "0558ca0f-2790-4d67-bf1a-43e52bd2a92d-q1"
	for raw, want := range map[string]Line{
		`{"requestId": null, "message": "Started.", "level": "INFO"}`:                         {"INFO", "Started.", ""},
		`{"requestId": "` + id + `", "message": "a | b", "level": "DEBUG"}`:                   {"DEBUG", "a | b", id},
		`{"message": "x", "level": "WARNING", "exc_info": "Traceback\n  one\nKeyError: 'a'"}`: {"WARN", "x\nTraceback\n  one\nKeyError: 'a'", ""},
		`{"event": "x", "level": "critical"}`:                                                 {"ERROR", "x", ""},
		`{"level": "INFO", "msg": "x"}`:                                                       {"INFO", "x", ""},
		`{"message": "no level"}`:                                                             {"", `{"message": "no level"}`, ""},
		`{"message": 7, "level": "INFO"}`:                                                     {"", `{"message": 7, "level": "INFO"}`, ""},
		`{"level": "INFO"}`:                                                                   {"", `{"level": "INFO"}`, ""},
		`{"cut`:                                                                               {"", `{"cut`, ""},
		`INFO   | Started.`:                                                                   {"INFO", "Started.", ""},
		`ERROR  | ` + id + ` | Captured`:                                                      {"ERROR", "Captured", id},
		`WARNING:root:low memory`:                                                             {"WARN", "low memory", ""},
		`INFORMATION is no level`:                                                             {"", `INFORMATION is no level`, ""},
		`it works`:                                                                            {"", "it works", ""},
		``:                                                                                    {"", "", ""},
		`{"requestId": null, "message": "Uncaught exception | ['Traceback:\\n', '  File \"a\"\\n', \"KeyError: 'b'\\n\"]", "level": "ERROR"}`:                                                 {"ERROR", "Uncaught exception:\nTraceback:\n  File \"a\"\nKeyError: 'b'", ""},
		`{"requestId": "x", "message": "{\n \"error_type\": \"<class 'ValueError'>\", \"error_message\": \"no\", \"error_traceback\": \"Traceback\\nValueError: no\\n\"}", "level": "ERROR"}`: {"ERROR", "Traceback\nValueError: no", "x"},
	} {
		must.Equal(t, Parse(raw), want, raw)
	}
}

func TestUnquoteList(t *testing.T) {
	for list, want := range map[string]string{
		`['a\n', 'b\n']`: "a\nb\n",
		`["it's\n", 'a \'b\' \\ \t\x41\u00fc\n']`: "it's\na 'b' \\ \tAü\n",
		`[]`:           "",
		`['a\n', '  b`: "a\n  b",
		"['a\\n', '\n...TRUNCATED 9 CHARACTERS...\n c\\n', 'd\\n']": "a\n\n...TRUNCATED 9 CHARACTERS...\n c\nd\n",
		`['\q', '\`: `\q`,
	} {
		must.Equal(t, unquoteList(list), want, list)
	}
}

// generatorFailure is an error of the public SDK about a generator.
const (
	generatorFailure   = "handler: two\nlines \ntraceback: " + generatorTraceback + "\n"
	generatorTraceback = "Traceback (most recent call last):\n  File \"w.py\", line 2, in run\n    async for x in y:\n" +
		"  File \"h.py\", line 6, in handler\n    raise ValueError(\"two\\nlines\")\n    ^^^^^\nValueError: two\nlines"
)

func TestReadableFailure(t *testing.T) {
	for text, want := range map[string]string{
		"no":       "no",
		`{"a": 1}`: `{"a": 1}`,
		`{"error_type": "<class 'ValueError'>", "error_message": "no"}`:   "ValueError: no",
		`{"error_message": "no", "error_traceback": "Traceback\n  no\n"}`: "Traceback\n  no",
		`{broken`:        `{broken`,
		generatorFailure: generatorTraceback,
	} {
		must.Equal(t, ReadableFailure(text), want, text)
	}
}

// LastMessages truncates at the front: the cause of a crash is in the last lines.
func TestLastMessages(t *testing.T) {
	lines := []string{`{"message": "heartbeat", "level": "DEBUG"}`, "", "loads", `{"message": "Uncaught exception | ['Traceback:\\n', 'KeyError: 1\\n']", "level": "ERROR"}`, "    +-----", `{"message": "heartbeat", "level": "DEBUG"}`}
	must.Equal(t, LastMessages(lines, 20, 2000), "loads\nUncaught exception:\nTraceback:\nKeyError: 1")
	must.Equal(t, LastMessages(lines, 20, 22), "…\nKeyError: 1")
	must.Equal(t, LastMessages(lines, 2, 2000), "Uncaught exception:\nTraceback:\nKeyError: 1")
	must.Equal(t, LastMessages(nil, 5, 100), "", "the last messages of an empty log")
}

func TestShorten(t *testing.T) {
	for _, text := range []string{strings.Repeat("a", 5000), strings.Repeat("ü", 3000), strings.Repeat("words and lines\n", 400) + "the cause"} {
		for maxBytes := 8; maxBytes < 200; maxBytes++ {
			for _, got := range []string{tail(text, maxBytes), Shorten(text, maxBytes)} {
				must.Require(t, len(got) <= maxBytes && utf8.ValidString(got) && strings.Contains(got, "…"), "a text with at most", maxBytes, "bytes is", got)
			}
		}
	}
	got := Shorten(strings.Repeat("x", 3000)+"\nKeyError", 100)
	must.Hold(t, strings.HasPrefix(got, "xxx") && strings.HasSuffix(got, "…\nKeyError"), got)
	must.Equal(t, Shorten("short", 100), "short")
	must.Equal(t, Shorten("\xff names "+strings.Repeat("x", 100), 32), "\xff names …"+strings.Repeat("x", 21), "with an invalid byte")
}

func TestHeadline(t *testing.T) {
	for text, want := range map[string]string{
		`{"error_type": "<class 'ValueError'>", "error_message": "it is \"bad\"", "error_traceback": "Trace`: `ValueError: it is "bad"`,
		`{"error_type": "<class 'a.B'>", "error_message": "", "x": 1}`:                                       "a.B",
		`{"error_type": "<class 'ValueError'>", "error_message": "cut in its mid`:                            "ValueError: cut in its mid",
		generatorFailure: "ValueError: two\nlines",
		"loading\nTraceback (most recent call last):\n  File \"a.py\"\nValueError: bad\n(exit status 1)": "ValueError: bad (exit status 1)",
		"no luck\n(signal: killed)": "no luck (signal: killed)",
		"out of memory":             "out of memory",
		`{"a": 1}`:                  `{"a": 1}`,
		"":                          "",
	} {
		must.Equal(t, Headline(text), want, text)
	}
}

// A parsed line has a known level and a bounded length. It is valid UTF-8 if the raw line is.
func FuzzParse(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, raw string) {
		l := Parse(raw)
		switch l.Level {
		case "", "DEBUG", "INFO", "WARN", "ERROR":
		default:
			t.Errorf("%q has level %q", raw, l.Level)
		}
		must.Hold(t, !l.IsPrinted() || l.Text == raw && l.Job == "", "a line that no logger wrote,", raw, "is parsed as", l)
		for name, text := range map[string]string{"text": l.Text, "failure": ReadableFailure(raw), "headline": Headline(raw)} {
			must.Hold(t, !utf8.ValidString(raw) || utf8.ValidString(text), "the", name, "of", raw, "isn't UTF-8:", text)
			// An invalid byte becomes a character of three bytes.
			must.Hold(t, len(text) <= 3*len(raw)+64, "the", name, "of a line of", len(raw), "bytes has", len(text), "bytes")
		}
	},
		fuzz.Seed{`{"requestId": "0558ca0f-2790-4d67-bf1a-43e52bd2a92d-q1", "message": "Started.", "level": "INFO"}`},
		fuzz.Seed{`{"message": "x", "level": "WARNING", "exc_info": "Traceback\n  one\nKeyError: 'a'"}`},
		fuzz.Seed{`ERROR  | 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-q1 | Captured`},
		fuzz.Seed{`WARNING:root:low memory`},
		fuzz.Seed{`{"requestId": null, "message": "Uncaught exception | ['Traceback:\\n', '  File \"a\"\\n', \"KeyError: '\\u00fc'\\n\"]", "level": "ERROR"}`},
		fuzz.Seed{`{"error_type": "<class 'ValueError'>", "error_message": "it is \"bad\"", "error_traceback": "Trace"}`},
		fuzz.Seed{generatorFailure},
	)
}

// LastMessages, tail and Shorten respect their limits.
func FuzzLimits(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, log string, maxBytes int) {
		maxBytes = min(max(maxBytes, 8), 1<<16)
		for name, got := range map[string]string{"LastMessages": LastMessages(strings.Split(log, "\n"), 20, maxBytes), "tail": tail(log, maxBytes), "Shorten": Shorten(log, maxBytes)} {
			must.Hold(t, len(got) <= maxBytes, name, "of", log, "has", len(got), "bytes, want at most", maxBytes)
			must.Hold(t, !utf8.ValidString(log) || utf8.ValidString(got), name, "of", log, "with at most", maxBytes, "bytes isn't UTF-8:", got)
		}
	},
		fuzz.Seed{"{\"message\": \"heartbeat\", \"level\": \"DEBUG\"}\nloads\nUncaught exception", 20},
		fuzz.Seed{strings.Repeat("ü", 3000) + "\nKeyError", 100},
		fuzz.Seed{"INFO   | one\n\n\ntwo", 8},
	)
}

// Package logline parses the lines that workers write: the JSON of the public worker SDK and of common
// loggers, lines with a level as prefix, and other output of a handler.
package logline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

type Line struct {
	// Level is DEBUG, INFO, WARN or ERROR, or "" if no logger wrote the line.
	Level string
	// Text is the message, with a traceback below it. It may have several lines.
	Text string
	Job  string // id of its job; "" if the line names none
}

// IsPrinted reports whether the handler or its runtime printed the line, not a logger.
func (l Line) IsPrinted() bool { return l.Level == "" }

// Visible returns what a terminal shows of a line: the text after its last carriage return. Progress bars
// overwrite their line with each update.
func Visible(line string) string {
	line = strings.TrimRight(line, "\r")
	return line[strings.LastIndexByte(line, '\r')+1:]
}

func Parse(raw string) Line {
	if strings.HasPrefix(raw, "{") {
		if l, ok := parseJSON(raw); ok {
			return l
		}
	}
	if m := prefixForm.FindStringSubmatch(raw); m != nil {
		l := Line{Level: level(m[1]), Text: message(m[2])}
		if id, rest, ok := strings.Cut(l.Text, " | "); ok && jobID.MatchString(id) {
			l.Job, l.Text = id, rest
		}
		return l
	}
	return Line{Text: raw}
}

var (
	// The public SDK writes "INFO   | text", Python's logging "INFO:name:text".
	prefixForm = regexp.MustCompile(`(?s)^(TRACE|DEBUG|INFO|TIP|WARN|WARNING|ERROR|CRITICAL|FATAL)(?: *\| |:[\w.]+:)(.*)$`)
	jobID      = regexp.MustCompile(`^(sync-)?[0-9a-f]{8}-[0-9a-f]{4}-\S+$`)
)

// The members' names in common loggers' JSON, the most common first.
var (
	messageNames   = []string{"message", "msg", "event"}
	levelNames     = []string{"level", "levelname", "severity", "lvl"}
	tracebackNames = []string{"traceback", "exc_info", "exception", "error_traceback", "stack", "stack_trace"}
	jobNames       = []string{"requestId", "request_id", "job_id", "jobId"}
)

func parseJSON(raw string) (l Line, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &members) != nil {
		return l, false
	}
	l.Text, ok = firstString(members, messageNames)
	if !ok {
		return l, false
	}
	name, ok := firstString(members, levelNames)
	if !ok {
		return l, false // it may be JSON printed by a handler
	}
	l.Level, l.Text = level(name), message(l.Text)
	l.Job, _ = firstString(members, jobNames)
	if trace, ok := firstString(members, tracebackNames); ok && trace != "" && !strings.Contains(l.Text, trace) {
		l.Text = strings.TrimRight(l.Text, "\n") + "\n" + strings.TrimRight(trace, "\n")
	}
	return l, true
}

func firstString(members map[string]json.RawMessage, names []string) (text string, ok bool) {
	for _, name := range names {
		if raw, present := members[name]; present && json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
			return text, true
		}
	}
	return "", false
}

// level maps a logger's level to DEBUG, INFO, WARN or ERROR.
func level(name string) string {
	switch strings.ToUpper(name) {
	case "TRACE", "DEBUG", "NOTSET":
		return "DEBUG"
	case "WARN", "WARNING":
		return "WARN"
	case "ERROR", "CRITICAL", "FATAL", "PANIC", "ALERT", "EMERGENCY":
		return "ERROR"
	}
	return "INFO"
}

// message makes a logger's message readable: the public SDK logs an exception as
// the list of its lines, and a handler's error as JSON.
func message(text string) string {
	if before, list, ok := strings.Cut(text, uncaught); ok {
		return before + uncaughtText + "\n" + strings.TrimRight(unquoteList(list), "\n")
	}
	return strings.TrimRight(ReadableFailure(text), "\n")
}

const (
	uncaught     = "Uncaught exception | "
	uncaughtText = "Uncaught exception:"
)

// ReadableFailure makes a job's error readable: the public SDK sends a handler's exception as JSON with a
// traceback, and a generator's as text. Other errors are returned unchanged.
func ReadableFailure(text string) string {
	if m := generatorForm.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	var raised struct {
		Traceback string `json:"error_traceback"`
	}
	switch err := json.Unmarshal([]byte(text), &raised); {
	case err != nil:
		return text
	case raised.Traceback != "":
		return strings.TrimRight(raised.Traceback, "\n")
	}
	return Headline(text)
}

// generatorForm matches the text in which the public SDK reports a generator's exception. Its groups are the
// traceback, and the type and message below the traceback's last frame.
var generatorForm = regexp.MustCompile(`(?s)^handler: .* \ntraceback: (Traceback .*\n  File [^\n]*(?:\n [^\n]*)*\n(\S.*?))\n*$`)

// endForm matches how a command ended: the last line of its failure. The line before, the last of its stderr, is
// the most telling one, as in a traceback.
var endForm = regexp.MustCompile(`^\((?:exit status|signal).*\)$`)

// raisedForm matches the beginning of the JSON in which the public SDK reports a handler's exception.
var raisedForm = regexp.MustCompile(`^\s*\{\s*"error_type": "(?:<class ')?([^'"]*)'?>?",\s*"error_message": "((?:[^"\\]|\\.)*)`)

// Headline shortens an error from the public SDK, even if its JSON was truncated, or from a command to one
// line, such as "ValueError: it is bad". It returns other errors unchanged.
func Headline(text string) string {
	if m := generatorForm.FindStringSubmatch(text); m != nil {
		return m[2]
	}
	if i := strings.LastIndexByte(text, '\n'); i > 0 && endForm.MatchString(text[i+1:]) {
		if last := text[strings.LastIndexByte(text[:i], '\n')+1 : i]; strings.TrimSpace(last) != "" {
			return last + " " + text[i+1:]
		}
	}
	m := raisedForm.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	var message string
	if json.Unmarshal([]byte(`"`+m[2]+`"`), &message) != nil {
		message = m[2]
	}
	if message == "" {
		return m[1]
	}
	return m[1] + ": " + message
}

// tail returns at most maxBytes of the end of a text, in whole lines if the last line fits. An ellipsis marks the cut.
func tail(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	end := text[len(text)-max(0, maxBytes-len(ellipsis)):]
	for len(end) > 0 && !utf8.RuneStart(end[0]) {
		end = end[1:]
	}
	if i := strings.IndexByte(end, '\n'); i >= 0 && i < len(end)-1 {
		return ellipsis + end[i:]
	}
	return ellipsis + end
}

// Shorten omits the middle of a text of more than maxBytes: the start names the failed operation, the end its cause.
func Shorten(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	n := maxBytes / 4
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + tail(text[n:], maxBytes-n)
}

const ellipsis = "…"

// LastMessages returns messages from the end of a log until they have maxLines lines, and at most the last
// maxBytes of them. It skips debug lines and lines without text, and returns only the text of a logger's JSON.
func LastMessages(lines []string, maxLines, maxBytes int) string {
	var messages []string
	for i := len(lines) - 1; i >= 0 && maxLines > 0; i-- {
		l := Parse(lines[i])
		if l.Level == "DEBUG" || strings.Trim(l.Text, " \t\r|+-") == "" { // Python's exception groups end with +------
			continue
		}
		maxLines -= strings.Count(l.Text, "\n") + 1
		messages = append(messages, l.Text)
	}
	slices.Reverse(messages)
	return tail(strings.Join(messages, "\n"), maxBytes)
}

// unquoteList joins the strings of a list in Python's syntax: ['a\n', "b's\n"]. It reads a truncated
// list to its end, and keeps text outside of quotes unchanged.
func unquoteList(list string) string {
	var b strings.Builder
	rest := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(list), "["), "]")
	for rest != "" {
		if quote := rest[0]; quote == '\'' || quote == '"' {
			end := closingQuote(rest, quote)
			b.WriteString(unescape(rest[1:end]))
			rest = strings.TrimPrefix(rest[min(end+1, len(rest)):], ", ")
			continue
		}
		next := strings.IndexAny(rest, `'"`)
		if next < 0 {
			next = len(rest)
		}
		b.WriteString(unescape(rest[:next]))
		rest = rest[next:]
	}
	return b.String()
}

// closingQuote returns the index of a string's closing quote, or the length of s if it has no such quote.
func closingQuote(s string, quote byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			return i
		}
	}
	return len(s)
}

var (
	escapes    = map[byte]string{'n': "\n", 't': "\t", 'r': "", '\\': `\`, '\'': `'`, '"': `"`}
	hexEscapes = map[byte]int{'x': 2, 'u': 4, 'U': 8} // numbers of digits
)

// unescape resolves the escapes of Python's strings.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for s != "" {
		before, after, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			break
		}
		if after == "" {
			return b.String()
		}
		var width int
		if character, ok := escapes[after[0]]; ok {
			b.WriteString(character)
			width = 1
		} else if digits := hexEscapes[after[0]]; digits > 0 && len(after) > digits {
			if n, err := strconv.ParseUint(after[1:1+digits], 16, 32); err == nil {
				b.WriteRune(rune(n))
				width = 1 + digits
			}
		}
		if width == 0 { // not an escape
			b.WriteByte('\\')
		}
		s = after[width:]
	}
	return b.String()
}

// Package logline parses the lines that workers write: the JSON of the public worker SDK and of common
// loggers, lines with a level as prefix, and other output of a handler.
package logline

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Line is a parsed line.
type Line struct {
	// Level is DEBUG, INFO, WARN or ERROR, or "" if no logger wrote the line.
	Level string
	// Text is the message, with a traceback below it. It may have several lines.
	Text string
	Job  string // id of its job; "" if the line names none
}

// Printed reports whether the handler or its runtime printed the line, not a logger.
func (l Line) Printed() bool { return l.Level == "" }

// Debug reports whether the line is of level DEBUG.
func (l Line) Debug() bool { return l.Level == "DEBUG" }

// Visible returns what a terminal shows of a line: the text after its last carriage return. Progress bars
// overwrite their line with each update.
func Visible(line string) string {
	line = strings.TrimRight(line, "\r")
	return line[strings.LastIndexByte(line, '\r')+1:]
}

// Parse parses a line.
func Parse(raw string) Line {
	if strings.HasPrefix(raw, "{") {
		if l, ok := parseJSON(raw); ok {
			return l
		}
	}
	if m := prefixed.FindStringSubmatch(raw); m != nil {
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
	prefixed = regexp.MustCompile(`(?s)^(TRACE|DEBUG|INFO|TIP|WARN|WARNING|ERROR|CRITICAL|FATAL)(?: *\| |:[\w.]+:)(.*)$`)
	jobID    = regexp.MustCompile(`^(sync-)?[0-9a-f]{8}-[0-9a-f]{4}-\S+$`)
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

// firstString returns the first of the named members that is a string.
func firstString(members map[string]json.RawMessage, names []string) (text string, ok bool) {
	for _, name := range names {
		if raw, present := members[name]; present && json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
			return text, true
		}
	}
	return "", false
}

// level maps a logger's level to one of the four.
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
	return strings.TrimRight(Failure(text), "\n")
}

const (
	uncaught     = "Uncaught exception | "
	uncaughtText = "Uncaught exception:"
)

// Failure makes a job's error readable: the public SDK sends a handler's exception as JSON with a
// traceback. Other errors are returned unchanged.
func Failure(text string) string {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return text
	}
	var raised struct {
		Type      string `json:"error_type"`
		Message   string `json:"error_message"`
		Traceback string `json:"error_traceback"`
	}
	if json.Unmarshal([]byte(text), &raised) != nil {
		return text
	}
	switch {
	case raised.Traceback != "":
		return strings.TrimRight(raised.Traceback, "\n")
	case raised.Message != "":
		return strings.Trim(raised.Type+": "+raised.Message, ": ")
	}
	return text
}

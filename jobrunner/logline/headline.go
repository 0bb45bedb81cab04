package logline

import (
	"encoding/json"
	"regexp"
)

// raisedForm matches the beginning of the JSON in which the public SDK reports a handler's exception.
var raisedForm = regexp.MustCompile(`^\s*\{\s*"error_type": "(?:<class ')?([^'"]*)'?>?",\s*"error_message": "((?:[^"\\]|\\.)*)`)

// Headline returns a job's error in one line, such as "ValueError: it is bad", even if its JSON was
// truncated. Other errors are returned unchanged.
func Headline(text string) string {
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

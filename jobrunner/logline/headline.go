package logline

import (
	"encoding/json"
	"regexp"
)

// raisedForm is the beginning of the JSON by which the public SDK tells what a
// handler raised.
var raisedForm = regexp.MustCompile(`^\s*\{\s*"error_type": "(?:<class ')?([^'"]*)'?>?",\s*"error_message": "((?:[^"\\]|\\.)*)`)

// Headline is the error of a job in a line, such as "ValueError: it is bad", also
// where its text was cut. Any other error is left as it is.
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

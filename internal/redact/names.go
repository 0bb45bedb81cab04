package redact

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
)

// secretNames are the names of attributes and members whose values may be secrets, in lower case and without underscores.
var secretNames = map[string]bool{
	"env": true, "envwo": true, "password": true, "passwordwo": true, "apikey": true, "webhook": true, "headers": true,
	"accessid": true, "accesssecret": true, "value": true, "valuewo": true,
	"args": true, "dockerargs": true, "dockerstartcmd": true, "dockerentrypoint": true, "entrypoint": true, "cmd": true,
}

// payloadNames are members with users' data, which logs omit.
var payloadNames = map[string]bool{"input": true, "output": true, "error": true, "stream": true, "line": true, "reason": true}

func canonical(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// IsSecret reports whether the values of an attribute or member may be secrets.
func IsSecret(name string) bool { return secretNames[canonical(name)] }

// Values returns the secrets in the value of an attribute or member. For a start command, these
// are the words that may be secrets and, if it is one text, the whole text.
func Values(name, text string) []string {
	switch canonical(name) {
	case "args", "dockerargs":
		if c, ok := startcmd.ParseJSON(text); ok {
			return append(words(strings.Join(c.Words(), " ")), text)
		}
		return append(words(text), text)
	case "dockerstartcmd", "dockerentrypoint", "entrypoint", "cmd": // an element of a list
		return words(text)
	}
	return []string{text}
}

func secretsIn(document []byte) (out []string) {
	var root any
	if json.Unmarshal(document, &root) != nil {
		return nil
	}
	var find func(v any)
	find = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				find(element)
			}
		case map[string]any:
			for name, member := range v {
				if !IsSecret(name) {
					find(member)
					continue
				}
				walk(member, func(leaf string) { out = append(out, Values(name, leaf)...) })
			}
		}
	}
	find(root)
	return out
}

// walk calls visit for each text in a decoded document.
func walk(v any, visit func(string)) {
	switch v := v.(type) {
	case string:
		visit(v)
	case []any:
		for _, element := range v {
			walk(element, visit)
		}
	case map[string]any:
		for _, member := range v {
			walk(member, visit)
		}
	}
}

const maxBody = 16 << 10 // characters of a body in a log

// Body formats the body of a request or answer for a log, without the values of secret members
// and payloads. A body that isn't JSON becomes "[not JSON]".
func (s *Set) Body(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var root any
	if decoder.Decode(&root) != nil {
		return "[not JSON]"
	}
	return s.Text(JSON(maskSecrets(root, false)), maxBody)
}

// JSON returns the JSON of a text or of decoded JSON, without the escapes for HTML.
func JSON(v any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // can't fail
	return strings.TrimSpace(out.String())
}

// maskSecrets replaces the values of secret members and payloads. It keeps their names.
func maskSecrets(v any, secret bool) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = maskSecrets(member, secret || IsSecret(name) || payloadNames[canonical(name)])
		}
		return v
	case []any:
		for i, element := range v {
			v[i] = maskSecrets(element, secret)
		}
		return v
	case nil:
		return nil
	}
	if secret {
		return Redacted
	}
	return v
}

package httpclient

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A missing scope is in a challenge (RFC 6750) or in a member of the error document. No source
// documents the operator's form.
var (
	scopeInChallenge = regexp.MustCompile(`(?i)\bscope="?([^",]+)`)
	scopeName        = regexp.MustCompile(`^[\w.:*/-]{1,64}$`)
	scopeMembers     = map[string]bool{"scope": true, "scopes": true, "requiredscope": true, "requiredscopes": true, "missingscope": true, "missingscopes": true}
)

// maxScopes limits the scopes in an error.
const maxScopes = 8

// missingScope returns the scopes that a 403 names, or "".
func missingScope(header http.Header, body []byte) string {
	var found []string
	add := func(text string) {
		for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == ';' }) {
			if scopeName.MatchString(name) && len(found) < maxScopes {
				found = append(found, name)
			}
		}
	}
	for _, challenge := range header.Values("WWW-Authenticate") {
		if match := scopeInChallenge.FindStringSubmatch(challenge); match != nil {
			add(match[1])
		}
	}
	if len(found) == 0 {
		walkScopes(body, maxWrapping, add)
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", ")
}

// walkScopes calls add for each member of a document that names scopes.
func walkScopes(data []byte, wrapping int, add func(string)) {
	var members map[string]json.RawMessage
	if wrapping == 0 || json.Unmarshal(data, &members) != nil {
		return
	}
	for name, value := range members {
		if scopeMembers[strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))] {
			var list []string
			var text string
			if json.Unmarshal(value, &list) == nil {
				add(strings.Join(list, " "))
			} else if json.Unmarshal(value, &text) == nil {
				add(text)
			}
			continue
		}
		walkScopes(value, wrapping-1, add)
	}
}

package wire_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
)

// However a text contains the key, no text and no command of a report does.
func FuzzSecrets(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, key, before, after string, cut int) {
		const shown = "$GPUCLOUD_API_KEY=any-secret-of-your-own"
		if len(key) < 8 || !utf8.ValidString(key) || strings.Contains(shown, key) {
			return
		}
		var s wire.Secrets
		s.Add("GPUCLOUD_API_KEY", key)
		for name, form := range forms(key) {
			text := before + form + after
			cut := int(uint(cut) % uint(len(text)+1))
			r := wire.Request{Method: "POST", URL: "http://deployment/x?" + url.QueryEscape(key), Header: http.Header{"Authorization": {"Bearer " + key}, "X-Odd": {text}}, Body: []byte(text)}
			for function, got := range map[string]string{"redacted": s.Redact(text), "cut": s.Cut([]byte(text), cut), "script": wire.Script([]wire.Step{{Exchange: &wire.Exchange{Request: r}}}, nil, nil, &s)} {
				// The surrounding text and the placeholder may form the key again.
				if strings.Contains(got, form) && !strings.Contains(before+after, form) && strings.Count(text, form) == 1 && !strings.Contains(before+"$GPUCLOUD_API_KEY"+after, form) {
					t.Errorf("%s: %q with the key %q as %s: %q", function, text, key, name, got)
				}
			}
		}
	}, fuzz.Seed{"the-secret-key", "x ", " y", 7}, fuzz.Seed{`a"b/c+d<e>&f`, `{"k":"`, `"}`, 3}, fuzz.Seed{"schlüssel\\\u2028x", "'", "`$(x)", 20}, fuzz.Seed{`"""""""""`, "", "", 0})
}

// forms returns the encodings of a key in texts.
func forms(key string) map[string]string {
	inner := func(text []byte) string { return string(text[1 : len(text)-1]) }
	escaped, _ := json.Marshal(key) // can't fail for a string
	var plain strings.Builder
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(key)
	return map[string]string{"itself": key, "JSON": inner(escaped), "plain JSON": inner([]byte(strings.TrimSpace(plain.String()))), "a query": url.QueryEscape(key)}
}

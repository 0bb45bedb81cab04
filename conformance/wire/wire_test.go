package wire_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestSecretsAreHiddenByValue(t *testing.T) {
	var s wire.Secrets
	s.Add("KEY", `a"b/c+d`)
	s.Add("LONG", `a"b/c+d-and-more`)
	s.Add("NOTHING", "abc")
	for text, want := range map[string]string{
		`x a"b/c+d y`: `x $KEY y`, `{"k":"a\"b/c+d"}`: `{"k":"$KEY"}`, "?key=a%22b%2Fc%2Bd": "?key=$KEY", "/x/a%22b%2Fc+d": "/x/$KEY",
		`a"b/c+d-and-more`: "$LONG", "abcabc": "abcabc",
	} {
		must.Equal(t, s.Redact(text), want, text)
	}
}

// A cut text contains no part of a secret, wherever it is cut, and n counts the bytes before redaction.
func TestCutRedactsFirst(t *testing.T) {
	const secret, redacted = "the-secret-that-is-long", "$KEY é $KEY and $KEY"
	var s wire.Secrets
	s.Add("KEY", secret)
	text := []byte(secret + " é " + secret + " and " + secret)
	for n := range len(text) + 10 {
		got := s.Cut(text, n)
		for rest := got; rest != ""; rest = rest[1:] {
			must.Require(t, !strings.HasPrefix(rest, secret[:4]), "cut at", n, "bytes, the text shows a part of the secret:", got)
		}
		_, ok := strings.CutPrefix(redacted, got)
		must.Hold(t, ok && (n < len(text) || got == redacted), "cut at", n, "bytes, the text is", got, "instead of the beginning of", redacted)
	}
}

func TestChunkedHasNoContentLength(t *testing.T) {
	length := int64(0)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { length = r.ContentLength }))
	defer server.Close()
	x := wire.Do(context.Background(), server.Client(), wire.Request{Method: "POST", URL: server.URL, Body: []byte("abc"), Chunked: true}, time.Now)
	must.Hold(t, x.Err == nil && length == -1, "expected the unknown length -1, got", length, x.Err)
}

// A large body isn't sent if the target refuses it, so that a slow machine can read the refusal.
func TestLargeBodyWaitsForARefusal(t *testing.T) {
	var read int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 3<<20 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		read, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	for size, status := range map[int]int{2 << 20: 200, 4 << 20: 413, 100: 200} {
		read = 0
		x := wire.Do(t.Context(), client, wire.Request{Method: "POST", URL: server.URL, Body: make([]byte, size)}, time.Now)
		must.Hold(t, x.Err == nil && x.Status == status && (status != 200 || read == int64(size)), "a body of", size, "bytes got", x.Status, "instead of", status, "and", read, "bytes were read", x.Err)
	}
}

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

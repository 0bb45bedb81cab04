package wire_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestSecretsAreHiddenByValue(t *testing.T) {
	var s wire.Secrets
	s.Add("KEY", `a"b/c+d`)
	s.Add("LONG", `a"b/c+d-and-more`)
	s.Add("NOTHING", "abc")
	for text, want := range map[string]string{
		`x a"b/c+d y`: `x $KEY y`, `{"k":"a\"b/c+d"}`: `{"k":"$KEY"}`, "?key=a%22b%2Fc%2Bd": "?key=$KEY",
		`a"b/c+d-and-more`: "$LONG", "abcabc": "abcabc",
	} {
		must.Equal(t, s.Redact(text), want, text)
	}
}

// A cut text contains no part of a secret, wherever it is cut, and n counts the bytes
// before redaction.
func TestCutRedactsFirst(t *testing.T) {
	const secret, redacted = "the-secret-that-is-long", "$KEY é $KEY and $KEY"
	var s wire.Secrets
	s.Add("KEY", secret)
	text := []byte(secret + " é " + secret + " and " + secret)
	for n := range len(text) + 10 {
		got := s.Cut(text, n)
		for rest := got; rest != ""; rest = rest[1:] {
			if strings.HasPrefix(rest, secret[:4]) {
				t.Fatalf("cut at %d: %q", n, got)
			}
		}
		if _, ok := strings.CutPrefix(redacted, got); !ok || n >= len(text) && got != redacted {
			t.Errorf("cut at %d: %q", n, got)
		}
	}
}

func TestChunkedHasNoContentLength(t *testing.T) {
	length := int64(0)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { length = r.ContentLength }))
	defer server.Close()
	x := wire.Do(context.Background(), server.Client(), wire.Request{Method: "POST", URL: server.URL, Body: []byte("abc"), Chunked: true}, time.Now)
	must.Hold(t, x.Err == nil && length == -1, x.Err, "a length of", length)
}

// A large body isn't sent if the target refuses it, so that the refusal can be read on a
// slow machine. An accepted body is sent.
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
		must.Hold(t, x.Err == nil && x.Status == status && (status != 200 || read == int64(size)), size, "bytes", x.Status, x.Err, read, "were read")
	}
}

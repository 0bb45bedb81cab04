package wire_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
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
		if got := s.Redact(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
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

// The command of a failure sends the request of the suite.
func TestCurlRepeats(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl isn't installed")
	}
	got := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Authorization"), r.Header.Get("X-Odd"), string(body)}, " | ")
	}))
	defer server.Close()
	var s wire.Secrets
	s.Add("GPUCLOUD_API_KEY", "the-secret-key")
	for _, r := range []wire.Request{
		{Method: "POST", URL: server.URL + "/x?y=1&z=2", Header: http.Header{"Authorization": {"Bearer the-secret-key"}, "X-Odd": {"it's"}}, Body: []byte("{\"a\": \"b'c$d\\n`\"}")},
		{Method: "GET", URL: server.URL + "/the-secret-key", Header: http.Header{"Authorization": {"the-secret-key"}}},
	} {
		x := wire.Do(context.Background(), server.Client(), r, time.Now)
		if x.Err != nil || x.Status != 200 {
			t.Fatal(x.Err)
		}
		want := <-got
		line := r.Curl(&s)
		if strings.Contains(line, "the-secret-key") {
			t.Errorf("the key is in %s", line)
		}
		cmd := exec.Command("sh", "-c", strings.Replace(line, "curl", curl, 1))
		cmd.Env = []string{"GPUCLOUD_API_KEY=the-secret-key"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %s", line, out)
		}
		if repeated := <-got; repeated != want {
			t.Errorf("%s\nsaid %s\nnot  %s", line, repeated, want)
		}
	}
}

func TestChunkedHasNoContentLength(t *testing.T) {
	length := int64(0)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { length = r.ContentLength }))
	defer server.Close()
	x := wire.Do(context.Background(), server.Client(), wire.Request{Method: "POST", URL: server.URL, Body: []byte("abc"), Chunked: true}, time.Now)
	if x.Err != nil || length != -1 {
		t.Errorf("%v, a length of %d", x.Err, length)
	}
}

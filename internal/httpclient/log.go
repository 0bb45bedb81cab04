package httpclient

import (
	"context"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// Log receives a record of each try of a request: its result at debug level, its redacted
// bodies at trace level. The values are strings, numbers and encoding.TextMarshalers, which are
// formatted only if they are written.
type Log func(ctx context.Context, trace bool, message string, fields map[string]any)

// lazy is a text that is formatted when a log writes it.
type lazy func() string

func (l lazy) MarshalText() ([]byte, error) { return []byte(l()), nil }

// logged is a transport that logs the tries of a call.
type logged struct {
	*Client
	call Call
	body []byte
	try  *int
}

// RoundTrip makes one try.
func (l logged) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.Log == nil {
		return l.RoundTripper.RoundTrip(r)
	}
	fields := func(more map[string]any) map[string]any {
		target := r.URL.String()
		more["method"], more["attempt"] = r.Method, *l.try
		more["url"] = lazy(func() string { return l.sanitize(l.call, target, maxDetail) })
		return more
	}
	if len(l.body) > 0 {
		l.Log(r.Context(), true, "request body", fields(map[string]any{"body": l.redacted(l.body)}))
	}
	started := time.Now()
	resp, err := l.RoundTripper.RoundTrip(r)
	outcome := map[string]any{"duration_ms": time.Since(started).Milliseconds()}
	if err != nil {
		outcome["error"] = lazy(func() string { return l.sanitize(l.call, err.Error(), maxDetail) })
	} else {
		id := resp.Header.Get("X-Request-Id")
		outcome["status"], outcome["request_id"] = resp.StatusCode, lazy(func() string { return l.sanitize(l.call, id, maxExcerpt) })
	}
	l.Log(r.Context(), false, "request", fields(outcome))
	return resp, err
}

// answered logs the body of an answer.
func (l logged) answered(ctx context.Context, body []byte) {
	if l.Log != nil {
		l.Log(ctx, true, "response body", map[string]any{"method": l.call.Method, "attempt": *l.try, "body": l.redacted(body),
			"url": lazy(func() string { return l.sanitize(l.call, l.call.URL, maxDetail) })})
	}
}

func (l logged) redacted(body []byte) lazy {
	return func() string { return l.call.secrets.Body(body) }
}

// sanitize cleans text from elsewhere for a message: see redact.Set.Text.
func (c *Client) sanitize(call Call, text string, limit int) string {
	if call.secrets == nil { // the call wasn't sent
		call.secrets = new(redact.Set)
		call.secrets.Add(c.APIKey)
	}
	return call.secrets.Text(text, limit)
}

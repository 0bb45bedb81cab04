package httpanswer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Each form has its own error body and content type. The other headers depend only on the refusal.
func TestForms(t *testing.T) {
	full := &Refusal{Status: 422, Text: "the request is not valid", Faults: []string{"a: <b>", "c"}, Allow: []string{"GET", "POST"}, RetryAfter: "7"}
	for _, c := range []struct {
		form              Form
		refusal           *Refusal
		status            int
		contentType, body string
	}{
		{ErrorForm, Refuse(404, "no %s", "job"), 404, "application/json", `{"error":"no job"}`},
		{ErrorForm, full, 422, "application/json", `{"error":"the request is not valid: a: <b>; c"}`},
		{OpenAIForm, Refuse(404, "no job"), 404, "application/json", `{"error":{"message":"no job","type":"invalid_request_error"}}`},
		{OpenAIForm, Refuse(503, "busy"), 503, "application/json", `{"error":{"message":"busy","type":"server_error"}}`},
		{MessageForm, Refuse(404, "no job"), 404, "application/json", `{"message":"no job"}` + "\n"},
		{MessageForm, full, 400, "application/json", `{"message":"the request is not valid: a: <b>; c"}` + "\n"},
		{ProblemForm, Refuse(404, "no job"), 404, "application/problem+json", `{"title":"Not Found","status":404,"detail":"no job"}` + "\n"},
		{ProblemForm, full, 422, "application/problem+json", `{"title":"Unprocessable Entity","status":422,"detail":"the request is not valid","errors":["a: <b>","c"]}` + "\n"},
	} {
		w := httptest.NewRecorder()
		c.form.WriteRefusal(w, c.refusal)
		h := w.Header()
		must.Hold(t, w.Code == c.status && w.Body.String() == c.body && h.Get("Content-Type") == c.contentType &&
			h.Get("Content-Length") == fmt.Sprint(len(c.body)), "answered", w.Code, "with the header", h, "and the body", w.Body, "want", c.status, c.contentType, c.body)
		if c.refusal == full && (h.Get("Allow") != "GET, POST" || h.Get("Retry-After") != "7") ||
			c.refusal != full && (h.Get("Allow") != "" || h.Get("Retry-After") != "") || h.Get("WWW-Authenticate") != "" {
			t.Errorf("the header of the refusal %+v is %v", c.refusal, h)
		}
	}
	w := httptest.NewRecorder()
	ErrorForm.WriteRefusal(w, Refuse(http.StatusUnauthorized, "no key"))
	must.Equal(t, w.Header().Get("WWW-Authenticate"), "Bearer", "the WWW-Authenticate header of a 401")
}

// Fail answers a refusal with its status, a shortage with 503 or 507, errors after a disconnect with 499, and
// others with 500. It logs only those, and never shows their text.
func TestFail(t *testing.T) {
	stopping, stop := context.WithCancelCause(t.Context())
	stop(httplimit.ErrStopping)
	disconnected, disconnect := context.WithCancel(t.Context())
	disconnect()
	for name, c := range map[string]struct {
		ctx        context.Context
		err        error
		status     int
		retryAfter string
	}{
		"refusal":             {t.Context(), fmt.Errorf("x: %w", Refuse(418, "tea")), 418, ""},
		"refusal at a stop":   {stopping, Refuse(418, "tea"), 418, ""},
		"no memory":           {t.Context(), fmt.Errorf("x: %w", httplimit.ErrMemory), 503, "5"},
		"full disk":           {t.Context(), fmt.Errorf("secret: %w", sqldb.ErrFull), 507, ""},
		"no database":         {t.Context(), fmt.Errorf("secret: %w", sqldb.ErrUnavailable), 503, "2"},
		"the database closes": {t.Context(), fmt.Errorf("secret: %w", sqldb.ErrClosed), 503, "2"},
		"a stop":              {stopping, context.Canceled, 503, "5"},
		"client is gone":      {disconnected, errors.New("secret"), 499, ""},
		"a defect":            {t.Context(), errors.New("secret"), 500, ""},
	} {
		var log bytes.Buffer
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(c.ctx, "GET", "/v2/templates", nil)
		ProblemForm.Fail(w, r, slog.New(slog.NewTextHandler(&log, nil)), c.err)
		must.Hold(t, w.Code == c.status && w.Header().Get("Retry-After") == c.retryAfter && !strings.Contains(w.Body.String(), "secret"),
			name, "is answered", w.Code, "with the header", w.Header(), "and the body", w.Body, "want", c.status)
		id := w.Header().Get(RequestID)
		if (c.status == 500) != strings.Contains(log.String(), "secret") || c.status == 500 && (id == "" || !strings.Contains(log.String(), id) || !strings.Contains(w.Body.String(), id)) {
			t.Errorf("%s: request %q, the log says %s", name, id, &log)
		}
	}
}

// A body that couldn't be read because the deployment stops isn't the client's fault.
func TestBodyRefusedAtStop(t *testing.T) {
	stopping, stop := context.WithCancelCause(t.Context())
	stop(httplimit.ErrStopping)
	refusal := BodyRefused(stopping, stopping.Err())
	must.Hold(t, refusal.Status == 503 && refusal.RetryAfter == "5", "the refusal is", refusal, "want 503 with RetryAfter 5")
}

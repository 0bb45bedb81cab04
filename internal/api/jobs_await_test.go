package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestRunToEnd(t *testing.T) {
	queued, running := answer(200, `{"id":"j","status":"IN_QUEUE"}`), answer(200, `{"id":"j","status":"IN_PROGRESS"}`)
	cancelled := answer(200, `{"id":"j","status":"CANCELLED"}`)
	forever := func(a http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/cancel/") {
				a = cancelled
			}
			a(w, r)
		}
	}
	for name, c := range map[string]struct {
		answers   []http.HandlerFunc // the last one for all further requests
		interrupt time.Duration
		want      string // the error, "" for none
		last      string // request
		takes     time.Duration
		progress  string
	}{
		"completed": {
			answers: []http.HandlerFunc{queued, queued, running, answer(200, `{"id":"j","status":"COMPLETED","output":7}`)},
			last:    "GET /v2/e/status/j", takes: 1187500 * time.Microsecond, progress: "IN_QUEUE IN_QUEUE IN_PROGRESS",
		},
		"failed": {
			answers: []http.HandlerFunc{queued, answer(200, `{"id":"j","status":"FAILED","error":"boom"}`)},
			want:    "job j of endpoint e ended as FAILED: boom", last: "GET /v2/e/status/j", takes: 250 * time.Millisecond, progress: "IN_QUEUE",
		},
		"cancelled elsewhere": {
			answers: []http.HandlerFunc{cancelled},
			want:    "job j of endpoint e ended as CANCELLED", last: "POST /v2/e/run",
		},
		"too slow": {
			answers: []http.HandlerFunc{queued, forever(running)},
			want:    "the wait for job j of endpoint e ended while it was IN_PROGRESS: not finished after 1m0s; it was cancelled", last: "POST /v2/e/cancel/j", takes: time.Minute,
		},
		"interrupted": {
			answers: []http.HandlerFunc{forever(queued)}, interrupt: 3 * time.Second,
			want: "the wait for job j of endpoint e ended while it was IN_QUEUE: interrupted; it was cancelled", last: "POST /v2/e/cancel/j", takes: 3 * time.Second,
		},
		"not to be cancelled": {
			answers: []http.HandlerFunc{queued, running, answer(403, `{"title":"no"}`)},
			want:    "it could not be cancelled, and may go on", last: "POST /v2/e/cancel/j", takes: 625 * time.Millisecond,
		},
		"gone": {
			answers: []http.HandlerFunc{queued, answer(404, `{"error":"no such job"}`)},
			want:    "it does not exist any more", last: "GET /v2/e/status/j", takes: 250 * time.Millisecond,
		},
		"not submitted": {
			answers: []http.HandlerFunc{answer(404, `{"error":"no such endpoint"}`)},
			want:    "the job could not be submitted to endpoint e", last: "POST /v2/e/run",
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			client, d := deployPiped(t, api.V2, c.answers...)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.interrupt > 0 {
				time.AfterFunc(c.interrupt, stop)
			}
			started := time.Now()
			var seen []string
			_, err := client.Jobs.RunToEnd(ctx, "e", api.Submission{Input: json.RawMessage(`{}`)}, time.Minute, func(job api.Job) { seen = append(seen, job.Status) })
			must.Hold(t, (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)), "expected the error", c.want, err)
			if last := d.last(t); last.method+" "+last.path != c.last {
				t.Errorf("the last request is %s %s, expected %s", last.method, last.path, c.last)
			}
			must.Equal(t, time.Since(started), c.takes, "took")
			must.Hold(t, c.progress == "" || strings.Join(seen, " ") == c.progress, "progress", seen, c.progress)
			if failure, ok := errors.AsType[*api.JobError](err); ok && failure.Job.ID != "j" {
				t.Errorf("the error names no job: %+v", failure)
			}
		})
	}
}

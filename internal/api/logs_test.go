package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// stream answers with events, and waits after each; it then stays open for an hour.
func stream(pause time.Duration, events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		_ = flush.Flush()
		for i, e := range events {
			fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, e)
			_ = flush.Flush()
			if !wait(r, pause) {
				return
			}
		}
		wait(r, time.Hour)
	}
}

// withLastEvent names the last event that exists when it answers.
func withLastEvent(last string, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Event-ID", last)
		answer(w, r)
	}
}

func wait(r *http.Request, d time.Duration) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-time.After(d):
		return true
	}
}

func event(n int) string {
	return fmt.Sprintf(`{"ts":"2026-06-01T00:00:0%dZ","source":"container","line":"line %d"}`, n, n)
}

// A log is read until it has the lines asked for, is silent for a second, or the time is
// up, whichever comes first.
func TestLogIsBounded(t *testing.T) {
	three := []string{event(1), event(2), event(3)}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		query  api.LogQuery
		lines  int
		took   time.Duration
	}{
		"as many lines as asked for":      {stream(0, three...), api.LogQuery{Tail: 2, For: time.Minute}, 2, 0},
		"silence":                         {stream(0, three...), api.LogQuery{Tail: 100, For: time.Minute}, 3, time.Second},
		"silence from the beginning":      {stream(0), api.LogQuery{Tail: 100, For: time.Minute}, 0, time.Second},
		"pauses that are no silence":      {stream(900*time.Millisecond, three...), api.LogQuery{Tail: 100, For: time.Minute}, 3, 2800 * time.Millisecond},
		"pauses before lines that exist":  {withLastEvent("2", stream(5*time.Second, three...)), api.LogQuery{Tail: 100, For: time.Minute}, 3, 11 * time.Second},
		"the time, with lines that exist": {withLastEvent("2", stream(5*time.Second, three...)), api.LogQuery{Tail: 100, For: 8 * time.Second}, 2, 8 * time.Second},
		"the time":                        {stream(900*time.Millisecond, three...), api.LogQuery{Tail: 100, For: 1500 * time.Millisecond}, 2, 1500 * time.Millisecond},
	} {
		runInBubble(t, name, func(t *testing.T) {
			c2, d := deployPiped(t, api.V2, c.answer)
			begin := time.Now()
			lines, err := c2.PodLog(t.Context(), "p", c.query)
			if err != nil || len(lines) != c.lines || time.Since(begin) != c.took {
				t.Errorf("%d lines after %s, %v; expected %d after %s", len(lines), time.Since(begin), err, c.lines, c.took)
			}
			if len(lines) > 0 {
				same(t, lines[0], api.LogLine{Time: "2026-06-01T00:00:01Z", Source: "container", Text: "line 1", ID: "0"})
			}
			same(t, d.last(t).header.Get("Accept"), "text/event-stream")
		})
	}
}

func TestLogQuery(t *testing.T) {
	c, d := deploy(t, api.V2, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", event(1)) // and the log ends
	})
	for _, test := range []struct {
		query api.LogQuery
		want  string
	}{
		{api.LogQuery{Tail: 7, For: time.Second}, "tail=7"},
		{api.LogQuery{Tail: 7, For: time.Second, Source: "system"}, "source=system&tail=7"},
		{api.LogQuery{Tail: 7, For: time.Second, Since: "2026-06-01T00:00:00Z"}, "since=2026-06-01T00%3A00%3A00Z"}, // tail would be ignored
	} {
		must.Equal(t, len(must.Do(c.WorkerLog(t.Context(), "e", "w", test.query))(t)), 1, "lines")
		same(t, d.last(t).path, "/v2/serverless/e/workers/w/logs")
		same(t, d.last(t).query, test.want)
	}
	for _, id := range []string{"", "a/b"} {
		if _, err := c.PodLog(t.Context(), id, api.LogQuery{}); err == nil || !strings.Contains(err.Error(), "can't be the id") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// What is no log is an error, and so is one that breaks off each time.
func TestLogThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"JSON":          {answer(200, `{"lines":[]}`, "Content-Type", "application/json"), "text/event-stream"},
		"an HTML page":  {answer(200, `<html></html>`, "Content-Type", "text/html"), "HTML"},
		"404":           {answer(404, `{"title":"Not Found","status":404,"detail":"no such pod"}`, "X-Request-Id", "req-3"), "404 Not Found: no such pod (request id req-3)"},
		"no JSON in it": {answer(200, "data: line\n\n", "Content-Type", "text/event-stream"), "not JSON"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			client, _ := deployPiped(t, api.V2, c.answer)
			_, err := client.PodLog(t.Context(), "p", api.LogQuery{Tail: 5, For: time.Second})
			must.Fail(t, err, c.says, "/v2/pods/p/logs")
		})
	}
}

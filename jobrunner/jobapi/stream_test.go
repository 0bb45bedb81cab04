package jobapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// sendText sends a request whose answer needn't be a JSON object.
func (d *deployment) sendText(method, path, body string) (status int, header http.Header, text string) {
	d.t.Helper()
	resp := d.begin(d.t.Context(), method, path, strings.NewReader(body))
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must.Succeed(d.t, err, method, path)
	return resp.StatusCode, resp.Header, string(raw)
}

// expectStream compares a job's stream at /v2.
func (d *deployment) expectStream(id, want string) {
	d.t.Helper()
	status, header, text := d.sendText("GET", "/v2/ep/stream/"+id, "")
	must.Hold(d.t, status == 200 && text == want && header.Get("Content-Type") == "application/json", "stream answered", status, text)
}

func TestStream(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		id := d.submit(`{"input": {}}`)
		job := d.take("ep")
		d.report(job, engine.Chunk([]byte(`{"n":  1}`), nil))
		d.report(job, engine.Chunk([]byte(`"two"`), []byte(`{"pending": 2}`)))
		d.expectStream(id, `[{"output":{"n":  1}},{"output":"two","metrics":{"pending": 2}}]`)
		d.report(job, engine.Chunk([]byte(`3`), nil))
		d.expectStream(id, `[{"output":3}]`) // each chunk only once
		after(4, func() { d.report(job, engine.Chunk([]byte(`4`), nil)) })
		after(7, func() { d.report(job, engine.Done([]byte(`"all"`))) })
		start := now()
		d.expectStream(id, `[{"output":4}]`) // answered when the chunk arrives
		must.Equal(t, since(start), 4, "seconds until the answer")
		d.expectStream(id, `[]`) // answered at the job's end
		must.Equal(t, since(start), 7, "seconds until the answer")
		d.expectStream(id, `[]`)
		must.Equal(t, since(start), 7, "seconds until the answer about a job that has ended")
	})
}

// A request for a stream without new chunks waits for nine seconds, less than the Python SDK (10 s), or as long as wait says.
func TestStreamWaits(t *testing.T) {
	for query, seconds := range map[string]float64{"": 9, "?wait=1000": 1, "?wait=25000": 25, "?wait=300000": 300} {
		bubble(t, func(t *testing.T, d *deployment) {
			runningID := d.submit(`{"input": {}}`)
			d.take("ep")
			waitingID := d.submit(`{"input": {}}`)
			for _, id := range []string{waitingID, runningID} {
				start := now()
				status, _, text := d.sendText("GET", "/v2/ep/stream/"+id+query, "")
				must.Hold(t, status == 200 && text == "[]" && since(start) == seconds, query, "after", since(start), "s:", status, text)
			}
			start := now()
			for _, wait := range []string{"999", "300001", "abc", "null", "%zz"} {
				d.expectAnswer("400 …", "GET", "/v2/ep/stream/"+runningID+"?wait="+wait, "")
			}
			a := d.do("GET", "/v2/ep/stream/unknown"+query, "")
			must.Hold(t, a.status == 404 && since(start) <= 0, "an unknown job: after", since(start), "s:", a.status, a.raw)
		})
	}
}

// A returned output isn't a chunk. If a job is deleted while a client waits for its stream, it gets 404.
func TestStreamWithoutChunks(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		id := d.submit(`{"input": {}}`)
		d.report(d.take("ep"), engine.Done([]byte(`"all"`)))
		d.expectStream(id, `[]`)
		id = d.submit(`{"input": {}, "policy": {"ttl": 15000}}`)
		d.take("ep")
		start := now()
		a := d.do("GET", "/v2/ep/stream/"+id+"?wait=60000", "")
		must.Hold(t, a.status == 404 && since(start) == 15, "after", since(start), "s:", a.status, a.raw)
	})
}

// A status counts unread chunks unless the output, which may be large, has them.
func TestUnreadChunks(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		for output, want := range map[string]string{`[]`: "1", `["a"]`: "", `["` + strings.Repeat("a", 64<<10) + `"]`: ""} {
			id := d.submit(`{"input": {}}`)
			job := d.take("ep")
			d.report(job, engine.Chunk([]byte(`"a"`), nil))
			d.report(job, engine.Done([]byte(output)))
			must.Equal(t, d.status(id).header.Get("X-Unread-Chunks"), want, len(output), "bytes of output: unread chunks")
		}
	})
}

// 2.5 MB arrive in three chunks of at most 1 MB, which together are the text.
func TestStreamSplits(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		id := d.submit(`{"input": {}}`)
		want := strings.Repeat("abcdefü€\n", 5<<19/13)
		d.report(d.take("ep"), engine.Chunk(must.Do(json.Marshal(want))(t), nil))
		_, _, text := d.sendText("GET", "/v2/ep/stream/"+id, "")
		var chunks []struct{ Output string }
		must.Succeed(t, json.Unmarshal([]byte(text), &chunks))
		joined := ""
		for _, c := range chunks {
			raw, _ := json.Marshal(c.Output)
			must.Hold(t, len(raw) <= 1<<20, "a chunk of", len(raw), "bytes")
			joined += c.Output
		}
		must.Hold(t, len(chunks) == 3 && joined == want, len(chunks), "chunks with", len(joined), "bytes, want 3 with", len(want))
	})
}

// In the SDK dialect the status comes with the chunks: after a terminal one, everything has been read.
func TestLiveStream(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		read := func(method, id string) (status string, chunks []any) {
			t.Helper()
			a := d.do(method, "/live/v2/ep/stream/"+id, "")
			chunks, ok := a.body["stream"].([]any)
			must.Hold(t, a.status == 200 && len(a.body) == 2 && ok, "stream answered", a.status, a.raw)
			return a.body["status"].(string), chunks
		}
		id := d.submit(`{"input": {}}`)
		status, chunks := read("GET", id)
		must.Hold(t, status == "IN_QUEUE" && len(chunks) == 0, "in the queue:", status, chunks)
		job := d.take("ep")
		d.report(job, engine.Chunk([]byte(`{"n": 1}`), nil))
		status, chunks = read("POST", id)
		must.Hold(t, status == "IN_PROGRESS" && fmt.Sprint(chunks) == "[map[output:map[n:1]]]", "while it runs:", status, chunks)
		large := `"` + strings.Repeat("x", 1<<20-30) + `"`
		for range 20 {
			d.report(job, engine.Chunk([]byte(large), nil))
		}
		d.report(job, engine.Fail("x", nil))
		for total := 0; status != "FAILED"; {
			status, chunks = read("GET", id)
			total += len(chunks)
			if status == "FAILED" {
				must.Equal(t, total, 20, "chunks up to the state", status)
			} else {
				must.Require(t, status == "IN_PROGRESS" && len(chunks) != 0 && len(chunks) <= 8, status, "with", len(chunks), "chunks")
			}
		}
		status, chunks = read("GET", id)
		must.Hold(t, status == "FAILED" && len(chunks) == 0, "read again:", status, chunks)
	})
}

func TestStatusSync(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		id := d.submit(`{"input": {}}`)
		for query, seconds := range map[string]float64{"": 90, "?wait=1000": 1, "?wait=300000": 300} {
			start := now()
			a := d.do("GET", "/live/v2/ep/status-sync/"+id+query, "")
			must.Hold(t, a.status == 200 && a.body["status"] == "IN_QUEUE" && since(start) == seconds, query, "after", since(start), "s:", a.status, a.raw)
		}
		job := d.take("ep")
		after(5, func() { d.report(job, engine.Done([]byte(`1`))) })
		start := now()
		a := d.do("POST", "/live/v2/ep/status-sync/"+id, "")
		must.Hold(t, a.status == 200 && a.body["status"] == "COMPLETED" && a.body["output"] == 1.0 && since(start) == 5 &&
			a.raw == d.status(id).raw, "after", since(start), "s:", a.status, a.raw)
		for path, status := range map[string]int{
			"/live/v2/ep/status-sync/" + id + "?wait=999": 400, "/live/v2/ep/status-sync/unknown": 404, "/v2/ep/status-sync/" + id: 404,
		} {
			a := d.do("GET", path, "")
			must.Hold(t, a.status == status, path, "answered", a.status, a.raw, "want", status)
		}
	})
}

// The SDK dialect's routes follow the same rules as /v2, but also accept the public SDKs' methods.
func TestLiveRoutes(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		id := d.do("POST", "/live/v2/ep/run", `{"input": {}}`).body["id"].(string)
		for _, c := range []struct {
			method, path string
			status       int
			allow        string
		}{
			{"GET", "status/" + id, 200, ""}, {"POST", "status/" + id, 200, ""}, {"DELETE", "status/" + id, 405, "GET, POST"},
			{"POST", "status/" + id + "?ttl=9999", 400, ""}, {"GET", "status/" + id + "?ttl=%zz", 400, ""}, {"GET", "status/" + id + "?ttl=10000;", 400, ""}, {"GET", "health", 200, ""}, {"POST", "health", 405, "GET"},
			{"GET", "requests", 200, ""}, {"GET", "purge-queue", 405, "POST"}, {"GET", "cancel/" + id, 405, "POST"}, {"POST", "retry/" + id, 400, ""},
			{"GET", "nonsense", 404, ""}, {"GET", "stream", 404, ""}, {"GET", "stream/", 404, ""}, {"GET", "stream/a/b", 404, ""},
			{"POST", "cancel/" + id, 200, ""}, {"POST", "purge-queue", 200, ""}, {"POST", "openai/", 404, ""}, {"POST", "openai", 404, ""},
		} {
			a := d.do(c.method, "/live/v2/ep/"+c.path, "")
			must.Hold(t, a.status == c.status && a.header.Get("Allow") == c.allow,
				c.method, c.path, "got", a.status, "Allow", a.header.Get("Allow"), a.raw, "want", c.status, "Allow", c.allow)
		}
		for _, path := range []string{"/live/ep/health", "/live/v1/ep/health", "/live/live/v2/ep/health", "/live"} {
			d.expectAnswer("404 …", "GET", path, "")
		}
		a := d.do("POST", "/v2/ep/stream/"+id, "")
		must.Hold(t, a.status == 405 && a.header.Get("Allow") == "GET", "POST to /stream at /v2", a.status, a.raw)
		for _, path := range []string{"/live/v2/ep/status/" + id, "/v2/ep/retry/" + id, "/v2/ep/stream/" + id, "/v2/ep/purge-queue", "/v2/ep/requests", "/v2/ep/openai/v1/models"} {
			must.Equal(t, d.do("GET", path, "", "Authorization", "").status, 401, path, "without a key")
		}
	})
}

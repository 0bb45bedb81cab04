package jobapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
)

const chatRoute = "/v2/ep/openai/v1/chat/completions"

// takeNextJob starts a worker that waits for the next job and calls do with it.
func (d *deployment) takeNextJob(do func(job engine.Taken)) {
	go func() {
		jobs, err := d.engine.Take(d.t.Context(), engine.Take{Endpoint: "ep", Worker: "w1", Max: 1})
		if err != nil {
			d.t.Error(err)
			return
		}
		do(jobs[0])
	}()
}

func TestOpenAI(t *testing.T) {
	raw := func(b string) []byte { return []byte(b) }
	for name, c := range map[string]struct {
		reports []engine.Report
		status  int
		want    string
	}{
		"the output":           {[]engine.Report{engine.Done(raw(`{"id":  "x"}`))}, 200, `{"id":  "x"}`},
		"one chunk":            {[]engine.Report{engine.Chunk(raw(`{"id":  "x"}`), nil), engine.Done(raw(`[{"id": "x"}]`))}, 200, `{"id":  "x"}`},
		"several chunks":       {[]engine.Report{engine.Chunk(raw(`{"n": 1}`), nil), engine.Chunk(raw(`"x"`), nil), engine.Done(nil)}, 200, `[{"n": 1},"x"]`},
		"nothing":              {[]engine.Report{engine.Done(nil)}, 200, `null`},
		"failed":               {[]engine.Report{engine.Fail("no such model", nil)}, 500, `{"error":{"message":"no such model","type":"server_error"}}`},
		"failed after a chunk": {[]engine.Report{engine.Chunk(raw(`{"n": 1}`), nil), engine.Fail("no such model", nil)}, 500, `{"error":{"message":"no such model","type":"server_error"}}`},
	} {
		bubble(t, func(t *testing.T, d *deployment) {
			d.takeNextJob(func(job engine.Taken) {
				must.Equal(t, string(job.Input), `{"openai_input":{"model":"m","stream":false},"openai_route":"/v1/chat/completions"}`, "the input")
				must.Hold(t, strings.HasSuffix(job.ID, "-a1"), "job", job.ID, "isn't attached to its client")
				for _, r := range c.reports {
					sleep(1)
					d.report(job, r)
				}
			})
			status, header, text := d.sendText("POST", chatRoute, " {\"model\": \"m\", \"stream\": false}\n")
			must.Hold(t, status == c.status && text == c.want && header.Get("Content-Type") == "application/json", name, "answered", status, header, text)
		})
	}
}

func TestOpenAIModels(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		for _, route := range []string{"/v1/models", "/v1/models/m"} {
			d.takeNextJob(func(job engine.Taken) {
				must.Equal(t, string(job.Input), `{"openai_route":"`+route+`"}`, "the input")
				d.report(job, engine.Done([]byte(`{"data": []}`)))
			})
			status, _, text := d.sendText("GET", "/live/v2/ep/openai"+route, "")
			must.Hold(t, status == 200 && text == `{"data": []}`, route, "answered", status, text)
			synctest.Wait()
		}
		a := d.do("GET", chatRoute, "")
		must.Hold(t, a.status == 405 && a.header.Get("Allow") == "POST", "GET of another route answered", a.status, a.raw)
		for body, want := range map[string]string{"": "is empty", "x": "at byte 1", "[]": "JSON object", `"x"`: "JSON object", `{"a":`: "at byte 5", "null": "JSON object"} {
			a := d.do("POST", chatRoute, body)
			must.Hold(t, a.status == 400 && strings.Contains(a.raw, want), body, "answered", a.status, a.raw)
		}
		for _, dialect := range []string{"", "/live"} {
			a := d.do("POST", dialect+"/v2/nowhere/openai/v1/models", "{}")
			must.Hold(t, a.status == 404 && strings.HasPrefix(a.raw, `{"error":{"message":"no such endpoint`), "at no endpoint: answered", a.status, a.raw)
		}
		got := d.engine.Counts("ep")
		must.Hold(t, got.Completed == 2 && got.InQueue+got.InProgress == 0, "counts are", got)
	})
}

// openStream sends a request and returns when its answer begins.
func (d *deployment) openStream(ctx context.Context, body string) *http.Response {
	d.t.Helper()
	return d.begin(ctx, "POST", chatRoute, strings.NewReader(body))
}

// Each text chunk is passed on when it arrives, and not at the end of the job.
func TestOpenAIEvents(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		d.takeNextJob(func(job engine.Taken) {
			for _, c := range []string{`"data: {\"n\":1}\n\n"`, `""`, `"data: {\"n\":2}\n\ndata: 3\n\n"`} {
				sleep(1)
				d.report(job, engine.Chunk([]byte(c), nil))
			}
			sleep(1)
			d.report(job, engine.Done([]byte(`["all"]`)))
		})
		start := now()
		resp := d.openStream(t.Context(), `{"stream": true}`)
		defer resp.Body.Close()
		must.Hold(t, resp.StatusCode == 200 && resp.Header.Get("Content-Type") == "text/event-stream" && resp.Header.Get("X-Accel-Buffering") == "no" && since(start) == 1,
			"after", since(start), "s:", resp.StatusCode, resp.Header)
		for _, c := range []struct {
			text    string
			seconds float64
		}{{"data: {\"n\":1}\n\n", 1}, {"data: {\"n\":2}\n\ndata: 3\n\n", 3}} {
			got := make([]byte, len(c.text))
			_, err := io.ReadFull(resp.Body, got)
			must.Hold(t, err == nil && string(got) == c.text && since(start) == c.seconds, "after", since(start), "s:", string(got), err)
		}
		end, err := io.ReadAll(resp.Body)
		must.Hold(t, err == nil && len(end) == 0 && since(start) == 4, "after", since(start), "s:", string(end), err)
	})
}

// A client may read for minutes after the job's end. Meanwhile it takes little of the memory for answers.
func TestOpenAISlowReader(t *testing.T) {
	memory := httplimit.NewMemory(32 << 20)
	bubble(t, func(t *testing.T, d *deployment) {
		d.takeNextJob(func(job engine.Taken) {
			for range 9 { // more than is read at once
				d.report(job, engine.Chunk([]byte(`"`+strings.Repeat("x", 1<<20-2)+`"`), nil))
			}
			d.report(job, engine.Chunk([]byte(`"end"`), nil))
			d.report(job, engine.Done(nil))
		})
		resp := d.openStream(t.Context(), "{}")
		defer resp.Body.Close()
		sleep(1) // until all chunks wait
		must.Do(io.CopyN(io.Discard, resp.Body, 1<<20))(t)
		sleep(289)
		must.Do(memory.Reserve(29 << 20))(t).Release()
		must.Hold(t, strings.HasSuffix(string(must.Do(io.ReadAll(resp.Body))(t)), "xend"), "the end of the answer is missing")
	}, func(c *jobapi.Config) { c.Answers = memory })
}

func TestOpenAIText(t *testing.T) {
	for chunk, want := range map[string]string{`"hello"`: "text/plain; charset=utf-8", `"{\"large\": 1}"`: "application/json", `"event: x\n\n"`: "text/event-stream", `": ping\n\n"`: "text/event-stream"} {
		bubble(t, func(t *testing.T, d *deployment) {
			d.takeNextJob(func(job engine.Taken) {
				d.report(job, engine.Chunk([]byte(chunk), nil))
				d.report(job, engine.Done(nil))
			})
			_, header, _ := d.sendText("POST", chatRoute, "{}")
			must.Hold(t, header.Get("Content-Type") == want, chunk, "is", header)
		})
	}
}

// If the job fails after its answer has begun, an error event or an abort (want "") tells clients.
func TestOpenAIFailureAfterChunk(t *testing.T) {
	for chunk, want := range map[string]string{`"data: 1\n\n"`: "data: 1\n\ndata: {\"error\":{\"message\":\"no luck\",\"type\":\"server_error\"}}\n\n", `"text"`: ""} {
		for name, end := range map[string]engine.Report{"no luck": engine.Fail("no luck", nil), "the worker died": engine.Lost("")} {
			bubble(t, func(t *testing.T, d *deployment) {
				d.takeNextJob(func(job engine.Taken) {
					d.report(job, engine.Chunk([]byte(chunk), nil))
					sleep(1)
					d.report(job, end)
				})
				resp := d.openStream(t.Context(), "{}")
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				must.Hold(t, (want != "" || err != nil) && (want == "" || err == nil && string(text) == strings.Replace(want, "no luck", name, 1)), chunk, name, string(text), err)
				got := d.engine.Counts("ep")
				must.Hold(t, got.InQueue+got.InProgress == 0, name, "the job still runs", got)
			})
		}
	}
}

// A worker's death before the answer has begun isn't noticed: the second run of the job answers.
func TestOpenAIWorkerDeathIsHidden(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		d.takeNextJob(func(job engine.Taken) {
			d.report(job, engine.Chunk([]byte(`{"half": 1}`), nil))
			sleep(1)
			d.takeNextJob(func(job engine.Taken) { d.report(job, engine.Done([]byte(`{"whole": 1}`))) })
			d.report(job, engine.Lost(""))
		})
		status, _, text := d.sendText("POST", chatRoute, "{}")
		must.Hold(t, status == 200 && text == `{"whole": 1}`, "answered", status, text)
	})
}

// The job is cancelled if the client disconnects or no worker takes it. Without a result there is an error.
func TestOpenAICancels(t *testing.T) {
	bubble(t, func(t *testing.T, d *deployment) {
		jobs := make(chan engine.Taken, 1)
		d.takeNextJob(func(job engine.Taken) {
			jobs <- job
			d.report(job, engine.Chunk([]byte(`"data: 1\n\n"`), nil))
		})
		ctx, disconnect := context.WithCancel(t.Context())
		resp := d.openStream(ctx, "{}")
		disconnect()
		resp.Body.Close()
		synctest.Wait()
		must.Equal(t, must.Do(d.engine.Get(t.Context(), "ep", (<-jobs).ID))(t).State, engine.Cancelled, "the job after its client disconnected")

		start := now()
		a := d.do("POST", chatRoute, "{}") // without a worker
		must.Hold(t, a.status == 504 && a.body["error"] != nil && since(start) == 300, "after", since(start), "s:", a.status, a.raw)
		got := d.engine.Counts("ep")
		must.Hold(t, got.InQueue == 0, "the job still waits", got)

		d.takeNextJob(func(engine.Taken) {})
		start = now()
		a = d.do("POST", chatRoute, "{}")
		must.Hold(t, a.status == 504 && since(start) == 600, "a job that timed out: after", since(start), "s:", a.status, a.raw)
		d.takeNextJob(func(job engine.Taken) {
			sleep(1)
			must.Equal(t, must.Err(d.engine.Cancel(t.Context(), "ep", job.ID)), nil)
		})
		a = d.do("POST", chatRoute, "{}")
		must.Hold(t, a.status == 500 && strings.Contains(a.raw, "cancelled"), "a job that another client cancelled:", a.status, a.raw)
		after(1, func() { must.Equal(t, must.Err(d.engine.Purge(t.Context(), "ep")), nil) })
		a = d.do("POST", chatRoute, "{}")
		must.Hold(t, a.status == 500 && strings.Contains(a.raw, "removed"), "a job that was purged:", a.status, a.raw)
	})
}

//go:build unix

package workerapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// What a handler returns reaches the client, and a worker says it in these
// words (worker protocol, bodies of job-done).
func TestWorkerResults(t *testing.T) {
	t.Parallel()
	l := newLine(t, "awaiting")
	for _, c := range []struct {
		value  string
		state  engine.State
		output string // "" for none
		err    string
		body   string
	}{
		{`{"a": 1}`, engine.Completed, `{"a": 1}`, "", `{"output": {"a": 1}}`},
		{`"text ü"`, engine.Completed, `"text ü"`, "", `{"output": "text ü"}`},
		{`null`, engine.Completed, `null`, "", `{"output": null}`},
		{`false`, engine.Completed, `false`, "", `{"output": false}`},
		{`[]`, engine.Completed, `[]`, "", `{"output": []}`},
		{`{}`, engine.Completed, "", "", `{}`},
		{`{"error": "no", "code": 7}`, engine.Failed, `{"code": 7}`, "no", ""},
		{`{"error": "no"}`, engine.Failed, "", "no", `{"error": "no"}`},
		{`{"error": {"code": 7}}`, engine.Failed, "", `{"code": 7}`, ""},
		{`{"error": ["a", 1]}`, engine.Failed, "", `["a", 1]`, ""},
	} {
		id := l.submit(`{"op": "return", "value": ` + c.value + `}`)
		job := l.ends(id)
		if job.State != c.state || string(job.Output) != c.output || job.Error != c.err {
			t.Errorf("%s: the job is %s with output %s, error %q", c.value, job.State, job.Output, job.Error)
		}
		posts := l.all("job-done", id)
		if len(posts) != 1 {
			t.Fatalf("%s was posted %d times", c.value, len(posts))
		}
		p := posts[0]
		if c.body != "" && p.body != c.body || l.since(t, 1, 5) && !strings.Contains(p.query, "isStream=false") ||
			p.header.Get("Content-Type") != "application/x-www-form-urlencoded" || p.header.Get("Authorization") != workerKey {
			t.Errorf("%s was posted as %s", c.value, p)
		}
	}
	job := l.ends(l.submit(`{"op": "raise", "text": "it is Friday"}`))
	var told struct {
		Type    string `json:"error_type"`
		Message string `json:"error_message"`
		Worker  string `json:"worker_id"`
	}
	if err := json.Unmarshal([]byte(job.Error), &told); err != nil || job.State != engine.Failed ||
		!strings.Contains(told.Type, "ValueError") || told.Message != "it is Friday" || told.Worker != "w1" {
		t.Errorf("a handler that raises leaves %s, %s", job.State, job.Error)
	}
}

// What was submitted beside the input reaches the handler.
func TestWorkerSeesTheSubmission(t *testing.T) {
	t.Parallel()
	l := newLine(t, "awaiting")
	job, err := l.engine.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte(`{"op": "seen"}`), Rest: []byte(`{"s3Config":{"accessId":"a"},"webhook":"http://127.0.0.1/w"}`)})
	if err != nil {
		t.Fatal(err)
	}
	var seen map[string]any
	if got := l.ends(job.ID); json.Unmarshal(got.Output, &seen) != nil || fmt.Sprint(seen["s3Config"]) != "map[accessId:a]" || seen["webhook"] != "http://127.0.0.1/w" {
		t.Errorf("the handler saw %s", got.Output)
	}
	if job := l.ends(l.submit(`{}`)); job.State != engine.Completed || job.Output != nil {
		t.Errorf("a job with an empty input is %+v", job)
	}
}

func TestWorkerStreams(t *testing.T) {
	for handler, want := range map[string]string{"streaming": `[]`, "aggregating": `["a", {"b": 1}, null]`} {
		t.Run(handler, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, handler)
			id := l.submit(`{"chunks": ["a", {"b": 1}, null]}`)
			if job := l.ends(id); job.State != engine.Completed || string(job.Output) != want {
				t.Errorf("the job is %s with %s", job.State, job.Output)
			}
			if p := l.all("job-done", id); len(p) != 1 || l.since(t, 1, 5) && !strings.Contains(p[0].query, "isStream=true") {
				t.Errorf("the end was posted as %v", p)
			}
			_, chunks, _, err := l.engine.Drain(t.Context(), "ep", id)
			if got := fmt.Sprintf("%s", chunks); err != nil || got != `[{"output":"a"} {"output":{"b": 1}} {"output":null}]` {
				t.Errorf("the chunks are %s, %v", got, err)
			}
			if !l.since(t, 1, 7, 7) { // before, such a chunk is one like any other
				return
			}
			id = l.submit(`{"chunks": [1, {"error": {"code": 7}, "a": 1}, 2]}`)
			failed := l.ends(id)
			_, chunks, _, err = l.engine.Drain(t.Context(), "ep", id)
			if got := fmt.Sprintf("%s", chunks); failed.State != engine.Failed || failed.Error != "{'code': 7}" || err != nil || got != `[{"output":1}]` {
				t.Errorf("a chunk with an error leaves %s, %s, %s, %v", failed.State, failed.Error, got, err)
			}
		})
	}
}

// A generator that raises leaves a job that FAILED.
func TestGeneratorThatRaises(t *testing.T) {
	for _, handler := range []string{"streaming", "aggregating"} {
		t.Run(handler, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, handler)
			id := l.submit(`{"chunks": [1], "op": "raise", "text": "it is Friday"}`)
			if !l.since(t, 1, 6, 2) {
				l.losesResult(id)
				t.Skip("the release of the SDK fails to log the error, and loses the result with it")
			}
			failed := l.ends(id)
			if failed.State != engine.Failed || !strings.Contains(failed.Error, "it is Friday") {
				t.Errorf("a generator that raises leaves %s, %s", failed.State, failed.Error)
			}
		})
	}
}

// losesResult checks that a worker of release 1.3 asks for its next job without
// a result of this one, and goes on to name it in its pings.
func (l *line) losesResult(id string) {
	l.t.Helper()
	l.asked(l.t, 1, "job-stream/w1", id)
	l.asks(l.t, 1, "job-take", "job_in_progress=1")
	l.asked(l.t, len(l.all("ping", id))+1, "ping", id)
	if job := l.get(id); job.State != engine.InProgress || len(l.all("job-done", id)) > 0 {
		l.t.Errorf("the job is %s", job.State)
	}
}

// The stand-in does what release 1.3 does.
func TestGeneratorThatRaisesUnderRelease13(t *testing.T) {
	onStandIn(t)
	t.Parallel()
	l := newLine(t, "streaming@1.3.7")
	l.losesResult(l.submit(`{"chunks": [1], "op": "raise", "text": "it is Friday"}`))
}

func TestWorkerTellsProgress(t *testing.T) {
	t.Parallel()
	l := newLine(t, "awaiting")
	id := l.submit(`{"op": "progress", "values": [{"done": 0.5}], "every": 1}`)
	l.asked(t, 1, "job-done/w1", id)
	if job := l.get(id); job.State != engine.InProgress || string(job.Output) != `{"done": 0.5}` {
		t.Errorf("while progress is told the job is %s with %s", job.State, job.Output)
	}
	if job := l.ends(id); job.State != engine.Completed || string(job.Output) != `"done"` {
		t.Errorf("the job is %s with %s", job.State, job.Output)
	}
}

// A worker with several slots takes several jobs at once, and as many as it has
// slots free.
func TestWorkerTakesBatches(t *testing.T) {
	t.Parallel()
	l := newLine(t, "two at a time")
	l.needs(t, 1, 7, 1) // before, a release asks for one job at a time
	var ids []string
	for range 3 {
		ids = append(ids, l.submit(`{"op": "sleep", "seconds": 0.5}`))
	}
	for _, id := range ids {
		if job := l.ends(id); job.State != engine.Completed {
			t.Errorf("the job is %s", job.State)
		}
	}
	if p := l.all("job-take-batch", "batch_size=2"); len(p) == 0 {
		t.Error("no batch was asked for")
	}
}

// Pings come from a process of their own, and name the jobs that run.
func TestWorkerPings(t *testing.T) {
	t.Parallel()
	l := newLine(t, "blocking")
	if idle := l.asked(t, 1, "ping", ""); strings.Contains(idle.query, "job_id") || idle.status != 200 {
		t.Errorf("an idle worker pings %s", idle)
	}
	input, release := hold(t, "")
	id := l.submit(input)
	l.asked(t, 1, "ping", "job_id="+id) // although the handler blocks
	release()
	l.ends(id)
}

// A busy worker with one slot asks for its next job only once a second.
func TestWorkerAsksOnceASecond(t *testing.T) {
	t.Parallel()
	l := newLine(t, "awaiting")
	first, second := l.submit(`{"op": "sleep", "seconds": 0.3}`), l.submit(`{}`)
	l.ends(first)
	l.ends(second)
	takes := l.all("job-take", "")
	if between := takes[1].at.Sub(takes[0].answered); between < 700*time.Millisecond {
		t.Errorf("the worker asked again after %s", between)
	}
}

// A handler that waits stops when it is told to, and one that blocks does not;
// neither sends anything.
func TestWorkerStops(t *testing.T) {
	for handler, stops := range map[string]bool{"awaiting": true, "blocking": false} {
		t.Run(handler, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, handler)
			l.needs(t, 1, 10) // that a release asks what to stop
			l.asks(t, 1, "job-stop", "")
			input, release := hold(t, "")
			id := l.submit(input)
			l.log.await(t, "began "+id)
			l.stop <- []string{id}
			l.asked(t, 1, "job-stop", "")
			next := l.submit(`{}`)
			if !stops {
				l.asked(t, len(l.all("ping", ""))+3, "ping", "") // for two seconds
				if job := l.get(next); job.State != engine.InQueue {
					t.Errorf("the handler blocks, and the next job is %s", job.State)
				}
				release()
			}
			l.ends(next)
			if p := l.all("job-done", id); len(p) > 0 {
				t.Errorf("of a job that was to stop it sent %v", p)
			}
		})
	}
}

// After SIGTERM the open poll goes on, and swallows the job that it brings.
func TestWorkerSwallowsAJobAfterSIGTERM(t *testing.T) {
	t.Parallel()
	l := newLine(t, "awaiting")
	l.asks(t, 1, "job-take", "")
	if err := syscall.Kill(l.process.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	l.log.await(t, "eceived shutdown signal")
	l.asked(t, len(l.all("ping", ""))+2, "ping", "") // a second later it begins nothing any more
	id := l.submit(`{}`)
	l.asked(t, 1, "job-take", "")
	l.stop <- nil // it waits for the answer
	l.exits()
	if job := l.get(id); job.State != engine.InProgress || len(l.all("job-done", "")) > 0 {
		t.Errorf("the job is %s", job.State)
	}
}

// A worker that finds itself unfit says so, and ends.
func TestWorkerSaysThatItIsUnfit(t *testing.T) {
	t.Parallel()
	l := newLine(t, "unfit")
	l.needs(t, 1, 10) // that a release tells of it
	l.asked(t, 1, "ping", "status=unhealthy")
	l.exits()
	if len(l.all("job-take", "")) > 0 {
		t.Error("it took jobs nevertheless")
	}
}

// A worker that asks to be replaced says so with its result.
func TestWorkerAsksForAFreshOne(t *testing.T) {
	t.Parallel()
	for input, handler := range map[string]string{`{}`: "fresh for each", `{"op": "return", "value": {"refresh_worker": true, "a": 1}}`: "awaiting"} {
		l := newLine(t, handler)
		id := l.submit(input)
		l.ends(id)
		if p := l.all("job-done", id); len(p) != 1 || !strings.Contains(p[0].body, `"stopPod": true`) {
			t.Errorf("%s posted %v", handler, p)
		}
	}
}

// The process that pings outlives a crash, and keeps naming the job.
func TestWorkerPingsAfterACrash(t *testing.T) {
	t.Parallel()
	l := newLine(t, "awaiting")
	l.needs(t, 1, 7, 11) // before, a thread pings, and ends with the worker
	input, release := hold(t, `, "then": "crash"`)
	id := l.submit(input)
	l.asked(t, 1, "ping", id)
	release()
	l.exits()
	before := len(l.all("ping", id))
	l.asked(t, before+2, "ping", id)
	if len(l.all("job-done", "")) > 0 {
		t.Error("a result came of a crash")
	}
}

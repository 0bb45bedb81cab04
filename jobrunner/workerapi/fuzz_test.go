package workerapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

// fuzzServer is worker w1 of endpoint ep, with a real engine. A poll without a job ends at once.
type fuzzServer struct {
	http.Handler
	engine      *engine.Engine
	refs        map[string]engine.Ref // of the taken jobs, by id
	reports     int
	idleReports int
	notes       []string // texts that the protocol passed on
}

func newFuzzServer(f *testing.F) *fuzzServer {
	f.Helper()
	db := must.Do(sqldb.Open(f.Context(), sqldb.Config{}))(f)
	log := slog.New(slog.DiscardHandler)
	e := must.Do(engine.Open(f.Context(), engine.Config{DB: db, Clock: new(clock.Clock), Logger: log}))(f)
	f.Cleanup(func() {
		e.Close()
		_ = db.Close()
	})
	d := &fuzzServer{engine: e, refs: map[string]engine.Ref{}}
	d.Handler = workerapi.New(workerapi.Config{Authorize: authorize(d), Bodies: httplimit.NewMemory(1 << 30), Logger: log})
	return d
}

func (d *fuzzServer) Take(ctx context.Context, limit int) ([]engine.Taken, error) {
	if d.engine.Counts("ep").InQueue == 0 { // Take would wait
		return nil, nil
	}
	jobs, err := d.engine.Take(ctx, engine.Take{Endpoint: "ep", Worker: "w1", Max: limit})
	for _, job := range jobs {
		d.refs[job.ID] = job.Ref
	}
	return jobs, err
}

func (d *fuzzServer) WaitForStops(context.Context) []string { return nil }

func (d *fuzzServer) Report(ctx context.Context, job string, r engine.Report, _ bool) error {
	d.reports++
	ref, ok := d.refs[job]
	if !ok {
		return nil
	}
	return must.Err(d.engine.Report(ctx, ref, r))
}

func (d *fuzzServer) BeginPost(string) func() { return func() {} }

func (d *fuzzServer) ReportIdle(context.Context) error {
	d.idleReports++
	return nil
}

func (d *fuzzServer) Ping(_ context.Context, jobs []string) error {
	d.notes = append(d.notes, jobs...)
	return nil
}

func (d *fuzzServer) SetSDK(release string) { d.notes = append(d.notes, release) }

func (d *fuzzServer) Note(text string) { d.notes = append(d.notes, text) }

func (d *fuzzServer) ReportUnhealthy(reason string) {
	if !utf8.ValidString(reason) || len(reason) > 1100 {
		d.notes = append(d.notes, "invalid reason: "+reason)
	}
}

// send sends a request, and checks the properties of every answer.
func (d *fuzzServer) send(t *testing.T, method, target, key, body string) (status int, text string) {
	t.Helper()
	d.reports, d.idleReports, d.notes = 0, 0, nil
	r := fuzz.Request(t, key, method, target, body)
	if r == nil {
		return http.StatusBadRequest, ""
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if keyOf(key) != workerKey || !strings.HasPrefix(r.URL.Path, "/v2/ep/") || !strings.Contains(r.URL.Path, "/w1") {
		cancel() // otherwise a rejected poll is held
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r.WithContext(ctx))
	status, text = w.Code, w.Body.String()
	switch {
	case status >= 500:
		t.Errorf("%s %q is answered %d %s", method, target, status, text)
	case strings.Contains(text, workerKey) && !strings.Contains(target+body, workerKey):
		t.Errorf("%s %q: the answer has the key", method, target)
	case status == http.StatusNoContent:
	case !utf8.ValidString(text) || !json.Valid([]byte(text)):
		t.Errorf("%s %q is answered %d with invalid JSON: %q", method, target, status, text)
	case status >= 300 && !strings.HasPrefix(text, `{"error":"`):
		t.Errorf("%s %q is answered %d %s: expected an error", method, target, status, text)
	}
	return status, text
}

// keyOf returns the key in a header.
func keyOf(header string) string {
	key := strings.TrimSpace(header)
	if scheme, token, ok := strings.Cut(key, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return key
}

// Clients read an accepted post as the bytes that were posted. A rejected post ends the job with the
// reason, unless it is a progress update. Every answer about the job is JSON.
func FuzzPost(f *testing.F) {
	d := newFuzzServer(f)
	fuzz.Run(f, func(t *testing.T, stream bool, body []byte) {
		job := must.Do(d.engine.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte(`{}`)}))(t)
		status, text := d.send(t, "GET", "/v2/ep/job-take/w1", workerKey, "")
		must.Require(t, status == http.StatusOK, "the job is not taken:", status, text)
		path := "/v2/ep/job-done/w1/"
		if stream {
			path = "/v2/ep/job-stream/w1/"
		}
		status, text = d.send(t, "POST", path+job.ID, workerKey, string(body))
		after, err := d.engine.Get(t.Context(), "ep", job.ID)
		must.Succeed(t, err)
		chunks := [][]byte(nil)
		jobJSON := after.AppendJSON(nil)
		must.Hold(t, json.Valid(jobJSON) && utf8.Valid(jobJSON), "after", string(body), "the job is shown as", string(jobJSON))
		if stream {
			_, chunks, _, err = d.engine.Drain(t.Context(), "ep", job.ID, engine.MaxDrain)
			must.Succeed(t, err)
			for _, chunk := range chunks {
				must.Hold(t, json.Valid(chunk) && utf8.Valid(chunk), "after", string(body), "a chunk is", string(chunk))
			}
		}
		var posted map[string]json.RawMessage
		err = json.Unmarshal(bytes.ToValidUTF8(body, []byte("\uFFFD")), &posted)
		valid := err == nil && posted != nil
		switch output := posted["output"]; {
		case status != http.StatusOK && status != http.StatusBadRequest:
			t.Errorf("%q is answered %d %s", body, status, text)
		case status == http.StatusBadRequest && valid && (!stream || output != nil && string(output) != "null"):
			t.Errorf("%q is refused: %s", body, text)
		case status == http.StatusOK && !valid:
			t.Errorf("%q is accepted", body)
		case stream && after.State != engine.InProgress:
			t.Errorf("after the chunk %q the job is %s", body, after.State)
		case stream && (status == http.StatusOK) != (len(chunks) == 1):
			t.Errorf("the chunk %q, answered %d, makes %d chunks", body, status, len(chunks))
		case stream:
		case status == http.StatusBadRequest && after.State == engine.Failed && !strings.Contains(after.Error, "rejected"):
			t.Errorf("after %q the job has failed with %q", body, after.Error)
		case status == http.StatusOK && after.State == engine.Completed && !bytes.Equal(after.Output, output):
			t.Errorf("%q completes the job with %q", body, after.Output)
		case status == http.StatusOK && after.State == engine.Failed && after.Error == "":
			t.Errorf("%q fails the job without a reason", body)
		case after.State != engine.Completed && after.State != engine.Failed && after.State != engine.InProgress:
			t.Errorf("after %q the job is %s", body, after.State)
		}
		must.Do(d.engine.Cancel(t.Context(), "ep", job.ID))(t)
	},
		fuzz.Seed{false, []byte(`{"output": {"a": [1, "héllo", 1e400]}}`)}, fuzz.Seed{false, []byte(`{"error": "ValueError", "output": null}`)}, fuzz.Seed{false, []byte(`{"error": {"error_type": "x"}}`)},
		fuzz.Seed{false, []byte(`{"status": "IN_PROGRESS", "output": "half"}`)}, fuzz.Seed{false, []byte(`{"output": 1, "stopPod": true}`)}, fuzz.Seed{false, []byte(`{}`)},
		fuzz.Seed{true, []byte(`{"output": {"text": "chunk"}, "metrics": {"input_tokens": 3}}`)}, fuzz.Seed{true, []byte("{\"output\": \"\xff\\ud800\"}")}, fuzz.Seed{false, []byte(`{"output": "` + strings.Repeat("x", 2000) + `"}`)},
		fuzz.Seed{true, []byte(`{"metrics": []}`)}, fuzz.Seed{false, []byte(`[1, 2]`)},
	)
}

// For any path and query, a request without the worker's key reaches no worker, and texts are UTF-8 of bounded length.
func FuzzProtocol(f *testing.F) {
	d := newFuzzServer(f)
	fuzz.Run(f, func(t *testing.T, method, target, key string) {
		status, text := d.send(t, method, target, key, "")
		must.Hold(t, keyOf(key) == workerKey || status >= 300 && d.idleReports+d.reports+len(d.notes) == 0, method, target, "with the key", key, "is answered", status, text)
		for _, note := range d.notes {
			must.Hold(t, !strings.HasPrefix(note, "invalid reason"), method, target, "reaches the worker as", note)
		}
	},
		fuzz.Seed{"GET", "/v2/ep/job-take/w1?gpu=NVIDIA+H200&job_in_progress=0", workerKey}, fuzz.Seed{"GET", "/v2/ep/job-take-batch/w1?batch_size=5", "Bearer " + workerKey},
		fuzz.Seed{"GET", "/v2/ep/ping/w1?job_id=a,b&job_id=c&runpod_version=1.7.9", workerKey}, fuzz.Seed{"GET", "/v2/ep/ping/w1?status=unhealthy&check=disk&reason=" + strings.Repeat("%C3%BC", 600), workerKey},
		fuzz.Seed{"GET", "/v2/ep/job-stop/w1&x=1", workerKey}, fuzz.Seed{"POST", "/v2/ep/job-done/w1/j", "bearer x"}, fuzz.Seed{"POST", "/v2/ep/job-stream/w1/j%2Fk", workerKey},
		fuzz.Seed{"GET", "/v2/other/job-take/w2", ""},
	)
}

// A job reaches a worker with its id and members; no member of the submission replaces the id or input.
func FuzzTakenJob(f *testing.F) {
	d := newFuzzServer(f)
	fuzz.Run(f, func(t *testing.T, input, policy, hook []byte) {
		for _, member := range [][]byte{input, policy, hook} {
			if !json.Valid(member) || !utf8.Valid(member) { // the submission is rejected
				return
			}
		}
		members := append(append(append(append([]byte(`{"policy":`), policy...), `,"webhook":`...), hook...), '}')
		job := must.Do(d.engine.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: input, Rest: members}))(t)
		_, text := d.send(t, "GET", "/v2/ep/job-take-batch/w1?batch_size=1", workerKey, "")
		var jobs []map[string]json.RawMessage
		err := json.Unmarshal([]byte(text), &jobs)
		must.Require(t, err == nil && len(jobs) == 1, "the batch is", text, err, "want one job")
		got := jobs[0]
		must.Hold(t, len(got) == 4 && string(got["id"]) == `"`+job.ID+`"` && bytes.Equal(got["input"], bytes.TrimSpace(input)) &&
			bytes.Equal(got["policy"], bytes.TrimSpace(policy)), string(input), "with", string(members), "is handed out as", text)
		must.Do(d.engine.Cancel(t.Context(), "ep", job.ID))(t)
	},
		fuzz.Seed{[]byte(`{"a": 1}`), []byte(`{"ttl": 10000}`), []byte(`"https://example.com"`)},
		fuzz.Seed{[]byte(`{"id": "other", "input": {}}`), []byte(`{"id": "other"}`), []byte(`null`)},
	)
}

package jobrunnertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Endpoint creates an endpoint with at most one CPU worker of an image, and returns its id. For [SimulateGPUs]
// or other settings, use [Jobrunner.Create].
func (j *Jobrunner) Endpoint(image string) (id string) {
	j.t.Helper()
	return j.Create("serverless", map[string]any{
		"name": "endpoint", "image": image, "workers": map[string]any{"max": 1}, "cpu": []any{map[string]any{"id": "cpu3c", "vcpuCount": 2}},
	})
}

// Create creates an object through version 2 of the management API, and returns its id.
// The kind is the first segment of its path: serverless, templates, pods, network-volumes
// and so on. The body is encoded as JSON.
func (j *Jobrunner) Create(kind string, body any) (id string) {
	j.t.Helper()
	var created struct {
		ID string `json:"id"`
	}
	j.do(http.MethodPost, "/v2/"+kind, body, &created)
	return created.ID
}

// Result is a job that has ended.
type Result struct {
	ID     string          `json:"id"`
	Status string          `json:"status"` // COMPLETED, FAILED, CANCELLED or TIMED_OUT
	Output json.RawMessage `json:"output"`
	Error  string          `json:"error"`
}

// Run runs a job and waits for its end as Wait does. The input is encoded as a JSON object; nil is {}.
// Call it from the test's own goroutine.
func (j *Jobrunner) Run(endpoint string, input any) (r Result) {
	j.t.Helper()
	j.do(http.MethodPost, "/v2/"+endpoint+"/runsync?wait=1000", submission(input), &r)
	if r.ended() {
		return r
	}
	return j.Wait(endpoint, r.ID)
}

// Submit submits a job as Run does, without waiting.
func (j *Jobrunner) Submit(endpoint string, input any) (id string) {
	j.t.Helper()
	var r Result
	j.do(http.MethodPost, "/v2/"+endpoint+"/run", submission(input), &r)
	return r.ID
}

// Wait waits until a job has ended. It fails the test if no worker can start, if five minutes
// have passed, or if the time limit of the tests is near.
func (j *Jobrunner) Wait(endpoint, id string) (r Result) {
	j.t.Helper()
	return j.await(endpoint, id, Result.ended)
}

// WaitRunning waits until a worker has a job, or the job has ended. After it, [Jobrunner.Advance] may be called.
func (j *Jobrunner) WaitRunning(endpoint, id string) {
	j.t.Helper()
	j.await(endpoint, id, func(r Result) bool { return r.Status != "IN_QUEUE" })
}

const (
	pollInterval    = 20 * time.Millisecond
	maxWait         = 5 * time.Minute
	timeLimitMargin = 5 * time.Second // before the time limit of the tests
	// startPatience is how long a wait continues while no worker can start for the same reason.
	startPatience = 2 * time.Second
)

// waitDeadline returns when a wait that begins now fails the test.
func (j *Jobrunner) waitDeadline() time.Time {
	end := time.Now().Add(maxWait)
	if t, ok := j.t.(interface{ Deadline() (time.Time, bool) }); ok {
		if limit, set := t.Deadline(); set && limit.Add(-timeLimitMargin).Before(end) {
			end = limit.Add(-timeLimitMargin)
		}
	}
	return end
}

// startFailure returns why no worker of an endpoint works, and whether a worker may still start.
func (j *Jobrunner) startFailure(endpoint string) (reason string, starting bool) {
	var health struct {
		Reason  string
		Workers struct{ Initializing, Throttled int }
	}
	j.do(http.MethodGet, "/v2/"+endpoint+"/health", nil, &health)
	return health.Reason, health.Workers.Initializing+health.Workers.Throttled > 0
}

func (j *Jobrunner) await(endpoint, id string, done func(Result) bool) (r Result) {
	j.t.Helper()
	reason, since := "", time.Time{}
	for end := j.waitDeadline(); ; {
		j.do(http.MethodGet, "/v2/"+endpoint+"/status/"+id, nil, &r)
		if done(r) {
			return r
		}
		current, starting := "", false
		if r.Status == "IN_QUEUE" {
			current, starting = j.startFailure(endpoint)
		}
		switch {
		case current != reason:
			reason, since = current, time.Now()
		case reason != "" && !starting && time.Since(since) > startPatience:
			j.t.Fatalf("job %s waits, and no worker can start: %s", id, reason)
		case time.Now().After(end):
			j.t.Fatalf("job %s is still %s %s", id, r.Status, reason)
		}
		select {
		case <-j.t.Context().Done():
			j.t.Fatalf("job %s is still %s", id, r.Status)
		case <-time.After(pollInterval):
		}
	}
}

func (r Result) ended() bool { return r.Status != "IN_QUEUE" && r.Status != "IN_PROGRESS" }

func submission(input any) any {
	if input == nil {
		input = struct{}{}
	}
	return map[string]any{"input": input}
}

// Now returns the time of the deployment's clock.
func (j *Jobrunner) Now() time.Time {
	j.t.Helper()
	return j.clock(http.MethodGet, nil)
}

// Advance advances the deployment's clock, and returns the new time. When it returns, all time-outs,
// retentions and idle times that end by then have taken effect. It fails the test while a process or
// container runs a job, because the job uses real time.
func (j *Jobrunner) Advance(d time.Duration) time.Time {
	j.t.Helper()
	return j.clock(http.MethodPost, map[string]int64{"advance": d.Milliseconds()})
}

func (j *Jobrunner) clock(method string, body any) time.Time {
	j.t.Helper()
	var got struct {
		Now time.Time `json:"now"`
	}
	j.do(method, "/clock", body, &got)
	return got.Now
}

// do sends a request and decodes the response into result. It fails the test if the request is rejected.
func (j *Jobrunner) do(method, path string, body, result any) {
	j.t.Helper()
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			j.t.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(j.t.Context(), method, j.URL+path, content)
	if err != nil {
		j.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := j.Client().Do(r)
	if err != nil {
		j.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
	case response.StatusCode >= http.StatusBadRequest:
		err = fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	default:
		err = json.Unmarshal(text, result)
	}
	if err != nil {
		j.t.Fatalf("%s %s: %s", method, path, err)
	}
}

package jobapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/webhook"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// fuzzServer is a job API without a network. Its worker answers each job with the job's input at once.
type fuzzServer struct {
	http.Handler
	engine *engine.Engine
	jobs   []engine.Taken // taken since the last request
}

func newFuzzServer(f *testing.F) *fuzzServer {
	f.Helper()
	db := must.Do(sqldb.Open(f.Context(), sqldb.Config{}))(f)
	log, clk := slog.New(slog.DiscardHandler), new(clock.Clock)
	e := must.Do(engine.Open(f.Context(), engine.Config{DB: db, Clock: clk, Logger: log}))(f)
	f.Cleanup(func() {
		e.Close()
		_ = db.Close()
	})
	hooks := must.Do(webhook.NewPolicy(nil, true))(f)
	d := &fuzzServer{engine: e}
	d.Handler = jobapi.New(jobapi.Config{
		Engine: e, Clock: clk, Keys: apikey.New(key), Logger: log, NoLimits: true, Webhook: hooks.Check,
		Endpoint: func(_ context.Context, id string) (jobapi.Endpoint, error) {
			if id != "ep" {
				return jobapi.Endpoint{}, jobapi.ErrNoEndpoint
			}
			return jobapi.Endpoint{WorkersMax: 1}, nil
		},
		Workers:  func(string) worker.Counts { return worker.Counts{Idle: 1} },
		OnQueued: func(string) { d.work() },
		Failure:  func(string) string { return "" },
		Bodies:   httplimit.NewMemory(1 << 30), Answers: httplimit.NewMemory(1 << 30),
	})
	return d
}

// work takes all jobs and completes each with its input.
func (d *fuzzServer) work() {
	ctx := context.Background()             // jobs outlive the request of a fuzz input
	if d.engine.Counts("ep").InQueue == 0 { // Take would wait
		return
	}
	jobs, err := d.engine.Take(ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 10})
	if err != nil {
		panic(err)
	}
	for _, job := range jobs {
		if _, err := d.engine.Report(ctx, job.Ref, engine.Done(job.Input)); err != nil {
			panic(err)
		}
		d.jobs = append(d.jobs, job)
	}
}

// do sends a request. The answer is JSON without the key; an error has the API's form and isn't an internal one.
func (d *fuzzServer) do(t *testing.T, method, target, body string) (status int, answer map[string]json.RawMessage, text string) {
	t.Helper()
	d.jobs = nil
	r := fuzz.Request(t, "Bearer "+key, method, target, body)
	if r == nil {
		return http.StatusBadRequest, nil, ""
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	status, text = w.Code, w.Body.String()
	_ = json.Unmarshal(w.Body.Bytes(), &answer) // some answers are lists
	switch {
	case status >= 500:
		t.Errorf("%s %q %q is answered %d %s", method, target, body, status, text)
	case strings.Contains(text, key):
		t.Errorf("%s %q: the answer has the key", method, target)
	case !utf8.ValidString(text) || !json.Valid([]byte(text)):
		t.Errorf("%s %q is answered %d and invalid JSON: %q", method, target, status, text)
	case status >= 300:
		message := answer["error"]
		isObject := strings.Contains(r.URL.Path, "/openai/") && strings.HasPrefix(string(message), `{"message":`)
		must.Hold(t, len(answer) == 1 && len(message) >= 3 && (message[0] == '"' || isObject), method, target, "is answered", status, "but not with an error", text)
		must.Hold(t, len(text) <= 6*len(method+target+body)+1000, method, target, "has an error of", len(text), "bytes")
	}
	return status, answer, text
}

var submissionPaths = []string{"/v2/ep/run", "/v2/ep/runsync", "/live/v2/ep/run", "/live/v2/ep/runsync", "/v2/ep/openai/v1/chat/completions"}

const plantedSecret = "planted-s3cret-access"

// Worker and client get the bytes of an accepted submission unchanged. A rejected one queues nothing and leaks no secret.
func FuzzSubmission(f *testing.F) {
	d := newFuzzServer(f)
	fuzz.Run(f, func(t *testing.T, pathIndex uint8, body string) {
		target := submissionPaths[int(pathIndex)%len(submissionPaths)]
		status, answer, text := d.do(t, "POST", target, body)
		jobs := d.jobs
		if status >= 300 {
			must.Equal(t, jobs, nil, "queued jobs of a rejected submission", body, status)
			must.Hold(t, !strings.Contains(text, plantedSecret), body, "is refused with its secret", text)
			return
		}
		must.Require(t, len(jobs) == 1, body, "queued", len(jobs), "jobs")
		job := jobs[0]
		if strings.Contains(target, "openai") {
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(body)); err != nil || string(job.Input) != `{"openai_input":`+compact.String()+`,"openai_route":"/v1/chat/completions"}` {
				t.Errorf("the handler got %s of %s, %v", job.Input, body, err)
			}
			return
		}
		var submitted map[string]json.RawMessage // by exact name; the last duplicate counts
		err := json.Unmarshal([]byte(body), &submitted)
		must.Hold(t, err == nil && bytes.Equal(job.Input, submitted["input"]), "the worker's input is", string(job.Input), "of", body, err)
		must.Hold(t, len(job.Rest) == 0 || json.Valid(job.Rest), "the worker's other members are", string(job.Rest))
		var id string
		must.Succeed(t, json.Unmarshal(answer["id"], &id), body, "is answered", text)
		_, statusAnswer, statusText := d.do(t, "GET", "/v2/ep/status/"+url.PathEscape(id), "")
		must.Hold(t, string(statusAnswer["status"]) == `"COMPLETED"` && bytes.Equal(statusAnswer["output"], submitted["input"]), "the status of", body, "is", statusText)
	},
		fuzz.Seed{uint8(0), `{"input": {"prompt": "héllo", "n": [1, 2.50, -0, 1e400]}}`},
		fuzz.Seed{uint8(1), `{"input":{},"webhook":"https://example.com/x","policy":{"ttl":10000,"executionTimeout":5000,"lowPriority":true},"s3Config":{"accessId":"i","accessSecret":"` + plantedSecret + `","bucketName":"b","endpointUrl":"https://s3.example.com"}}`},
		fuzz.Seed{uint8(2), `{"input":{"a":1},"input":{"b":"\ud83d\ude00"},"webhook":null,"policy":null,"s3Config":null}`},
		fuzz.Seed{uint8(3), `{"input":{},"s3Config":{"accessSecret":{"` + plantedSecret + `":"` + plantedSecret + `"}}}`},
		fuzz.Seed{uint8(4), `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false}`},
		fuzz.Seed{uint8(0), `{"input":{},"policy":{"ttl":604800000,"executionTimeout":6.048e8}}`},
		fuzz.Seed{uint8(0), `{"input":{},"webhook":"http://10.0.0.1/"}`},
	)
}

// A duration is accepted exactly if it is an integer within the bounds.
func FuzzDuration(f *testing.F) {
	d := newFuzzServer(f)
	isWithin := func(text string, min, max int64) bool {
		if !json.Valid([]byte(text)) {
			return false
		}
		n, ok := new(big.Rat).SetString(strings.TrimSpace(text))
		return ok && n.IsInt() && n.Cmp(big.NewRat(min, 1)) >= 0 && n.Cmp(big.NewRat(max, 1)) <= 0
	}
	fuzz.Run(f, func(t *testing.T, text string) {
		if len(text) > 40 || strings.ContainsAny(text, "eE") && len(text) > 8 { // big.Rat writes exponents out
			return
		}
		job := must.Do(d.engine.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte(`{}`)}))(t)
		d.work()
		isAbsent := text == ""
		for query, accepted := range map[string]bool{
			"/v2/ep/status/" + job.ID + "?ttl=": isAbsent || isWithin(text, 10_000, 604_800_000),
			"/v2/ep/runsync?wait=":              isAbsent || isWithin(text, 1000, 300_000),
		} {
			method, body := "GET", ""
			if strings.Contains(query, "runsync") {
				method, body = "POST", `{"input":{}}`
			}
			status, _, answer := d.do(t, method, query+url.QueryEscape(text), body)
			must.Hold(t, (status == http.StatusOK) == accepted, query, text, "is answered", status, answer, "it must be accepted:", accepted)
		}
		if !json.Valid([]byte(text)) { // below, it could add other members to the policy
			return
		}
		isAbsent = strings.TrimSpace(text) == "null"
		for name, accepted := range map[string]bool{"ttl": isAbsent || isWithin(text, 10_000, 604_800_000), "executionTimeout": isAbsent || isWithin(text, 5000, 604_800_000)} {
			body := `{"input":{},"policy":{"` + name + `":` + text + `}}`
			status, _, answer := d.do(t, "POST", "/v2/ep/run", body)
			must.Hold(t, (status == http.StatusOK) == accepted, body, "is answered", status, answer, "it must be accepted:", accepted)
		}
	},
		fuzz.Seed{"10000"}, fuzz.Seed{"604800000"}, fuzz.Seed{"604800001"}, fuzz.Seed{"1000"}, fuzz.Seed{"999"}, fuzz.Seed{"300000"}, fuzz.Seed{"300001"}, fuzz.Seed{"5000.5"}, fuzz.Seed{"5000"}, fuzz.Seed{"4999"}, fuzz.Seed{"9999"}, fuzz.Seed{"true"}, fuzz.Seed{"1e300"},
		fuzz.Seed{"1e4"}, fuzz.Seed{"-10000"}, fuzz.Seed{"90000.0"}, fuzz.Seed{"null"}, fuzz.Seed{`"90000"`}, fuzz.Seed{"1e400"}, fuzz.Seed{" 90000 "}, fuzz.Seed{"[90000]"},
	)
}

// For any path and query, the answer has the API's form, and nothing is queued without a body.
func FuzzOperations(f *testing.F) {
	d := newFuzzServer(f)
	fuzz.Run(f, func(t *testing.T, method, target string) {
		if strings.Contains(target, "openai") && method == "GET" { // a request for the models queues a job without a body
			return
		}
		_, _, text := d.do(t, method, target, "")
		must.Hold(t, len(d.jobs) == 0, method, target, "queued a job:", text)
	},
		fuzz.Seed{"POST", "/v2/ep/run"}, fuzz.Seed{"GET", "/v2/ep/status/0558ca0f-2790-4d67-bf1a-43e52bd2a92d-q1?ttl=10000"}, fuzz.Seed{"GET", "/v2/ep/stream/x?wait=1000"},
		fuzz.Seed{"POST", "/v2/ep/cancel/x"}, fuzz.Seed{"POST", "/v2/ep/retry/x"}, fuzz.Seed{"POST", "/v2/ep/purge-queue"}, fuzz.Seed{"GET", "/v2/ep/health"},
		fuzz.Seed{"GET", "/v2/ep/requests"}, fuzz.Seed{"POST", "/v2/ep/openai/v1/x"}, fuzz.Seed{"GET", "/live/v2/ep/status-sync/x?wait=90000"},
		fuzz.Seed{"GET", "/v2/other/health"}, fuzz.Seed{"PUT", "/v2//run/%2e%2e/x"},
	)
}

package workerapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// idlePrograms starts workers whose process does nothing: the test sends requests in their place.
type idlePrograms struct{ specs chan run.Spec }

func (a idlePrograms) Program(string) (run.Program, error) {
	return run.Program{Start: func(_ context.Context, s run.Spec) (run.Process, error) {
		a.specs <- s
		p := new(idleProcess)
		p.Context, p.end = context.WithCancel(context.Background())
		return p, nil
	}}, nil
}

type idleProcess struct {
	context.Context
	end context.CancelFunc
}

func (p *idleProcess) Exit() run.Exit     { return run.Exit{Text: "killed"} }
func (p *idleProcess) Stop(time.Duration) { p.end() }
func (p *idleProcess) Address() string    { return "" }
func (p *idleProcess) Usage() run.Usage   { return run.Usage{} }

// manualWorker is a worker whose requests the test sends.
type manualWorker struct {
	t        *testing.T
	spec     run.Spec
	client   *api.Client
	endpoint string
	http     *http.Client
}

func newManualWorker(t *testing.T) *manualWorker {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	url := "http://" + server.Listener.Addr().String()
	programs := idlePrograms{make(chan run.Spec, 10)}
	j := must.Do(jobrunner.New(t.Context(), jobrunner.Config{
		APIKey: "planted-key", URL: url, Programs: programs, NoJobLimits: true, Logger: slog.New(slog.DiscardHandler),
	}))(t)
	server.Config.Handler = j.Handler()
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		must.Equal(t, j.Close(), nil)
		server.Close()
	})
	client := must.Do(api.New(api.Settings{BaseURL: url, APIKey: "planted-key", Version: api.V2}))(t)
	endpoint := must.Do(client.Endpoints.Create(t.Context(), api.Endpoint{
		Name: "manual", Type: "QUEUE", Container: &api.Container{Image: new("team/worker")},
		Workers: api.Workers{Min: 1, Max: 1}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 1},
	}))(t)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	spec := <-programs.specs
	for variable, operation := range map[string]string{"TEST_BATCH": "/job-take-batch/", "TEST_STOP": "/job-stop/"} {
		spec.Env[variable] = strings.Replace(spec.Env["RUNPOD_WEBHOOK_GET_JOB"], "/job-take/", operation, 1)
	}
	return &manualWorker{t: t, spec: spec, client: client, endpoint: endpoint.ID, http: &http.Client{Transport: transport}}
}

// send sends a request to the URL in a variable, with id for $ID: the job's in URLs of results, otherwise the worker's.
func (s *manualWorker) send(ctx context.Context, variable, id, query, body string) (*http.Response, string, error) {
	url := strings.NewReplacer("$RUNPOD_POD_ID", s.spec.ID, "$ID", id).Replace(s.spec.Env[variable]) + query
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Authorization", s.spec.Env["RUNPOD_AI_API_KEY"])
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

func (s *manualWorker) takeBatch(n int) (ids []string) {
	s.t.Helper()
	resp, text, err := s.send(s.t.Context(), "TEST_BATCH", s.spec.ID, fmt.Sprintf("&batch_size=%d&job_in_progress=1", n), "")
	must.Succeed(s.t, err)
	var jobs []struct{ ID string }
	must.Succeed(s.t, json.Unmarshal([]byte(text), &jobs), resp.Status, text)
	for _, job := range jobs {
		ids = append(ids, job.ID)
	}
	return ids
}

// A worker with many slots that reports all the time is never told to stop a finished job.
func TestFinishedJobsAreNotStopped(t *testing.T) {
	t.Parallel()
	s := newManualWorker(t)
	const jobs, slots = 1500, 50
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stops := make(chan []string)
	go func() {
		var answers []string
		for ctx.Err() == nil {
			resp, text, err := s.send(ctx, "TEST_STOP", s.spec.ID, "", "")
			if err == nil && resp.StatusCode == http.StatusOK {
				answers = append(answers, text)
			}
		}
		stops <- answers
	}()
	for range jobs {
		must.Do(s.client.Jobs.Run(t.Context(), s.endpoint, api.Submission{Input: []byte(`{}`)}))(t)
	}
	for done := 0; done < jobs; {
		ids := s.takeBatch(slots)
		var posts sync.WaitGroup
		for _, id := range ids {
			posts.Go(func() {
				resp, text, err := s.send(t.Context(), "RUNPOD_WEBHOOK_POST_OUTPUT", id, "&isStream=false", `{"output": 1}`)
				must.Hold(t, err == nil && resp.StatusCode == http.StatusOK, "a result:", err, text)
			})
		}
		posts.Wait()
		done += len(ids)
	}
	cancel()
	answers := <-stops
	must.Equal(t, len(answers), 0, "the number of finished jobs that the worker was told to stop:", slices.Compact(answers))
}

func TestCancelledJobIsStopped(t *testing.T) {
	t.Parallel()
	s := newManualWorker(t)
	job := must.Do(s.client.Jobs.Run(t.Context(), s.endpoint, api.Submission{Input: []byte(`{}`)}))(t)
	s.takeBatch(2)
	must.Do(s.client.Jobs.Cancel(t.Context(), s.endpoint, job.ID))(t)
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	_, text, err := s.send(ctx, "TEST_STOP", s.spec.ID, "", "")
	must.Hold(t, err == nil && text == `{"jobsToStop":["`+job.ID+`"]}`, "the jobs to stop are", err, text)
}

// A job of a megabyte has a Content-Length, because clients in pure Python can't find a chunked answer's end.
func TestLargeJobHasALength(t *testing.T) {
	t.Parallel()
	s := newManualWorker(t)
	input := `{"text":"` + strings.Repeat("x", 1<<20) + `"}`
	must.Do(s.client.Jobs.Run(t.Context(), s.endpoint, api.Submission{Input: []byte(input)}))(t)
	resp, text, err := s.send(t.Context(), "RUNPOD_WEBHOOK_GET_JOB", s.spec.ID, "&job_in_progress=0", "")
	if err != nil || !strings.Contains(text, input) {
		t.Fatalf("took %.100s, %v", text, err)
	}
	must.Hold(t, resp.ContentLength == int64(len(text)) && len(resp.TransferEncoding) == 0,
		"the length is", resp.ContentLength, "of", len(text), "the encoding", resp.TransferEncoding)
}

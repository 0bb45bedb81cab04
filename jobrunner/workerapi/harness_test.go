package workerapi_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

// fakeWorker is worker w1 of endpoint ep, and records calls. The test supplies jobs, and ids of jobs to stop.
type fakeWorker struct {
	jobs     chan []engine.Taken
	stopIDs  chan []string
	drain    chan struct{}  // closed when the worker drains
	lateJobs []engine.Taken // returned at the end of a poll

	mu      sync.Mutex
	calls   []string
	reports []engine.Report
	err     error // result of the next call
}

const workerKey = "worker-key-3141"

// authorize returns a Config.Authorize that knows one worker.
func authorize(w worker.Protocol) func(endpoint, id, key string) (worker.Protocol, error) {
	return func(endpoint, id, key string) (worker.Protocol, error) {
		switch {
		case endpoint != "ep" || id != "w1":
			return nil, worker.ErrNoWorker
		case key != workerKey:
			return nil, worker.ErrKey
		}
		return w, nil
	}
}

func (f *fakeWorker) recordCall(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	err := f.err
	f.err = nil
	return err
}

func (f *fakeWorker) Take(ctx context.Context, limit int) ([]engine.Taken, error) {
	if err := f.recordCall("take w1 %d", limit); err != nil {
		return nil, err
	}
	select {
	case jobs := <-f.jobs:
		return jobs, nil
	case <-f.drain:
	case <-ctx.Done():
		return f.lateJobs, nil
	}
	return nil, nil
}

func (f *fakeWorker) WaitForStops(ctx context.Context) []string {
	_ = f.recordCall("stops w1")
	select {
	case ids := <-f.stopIDs:
		return ids
	case <-f.drain:
	case <-ctx.Done():
	}
	return nil
}

func (f *fakeWorker) Report(_ context.Context, job string, r engine.Report, replace bool) error {
	err := f.recordCall("report w1 %s replace=%t", job, replace)
	if err == nil {
		f.mu.Lock()
		f.reports = append(f.reports, r)
		f.mu.Unlock()
	}
	return err
}

func (f *fakeWorker) SetSDK(string)                    {}
func (f *fakeWorker) BeginPost(string) func()          { return func() {} }
func (f *fakeWorker) ReportIdle(context.Context) error { return f.recordCall("idle w1") }

func (f *fakeWorker) Ping(_ context.Context, jobs []string) error {
	return f.recordCall("ping w1 %q", jobs)
}

func (f *fakeWorker) ReportUnhealthy(reason string) { _ = f.recordCall("unhealthy w1 %s", reason) }
func (f *fakeWorker) Note(text string)              { _ = f.recordCall("note w1 %s", text) }

// protocol is the worker protocol over HTTP in a bubble of virtual time.
type protocol struct {
	*fakeWorker
	t      *testing.T
	client *http.Client
	log    *bytes.Buffer
}

func runProtocol(t *testing.T, test func(p *protocol)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &protocol{t: t, log: new(bytes.Buffer), fakeWorker: &fakeWorker{
			jobs: make(chan []engine.Taken), stopIDs: make(chan []string), drain: make(chan struct{}),
		}}
		const free = 41 << 20
		bodies := httplimit.NewMemory(1 << 30)
		must.Do(bodies.Reserve(1<<30 - free))(t) // bodies of other requests
		transport, stop := pipenet.Serve(workerapi.New(workerapi.Config{Authorize: authorize(p.fakeWorker), Bodies: bodies, Logger: slog.New(slog.NewTextHandler(p.log, nil))}))
		p.client = &http.Client{Transport: transport}
		defer func() {
			stop()
			synctest.Wait()
			must.Hold(t, !strings.Contains(p.log.String(), workerKey), "the log contains the worker's key")
			must.Succeed(t, must.Err(bodies.Reserve(free)), "after all requests their memory isn't free")
		}()
		test(p)
	})
}

type answer struct {
	status int
	header http.Header
	text   string
}

// mustSend sends a request like the public SDK: with the bare key, and JSON typed as a form.
func (p *protocol) mustSend(method, path, body string, header ...string) answer {
	p.t.Helper()
	a, err := p.send(p.t.Context(), method, path, strings.NewReader(body), header...)
	must.Succeed(p.t, err, method, path)
	return a
}

func (p *protocol) send(ctx context.Context, method, path string, body io.Reader, header ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://deployment"+path, body)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", workerKey)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

func (p *protocol) expectAnswer(a answer, status int, text string) {
	p.t.Helper()
	if a.status != status || a.text != text {
		p.t.Errorf("answered %d %.300s, not %d %s", a.status, a.text, status, text)
	}
}

// expectCalls compares the calls since the last check.
func (p *protocol) expectCalls(want ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	must.Equal(p.t, strings.Join(p.calls, "\n"), strings.Join(want, "\n"), "the worker's calls")
	p.calls = nil
}

var errBroken = errors.New("the engine is broken")

// Tests with a real process mostly wait for it, so more of them run at a time than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if folder := os.Getenv("WORKER_SDK_PATH"); len(listReleases(folder)) > 0 {
		os.Exit(testReleases(folder, listReleases(folder)))
	}
	parallel := "10"
	if os.Getenv("WORKER_SDK_PATH") != "" { // loading the SDK needs much of a processor
		parallel = "4"
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

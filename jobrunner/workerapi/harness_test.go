package workerapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

// fake is one worker, w1 of endpoint ep, and writes down what it is told. The
// test hands out jobs and stops.
type fake struct {
	jobs  chan []engine.Taken
	ids   chan []string
	drain chan struct{}  // closed: it is to take no more
	late  []engine.Taken // handed out at the very moment at which a poll ends

	mu    sync.Mutex
	calls []string
	last  []engine.Report
	err   error // of the next call
}

const workerKey = "worker-key-3141"

func (f *fake) Authorize(endpoint, id, key string) error {
	switch {
	case endpoint != "ep" || id != "w1":
		return worker.ErrNoWorker
	case key != workerKey:
		return worker.ErrKey
	}
	return nil
}

func (f *fake) call(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	err := f.err
	f.err = nil
	return err
}

func (f *fake) Take(ctx context.Context, _, id string, most int) ([]engine.Taken, error) {
	if err := f.call("take %s %d", id, most); err != nil {
		return nil, err
	}
	select {
	case jobs := <-f.jobs:
		return jobs, nil
	case <-f.drain:
	case <-ctx.Done():
		return f.late, nil
	}
	return nil, nil
}

func (f *fake) Stops(ctx context.Context, _, id string) ([]string, error) {
	if err := f.call("stops %s", id); err != nil {
		return nil, err
	}
	select {
	case ids := <-f.ids:
		return ids, nil
	case <-f.drain:
	case <-ctx.Done():
	}
	return nil, nil
}

func (f *fake) Report(_ context.Context, _, id, job string, r engine.Report, replace bool) error {
	err := f.call("report %s %s replace=%t", id, job, replace)
	if err == nil {
		f.mu.Lock()
		f.last = append(f.last, r)
		f.mu.Unlock()
	}
	return err
}

func (f *fake) SDK(string, string, string) {}

func (f *fake) Posting(string, string, string) func() { return func() {} }

func (f *fake) Idle(_ context.Context, _, id string) error { return f.call("idle %s", id) }

func (f *fake) Ping(_ context.Context, _, id string, jobs []string) error {
	return f.call("ping %s %q", id, jobs)
}

func (f *fake) Unhealthy(_ context.Context, _, id, reason string) error {
	return f.call("unhealthy %s %s", id, reason)
}

// protocol is the worker protocol over HTTP in a bubble of virtual time.
type protocol struct {
	*fake
	t      *testing.T
	client *http.Client
	log    *bytes.Buffer
}

func bubble(t *testing.T, test func(p *protocol)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &protocol{t: t, log: new(bytes.Buffer), fake: &fake{
			jobs: make(chan []engine.Taken), ids: make(chan []string), drain: make(chan struct{}),
		}}
		network := pipenet.Listen()
		server := &http.Server{Handler: workerapi.New(workerapi.Config{Workers: p.fake, Logger: slog.New(slog.NewTextHandler(p.log, nil))})}
		go server.Serve(network)
		transport := network.Transport()
		p.client = &http.Client{Transport: transport}
		defer func() {
			transport.CloseIdleConnections()
			server.Close()
			synctest.Wait()
			if strings.Contains(p.log.String(), workerKey) {
				t.Error("the log has the worker's key in it")
			}
		}()
		test(p)
	})
}

type answer struct {
	status int
	header http.Header
	text   string
}

// do sends a request with the worker's key, as the public SDK does: bare, and
// JSON labelled as a form.
func (p *protocol) do(method, path, body string, header ...string) answer {
	p.t.Helper()
	a, err := p.try(p.t.Context(), method, path, strings.NewReader(body), header...)
	if err != nil {
		p.t.Fatalf("%s %s: %s", method, path, err)
	}
	return a
}

func (p *protocol) try(ctx context.Context, method, path string, body io.Reader, header ...string) (answer, error) {
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

func (p *protocol) want(a answer, status int, text string) {
	p.t.Helper()
	if a.status != status || a.text != text {
		p.t.Errorf("answered %d %.300s, not %d %s", a.status, a.text, status, text)
	}
}

// told checks what the workers were told since the last look.
func (p *protocol) told(want ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if got := strings.Join(p.calls, "\n"); got != strings.Join(want, "\n") {
		p.t.Errorf("the worker was told\n%s\nnot\n%s", got, strings.Join(want, "\n"))
	}
	p.calls = nil
}

var errBroken = errors.New("the engine is broken")

func sleep(seconds float64) { time.Sleep(time.Duration(seconds * float64(time.Second))) }

//go:build unix

package workerapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

// process is a worker that runs: a process group.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// start runs the handlers of testdata under the stand-in, or under the public
// SDK where WORKER_SDK_PATH names a folder that has it.
func start(env map[string]string, log io.Writer) (*process, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, err
	}
	script, err := filepath.Abs("testdata/handler.py")
	if err != nil {
		return nil, err
	}
	// Releases of the SDK keep which jobs they run in a file where they are
	// started: one worker must not find another's.
	folder, err := os.MkdirTemp("", "worker")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(python, script)
	cmd.Dir = folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1", "WORKER_SDK_PATH=" + os.Getenv("WORKER_SDK_PATH")}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	// The process that pings outlives a crash, and its output must be read on: a
	// pipe that has no reader would end it.
	output, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		return nil, errors.Join(err, output.Close(), os.RemoveAll(folder))
	}
	p, read := &process{cmd, make(chan struct{})}, make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(log, output)
		_ = output.Close()
		_ = os.RemoveAll(folder)
	}()
	go func() {
		defer close(p.done)
		_ = cmd.Wait()
		select {
		case <-read:
		case <-time.After(100 * time.Millisecond):
		}
	}()
	return p, nil
}

func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) Exit() string { return p.cmd.ProcessState.String() }

func (p *process) Kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

func (p *process) Usage() worker.Usage { return worker.Usage{} }

// protocolEnv are the variables of the worker protocol.
func protocolEnv(url string) map[string]string {
	base := url + "/v2/ep/"
	return map[string]string{
		"RUNPOD_WEBHOOK_GET_JOB":         base + "job-take/$ID?gpu=CPU",
		"RUNPOD_WEBHOOK_POST_OUTPUT":     base + "job-done/$RUNPOD_POD_ID/$ID?gpu=CPU",
		"RUNPOD_WEBHOOK_POST_STREAM":     base + "job-stream/$RUNPOD_POD_ID/$ID?gpu=CPU",
		"RUNPOD_WEBHOOK_PING":            base + "ping/$RUNPOD_POD_ID?gpu=CPU",
		"RUNPOD_PING_INTERVAL":           "1000",
		"RUNPOD_AI_API_KEY":              workerKey,
		"RUNPOD_POD_ID":                  "w1",
		"RUNPOD_ENDPOINT_ID":             "ep",
		"RUNPOD_DEBUG_LEVEL":             "DEBUG",
		"RUNPOD_SKIP_AUTO_SYSTEM_CHECKS": "true",
		"RUNPOD_SKIP_GPU_CHECK":          "true",
	}
}

// setHandler makes a worker run a handler of testdata, or with NAME@RELEASE the
// stand-in for that release of the public SDK.
func setHandler(env map[string]string, handler string) {
	env["HANDLER"], env["STANDIN_RELEASE"], _ = strings.Cut(handler, "@")
}

// onStandIn skips a test of an older release where the public SDK is tried
// instead of the stand-in.
func onStandIn(t *testing.T) {
	t.Helper()
	if os.Getenv("WORKER_SDK_PATH") != "" {
		t.Skip("the test is for the stand-in")
	}
}

// line is a queue with one worker, a process, behind the protocol: what the
// worker does is seen without anybody who starts and kills it.
type line struct {
	*record
	t       *testing.T
	engine  *engine.Engine
	process *process
	log     *output
	stop    chan []string

	mu   sync.Mutex
	held map[string]engine.Ref
}

func newLine(t *testing.T, handler string) *line {
	t.Helper()
	python.Need(t)
	discard := slog.New(slog.DiscardHandler)
	db, err := sqldb.Open(t.Context(), sqldb.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), engine.Config{DB: db, Clock: new(clock.Clock), Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	l := &line{t: t, engine: e, log: new(output), stop: make(chan []string, 1), held: map[string]engine.Ref{}}
	l.record = newRecord(workerapi.New(workerapi.Config{Workers: l, Logger: discard}))
	server := httptest.NewServer(l.record)
	env := protocolEnv(server.URL)
	setHandler(env, handler)
	if l.process, err = start(env, l.log); err != nil {
		t.Fatal(err)
	}
	l.dead = l.process.Done()
	t.Cleanup(func() {
		l.process.Kill()
		server.CloseClientConnections()
		server.Close()
		e.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the worker wrote\n%s", l.log)
			t.Logf("and sent\n%s", l.text())
		}
	})
	return l
}

// output is what a worker writes.
type output struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.b.Write(b)
}

// await waits until the worker has written a text.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		o.mu.Lock()
		if o.changed == nil {
			o.changed = make(chan struct{})
		}
		changed, found := o.changed, bytes.Contains(o.b.Bytes(), []byte(text))
		o.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("the worker did not write %q", text)
		}
	}
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (l *line) Authorize(_, id, key string) error {
	if id != "w1" {
		return worker.ErrNoWorker
	}
	if key != workerKey {
		return worker.ErrKey
	}
	return nil
}

func (l *line) Take(ctx context.Context, endpoint, id string, most int) ([]engine.Taken, error) {
	jobs, err := l.engine.TakeOrWait(ctx, engine.Take{Endpoint: endpoint, Worker: id, Max: most})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, job := range jobs {
		l.held[job.ID] = job.Ref
	}
	if ctx.Err() != nil {
		err = nil
	}
	return jobs, err
}

func (l *line) Stops(ctx context.Context, _, _ string) ([]string, error) {
	select {
	case ids := <-l.stop:
		return ids, nil
	case <-ctx.Done():
		return nil, nil
	}
}

func (l *line) Report(ctx context.Context, _, _, job string, r engine.Report, _ bool) error {
	l.mu.Lock()
	ref := l.held[job]
	l.mu.Unlock()
	_, err := l.engine.Report(ctx, ref, r)
	return err
}

func (l *line) SDK(string, string, string) {}

func (l *line) Posting(string, string, string) func() { return func() {} }

func (l *line) Idle(context.Context, string, string) error { return nil }

func (l *line) Ping(context.Context, string, string, []string) error { return nil }

func (l *line) Unhealthy(context.Context, string, string, string) error { return nil }

// exits waits for the worker to end by itself.
func (l *line) exits() {
	l.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-l.process.Done():
	case <-late.C:
		l.t.Fatal("the worker did not end")
	}
}

// submit queues a job.
func (l *line) submit(input string) string {
	l.t.Helper()
	job, err := l.engine.Submit(l.t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte(input)})
	if err != nil {
		l.t.Fatal(err)
	}
	return job.ID
}

// get is a job as a client sees it.
func (l *line) get(id string) engine.Job {
	l.t.Helper()
	job, err := l.engine.Get(l.t.Context(), "ep", id)
	if err != nil {
		l.t.Fatal(err)
	}
	return job
}

// ends waits for a job's result.
func (l *line) ends(id string) engine.Job {
	l.t.Helper()
	l.await(l.t, 1, false, "the result of "+id, func(r request) bool {
		return strings.HasSuffix(r.path, "/"+id) && strings.Contains(r.path, "/job-done/") && !isProgress(r)
	})
	return l.get(id)
}

func isProgress(r request) bool { return strings.Contains(r.body, `"status": "IN_PROGRESS"`) }

// since tells whether the public SDK that is tried is of a release or a later
// one. The stand-in does what the newest does.
func (l *record) since(t *testing.T, release ...int) bool {
	t.Helper()
	query, _ := url.ParseQuery(l.asked(t, 1, "ping", "runpod_version=").query)
	has := make([]int, 3)
	n, _ := fmt.Sscanf(query.Get("runpod_version"), "%d.%d.%d", &has[0], &has[1], &has[2])
	return n < 2 || slices.Compare(has, release) >= 0
}

// needs skips a test of what the public SDK does since a release.
func (l *record) needs(t *testing.T, release ...int) {
	t.Helper()
	if !l.since(t, release...) {
		t.Skip("the release of the SDK does not do it: it is before", release)
	}
}

// hold is the input of a job that runs until it is released, and then returns
// its input. It has more members, such as "then".
func hold(t *testing.T, more string) (input string, release func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "released")
	return fmt.Sprintf(`{"op": "hold", "until": %q%s}`, file, more), func() {
		t.Helper()
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

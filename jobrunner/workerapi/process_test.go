//go:build unix

package workerapi_test

import (
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

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/workerapi"
)

// process is a running worker: a process group.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startProcess runs testdata's handlers under the public SDK in WORKER_SDK_PATH or its stand-in, testdata/standin.py.
func startProcess(env map[string]string, log io.Writer) (*process, error) {
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		return nil, err
	}
	script, err := filepath.Abs("testdata/handler.py")
	if err != nil {
		return nil, err
	}
	// SDK releases list their jobs in a file of the working folder: a worker must not find another's.
	folder, err := os.MkdirTemp("", "worker")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(interpreter, script)
	cmd.Dir = folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1", "WORKER_SDK_PATH=" + os.Getenv("WORKER_SDK_PATH")}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	// The pinging process outlives a crash. Its output must be read: a pipe without a reader would end it.
	output, writer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	cmd.Stdout, cmd.Stderr = writer, writer
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	_ = writer.Close()
	if err != nil {
		return nil, errors.Join(err, output.Close(), os.RemoveAll(folder))
	}
	p, outputRead := &process{cmd, make(chan struct{})}, make(chan struct{})
	go func() {
		defer close(outputRead)
		_, _ = io.Copy(log, output)
		_ = output.Close()
		_ = os.RemoveAll(folder)
	}()
	go func() {
		defer close(p.done)
		_ = cmd.Wait()
		select {
		case <-outputRead:
		case <-time.After(100 * time.Millisecond):
		}
	}()
	return p, nil
}

func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) Exit() run.Exit {
	return run.Exit{Text: p.cmd.ProcessState.String(), OK: p.cmd.ProcessState.Success()}
}
func (p *process) Address() string { return "" }

func (p *process) Stop(time.Duration) {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

func (p *process) Usage() run.Usage { return run.Usage{} }

// setHandler makes a worker run a handler of testdata; NAME@RELEASE runs it under the stand-in of that release.
func setHandler(env map[string]string, handler string) {
	env["HANDLER"], env["STANDIN_RELEASE"], _ = strings.Cut(handler, "@")
}

// requireStandIn skips a test for an older release's stand-in if the tests run with the public SDK.
func requireStandIn(t *testing.T) {
	t.Helper()
	if os.Getenv("WORKER_SDK_PATH") != "" {
		t.Skip("the test is for the stand-in")
	}
}

// singleWorker is a queue with one worker process, without a pool that starts and kills workers.
type singleWorker struct {
	*recorder
	t       *testing.T
	engine  *engine.Engine
	process *process
	log     *livelog.Log
	stopIDs chan []string

	mu   sync.Mutex
	refs map[string]engine.Ref // of the taken jobs, by id
}

func newSingleWorker(t *testing.T, handler string) *singleWorker {
	t.Helper()
	python.Need(t)
	discard := slog.New(slog.DiscardHandler)
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
	e := must.Do(engine.Open(t.Context(), engine.Config{DB: db, Clock: new(clock.Clock), Logger: discard}))(t)
	l := &singleWorker{t: t, engine: e, log: new(livelog.Log), stopIDs: make(chan []string, 1), refs: map[string]engine.Ref{}}
	l.recorder = newRecorder(workerapi.New(workerapi.Config{Authorize: authorize(l), Bodies: httplimit.NewMemory(1 << 30), Logger: discard}))
	server := httptest.NewServer(l.recorder)
	base := server.URL + "/v2/ep/"
	env := map[string]string{ // of the worker protocol
		"RUNPOD_WEBHOOK_GET_JOB":     base + "job-take/$ID?gpu=CPU",
		"RUNPOD_WEBHOOK_POST_OUTPUT": base + "job-done/$RUNPOD_POD_ID/$ID?gpu=CPU",
		"RUNPOD_WEBHOOK_POST_STREAM": base + "job-stream/$RUNPOD_POD_ID/$ID?gpu=CPU",
		"RUNPOD_WEBHOOK_PING":        base + "ping/$RUNPOD_POD_ID?gpu=CPU", "RUNPOD_PING_INTERVAL": "1000",
		"RUNPOD_AI_API_KEY": workerKey, "RUNPOD_POD_ID": "w1", "RUNPOD_ENDPOINT_ID": "ep", "RUNPOD_DEBUG_LEVEL": "DEBUG",
		"RUNPOD_SKIP_AUTO_SYSTEM_CHECKS": "true", "RUNPOD_SKIP_GPU_CHECK": "true",
	}
	setHandler(env, handler)
	l.process = must.Do(startProcess(env, l.log))(t)
	l.workerDone = l.process.Done()
	t.Cleanup(func() {
		l.process.Stop(0)
		server.CloseClientConnections()
		server.Close()
		e.Close()
		must.Equal(t, db.Close(), nil)
		if t.Failed() {
			t.Logf("the worker wrote\n%s", l.log)
			t.Logf("and sent\n%s", l.text())
		}
	})
	return l
}

func (l *singleWorker) Take(ctx context.Context, limit int) ([]engine.Taken, error) {
	jobs, err := l.engine.Take(ctx, engine.Take{Endpoint: "ep", Worker: "w1", Max: limit})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, job := range jobs {
		l.refs[job.ID] = job.Ref
	}
	if ctx.Err() != nil {
		err = nil
	}
	return jobs, err
}

func (l *singleWorker) WaitForStops(ctx context.Context) []string {
	select {
	case ids := <-l.stopIDs:
		return ids
	case <-ctx.Done():
		return nil
	}
}

func (l *singleWorker) Report(ctx context.Context, job string, r engine.Report, _ bool) error {
	l.mu.Lock()
	ref := l.refs[job]
	l.mu.Unlock()
	return must.Err(l.engine.Report(ctx, ref, r))
}

func (l *singleWorker) SetSDK(string)                        {}
func (*singleWorker) Note(string)                            {}
func (l *singleWorker) BeginPost(string) func()              { return func() {} }
func (l *singleWorker) ReportIdle(context.Context) error     { return nil }
func (l *singleWorker) Ping(context.Context, []string) error { return nil }
func (l *singleWorker) ReportUnhealthy(string)               {}

func (l *singleWorker) waitForExit() {
	l.t.Helper()
	select {
	case <-l.process.Done():
	case <-time.After(waitTimeout):
		l.t.Fatal("the worker did not end")
	}
}

func (l *singleWorker) submit(input string) string {
	l.t.Helper()
	return must.Do(l.engine.Submit(l.t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte(input)}))(l.t).ID
}

func (l *singleWorker) get(id string) engine.Job {
	l.t.Helper()
	return must.Do(l.engine.Get(l.t.Context(), "ep", id))(l.t)
}

func (l *singleWorker) waitForResult(id string) engine.Job {
	l.t.Helper()
	l.waitForRequest(l.t, 1, false, "the result of "+id, func(r request) bool {
		return strings.HasSuffix(r.path, "/"+id) && strings.Contains(r.path, "/job-done/") && !isProgress(r)
	})
	return l.get(id)
}

func isProgress(r request) bool { return strings.Contains(r.body, `"status": "IN_PROGRESS"`) }

// hasRelease reports whether the tested public SDK has at least the given release. The stand-in
// counts as the newest release, unless the test chose an older one with setHandler.
func (l *recorder) hasRelease(t *testing.T, release ...int) bool {
	t.Helper()
	query, _ := url.ParseQuery(l.waitForAnswered(t, 1, "ping", "runpod_version=").query)
	actual := make([]int, 3)
	n, _ := fmt.Sscanf(query.Get("runpod_version"), "%d.%d.%d", &actual[0], &actual[1], &actual[2])
	return n < 2 || slices.Compare(actual, release) >= 0
}

// requireRelease skips a test of a feature that the tested SDK lacks, because a later release introduced it.
func (l *recorder) requireRelease(t *testing.T, release ...int) {
	t.Helper()
	if !l.hasRelease(t, release...) {
		t.Skip("the feature isn't in this release of the SDK, which is older than", release)
	}
}

// heldInput is the input of a job that runs until release and outputs it. members, such as `, "then": "crash"`, are added.
func heldInput(t *testing.T, members string) (input string, release func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "released")
	return fmt.Sprintf(`{"op": "hold", "until": %q%s}`, file, members), func() {
		t.Helper()
		must.Succeed(t, os.WriteFile(file, nil, 0o600))
	}
}

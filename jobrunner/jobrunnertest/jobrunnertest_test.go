package jobrunnertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobrunnertest"
)

// A function runs jobs: it gets a job's input, environment and attempt. The client gets the output, stream and error.
func TestHandle(t *testing.T) {
	t.Parallel()
	j := jobrunnertest.Start(t,
		jobrunnertest.Handle("team/worker", func(_ context.Context, job jobrunnertest.Job) (any, error) {
			var input struct{ Say, Fail string }
			if err := job.Decode(&input); err != nil {
				return nil, err
			}
			if input.Fail != "" {
				return nil, errors.New(input.Fail)
			}
			if err := job.Yield(map[string]string{"part": input.Say}); err != nil {
				return nil, err
			}
			return []any{input.Say, job.Env["GREETING"], job.Attempt, job.Endpoint, len(job.GPUs)}, nil
		}),
		jobrunnertest.Handle("team/**", func(context.Context, jobrunnertest.Job) (any, error) { return "another", nil }))
	id := j.Create("serverless", map[string]any{
		"name": "e", "image": "team/worker:1", "env": map[string]string{"GREETING": "hi"}, "workers": map[string]any{"max": 1},
		"cpu": []any{map[string]any{"id": "cpu3c", "vcpuCount": 2}},
	})
	r := j.Run(id, map[string]string{"say": "hello"})
	must.Hold(t, r.Status == "COMPLETED" && string(r.Output) == `["hello","hi",1,"`+id+`",0]`, "the result is", r)
	r = j.Run(id, map[string]string{"fail": "out of ideas"})
	must.Hold(t, r.Status == "FAILED" && r.Error == "out of ideas", "the result is", r)
	r = j.Run(j.Endpoint("team/other/worker:2"), nil)
	must.Hold(t, string(r.Output) == `"another"`, "the result is", r)
	r = j.Run(j.Endpoint("builtin/echo"), map[string]int{"a": 7})
	must.Hold(t, string(r.Output) == `{"a":7}`, "the result is", r)
}

// The clock is advanced by hand: a job times out in no time, and its handler's context ends.
func TestAdvance(t *testing.T) {
	const timeOut = 10 * time.Minute // default of an endpoint; a result is kept for half an hour
	t.Parallel()
	ended := make(chan error, 1)
	j := jobrunnertest.Start(t, jobrunnertest.Handle("sleeper", func(ctx context.Context, job jobrunnertest.Job) (any, error) {
		err := job.Sleep(ctx, 24*time.Hour)
		ended <- err
		return nil, err
	}))
	id := j.Endpoint("sleeper")
	job, before := j.Submit(id, nil), j.Now()
	j.WaitRunning(id, job)
	now := j.Advance(timeOut)
	must.Hold(t, now.Sub(before) >= timeOut, "from", before, "to", now)
	r := j.Wait(id, job)
	must.Hold(t, r.Status == "TIMED_OUT", "the result is", r)
	must.ErrorIs(t, <-ended, context.Canceled, "expected the handler's context to end")
}

// Programs of files and of a jobrunner.yaml's rules are workers too.
func TestPrograms(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	t.Parallel()
	dir := t.TempDir()
	script, config := filepath.Join(dir, "upper.sh"), filepath.Join(dir, "jobrunner.yaml")
	write(t, script, "tr a-z A-Z\n")
	write(t, config, "engine: none\nrules:\n  - image: team/lower\n    command: {run: [tr, A-Z, a-z]}\n")
	j := jobrunnertest.Start(t, jobrunnertest.ConfigFile(config), jobrunnertest.HandleFile("team/upper", script))
	for image, want := range map[string]string{"team/upper:1": `{"A":"B"}`, "team/lower:1": `{"a":"b"}`} {
		r := j.Run(j.Endpoint(image), map[string]string{"a": "B"})
		must.Hold(t, r.Status == "COMPLETED" && string(r.Output) == want, "the result of", image, "is", r, "want", want)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
}

// A worker has its own simulated GPUs and the endpoint's volume.
func TestSimulateGPUs(t *testing.T) {
	t.Parallel()
	j := jobrunnertest.Start(t, jobrunnertest.SimulateGPUs("l4x2"),
		jobrunnertest.Handle("gpu", func(_ context.Context, job jobrunnertest.Job) (any, error) {
			info, err := os.Stat(job.Volume)
			return []any{len(job.GPUs), err == nil && info.IsDir()}, nil
		}))
	volume := j.Create("network-volumes", map[string]any{"name": "v", "size": 10, "dataCenter": "EU-RO-1"})
	id := j.Create("serverless", map[string]any{
		"name": "e", "image": "gpu", "networkVolumes": []string{volume}, "gpu": map[string]any{"pools": []string{"ADA_24"}, "count": 2}, "workers": map[string]any{"max": 1},
	})
	r := j.Run(id, nil)
	must.Hold(t, string(r.Output) == "[2,true]", "the result is", r)
}

// The environment only leads to this deployment, whatever variables the test has.
func TestEnviron(t *testing.T) {
	t.Setenv("GPUCLOUD_QUEUE_URL", "https://production.example.com")
	t.Setenv("GPUCLOUD_API_KEY", "of production")
	j := jobrunnertest.Start(t, jobrunnertest.Key("k"))
	want := []string{"GPUCLOUD_BASE_URL=" + j.URL, "GPUCLOUD_API_KEY=k", "GPUCLOUD_QUEUE_URL=", "RUNPOD_ENDPOINT_BASE_URL=" + j.URL + "/live/v2"}
	all := j.Environ()
	for _, v := range want {
		must.Hold(t, slices.Contains(all, v), "no", v)
	}
	text := strings.Join(all, "\n")
	must.Hold(t, !strings.Contains(text, "production") && strings.Contains(text, "PATH="), "invalid environment", text)
	j.Setenv()
	for _, v := range want {
		name, value, _ := strings.Cut(v, "=")
		must.Hold(t, os.Getenv(name) == value, name, "is", os.Getenv(name))
	}
}

// The state outlives a deployment with Data.
func TestData(t *testing.T) {
	t.Parallel()
	dir, id := t.TempDir(), ""
	t.Run("first", func(t *testing.T) { id = jobrunnertest.Start(t, jobrunnertest.Data(dir)).Endpoint("builtin/echo") })
	r := jobrunnertest.Start(t, jobrunnertest.Data(dir)).Run(id, nil)
	must.Hold(t, r.Status == "COMPLETED", "the result is", r)
}

func TestMiddleware(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	j := jobrunnertest.Start(t, jobrunnertest.Middleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen.Add(1)
			next.ServeHTTP(w, r)
		})
	}))
	j.Endpoint("builtin/echo")
	must.Equal(t, seen.Load(), 1, "requests")
}

// A test ends even if a handler waits for the end of its context, and a client for the job.
func TestEndsWithItsTest(t *testing.T) {
	t.Parallel()
	var stopped atomic.Bool
	answered := make(chan error, 1)
	t.Run("test", func(t *testing.T) {
		j := jobrunnertest.Start(t, jobrunnertest.Logs(), jobrunnertest.Handle("stuck", func(ctx context.Context, _ jobrunnertest.Job) (any, error) {
			<-ctx.Done()
			stopped.Store(true)
			return nil, ctx.Err()
		}))
		id := j.Endpoint("stuck")
		j.WaitRunning(id, j.Submit(id, nil))
		r := must.Do(http.NewRequest(http.MethodPost, j.URL+"/v2/"+id+"/runsync", strings.NewReader(`{"input": {}}`)))(t)
		sent := make(chan struct{})
		r = r.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }}))
		go func() {
			response, err := j.Client().Do(r)
			if err == nil {
				response.Body.Close()
			}
			answered <- err
		}()
		<-sent
	})
	err := <-answered
	must.Hold(t, err != nil && stopped.Load(), "the client got", err, "the handler was stopped:", stopped.Load())
}

// failingTB is a test that records why it failed.
type failingTB struct {
	testing.TB
	text  string
	limit time.Time
}

func (f *failingTB) Deadline() (limit time.Time, set bool) { return f.limit, !f.limit.IsZero() }

func (f *failingTB) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// Waiting for a worker that can't start, or a job that doesn't end, fails the test with the reason.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	loadingWorker := filepath.Join(t.TempDir(), "loads.py")
	write(t, loadingWorker, "import runpod\n")
	for want, run := range map[string]func(j *jobrunnertest.Jobrunner){
		"no worker can start: ": func(j *jobrunnertest.Jobrunner) { j.Run(j.Endpoint("team/misspelled:1"), nil) },
		"is still IN_PROGRESS":  func(j *jobrunnertest.Jobrunner) { j.Run(j.Endpoint("team/hangs:1"), nil) },
		"is still IN_QUEUE": func(j *jobrunnertest.Jobrunner) {
			id := j.Endpoint("team/hangs:1")
			j.WaitRunning(id, j.Submit(id, nil))
			j.WaitRunning(id, j.Submit(id, nil))
		},
		"-q1 is still IN_QUEUE": func(j *jobrunnertest.Jobrunner) { // a worker that loads for minutes may still start
			id := j.Endpoint("team/loads:1")
			job := j.Submit(id, nil)
			for health := ""; !strings.Contains(health, "it still loads"); {
				j.Advance(time.Second)
				response := must.Do(j.Client().Get(j.URL + "/v2/" + id + "/health"))(t)
				body := must.Do(io.ReadAll(response.Body))(t)
				response.Body.Close()
				health = string(body)
			}
			j.WaitRunning(id, job)
		},
	} {
		f := &failingTB{TB: t, limit: time.Now().Add(9 * time.Second)} // a wait ends 5 s before the limit
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(jobrunnertest.Start(f, jobrunnertest.Handle("team/hangs", func(ctx context.Context, _ jobrunnertest.Job) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}), jobrunnertest.HandleFile("team/loads", loadingWorker, "sh", "-c", "exec sleep 1000")))
		}()
		<-done
		must.Hold(t, strings.Contains(f.text, want), "expected", want, "got", f.text)
	}
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kubernetes := filepath.Join(dir, "jobrunner.yaml")
	write(t, kubernetes, "executor: kubernetes\nkubernetes: {url: http://jobrunner:8420}\n")
	for want, option := range map[string]jobrunnertest.Option{
		"expected a file or one of": jobrunnertest.SimulateGPUs("nosuch"),
		"doesn't exist":             jobrunnertest.HandleFile("a", filepath.Join(dir, "nosuch.py")),
		"no such file":              jobrunnertest.ConfigFile(filepath.Join(dir, "nosuch.yaml")),
		"needs the program":         jobrunnertest.ConfigFile(kubernetes),
		"image is empty":            jobrunnertest.Handle("", nil),
	} {
		f := &failingTB{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			jobrunnertest.Start(f, option)
		}()
		<-done
		must.Hold(t, strings.Contains(f.text, want), "expected", want, "got", f.text)
	}
}

// largeModules must not be compiled by other modules' tests. NVML also needs cgo.
var largeModules = []string{"k8s.io/", "github.com/NVIDIA/", "github.com/hashicorp/terraform", "helm.sh/", "github.com/chromedp/"}

// Another module can test its client, as examples/go-test does, without a C compiler.
func TestOutsideModule(t *testing.T) {
	t.Parallel()
	root := must.Do(filepath.Abs("../.."))(t)
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples/go-test"))))
	// Users fetch this tree with the versions that it has.
	mod := must.ReadFile(t, filepath.Join(dir, "go.mod"))
	write(t, filepath.Join(dir, "go.mod"), strings.Replace(string(mod), "=> ../..", "=> "+root, 1))
	write(t, filepath.Join(dir, "go.sum"), string(must.ReadFile(t, filepath.Join(root, "go.sum"))))

	packages := must.Do(gobuild.RunGo(t.Context(), dir, "list", "-mod=mod", "-deps", "-test", "./..."))(t)
	must.Require(t, strings.Contains(string(packages), "jobrunner/jobrunnertest\n"), "expected jobrunnertest among", string(packages))
	for name := range strings.FieldsSeq(string(packages)) {
		for _, module := range largeModules {
			must.Hold(t, !strings.HasPrefix(name, module), "a test of another module compiles", name)
		}
	}
	if testing.Short() {
		return // the rest compiles this module again, without cgo
	}
	must.Contain(t, string(must.Do(gobuild.RunGo(t.Context(), dir, "test", "-mod=mod", "-trimpath", "-count=1", "-v", "./..."))(t)), "--- PASS: TestShout")
}

// exampleT is the testing.TB of an example.
type exampleT struct {
	testing.TB
	cleanups []func()
}

// run runs a function as the body of a test.
func run(f func(t testing.TB)) {
	t := new(exampleT)
	defer func() {
		for i := len(t.cleanups) - 1; i >= 0; i-- {
			t.cleanups[i]()
		}
	}()
	f(t)
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Context() context.Context          { return context.Background() }
func (t *exampleT) Cleanup(end func())                { t.cleanups = append(t.cleanups, end) }
func (t *exampleT) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (t *exampleT) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }

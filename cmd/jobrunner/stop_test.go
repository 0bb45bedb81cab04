//go:build unix

package main_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/serving"
)

// A stop answers each waiting request at once with the current state of its job, and the program ends.
func TestStopsWhileRequestsWait(t *testing.T) {
	t.Parallel()
	p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--ephemeral")
	c := p.client("k")
	idleEndpoint, busyEndpoint := p.createEndpointOfImage("unknown/image"), p.createEndpointOfImage("builtin/conformance") // an unknown image starts no worker
	type response struct {
		status int
		body   string
	}
	ask := func(method, path, body string) <-chan response {
		got := make(chan response, 1)
		go func() {
			resp, text, err := send(t.Context(), method, p.url+path, "k", body)
			if err != nil {
				got <- response{0, err.Error()}
				return
			}
			got <- response{resp.StatusCode, text}
		}()
		return got
	}
	queuedResponse := ask("POST", "/v2/"+idleEndpoint+"/runsync?wait=300000", `{"input": {}}`)
	runningResponse := ask("POST", "/v2/"+busyEndpoint+"/runsync?wait=300000", `{"input": {"op": "sleep", "ms": 200000}}`)
	health := func(endpoint string) api.Health {
		return must.Do(c.Jobs.Health(t.Context(), endpoint))(t)
	}
	p.waitUntil("both jobs", func() bool {
		return health(idleEndpoint).Jobs.InQueue == 1 && health(busyEndpoint).Jobs.InProgress == 1
	})
	list := struct{ Requests []struct{ ID string } }{}
	_, body := p.get("/v2/" + busyEndpoint + "/requests")
	must.Require(t, json.Unmarshal([]byte(body), &list) == nil && len(list.Requests) == 1, "the jobs are", body)
	id := list.Requests[0].ID
	statusSync := ask("GET", "/live/v2/"+busyEndpoint+"/status-sync/"+id+"?wait=300000", "")
	stream := ask("GET", "/live/v2/"+busyEndpoint+"/stream/"+id+"?wait=300000", "")
	openAI := ask("POST", "/v2/"+idleEndpoint+"/openai/v1/chat/completions", `{}`)
	p.waitUntil("the second request", func() bool { return health(idleEndpoint).Jobs.InQueue == 2 })

	signalTime := time.Now()
	p.cmd.Process.Signal(syscall.SIGTERM)
	for name, c := range map[string]struct {
		response <-chan response
		status   int
		want     []string
	}{
		"runsync of a job that waits": {queuedResponse, 200, []string{`"status":"IN_QUEUE"`, `"id":"`}},
		"runsync of a job that runs":  {runningResponse, 200, []string{`"status":"IN_PROGRESS"`, `"id":"` + id}},
		"status-sync":                 {statusSync, 200, []string{`"status":"IN_PROGRESS"`, `"id":"` + id}},
		"stream":                      {stream, 200, []string{`"status":"IN_PROGRESS"`, `"stream":[]`}},
		"openai":                      {openAI, 503, []string{`{"error":{"message":"the deployment is stopping`}},
	} {
		got := <-c.response
		for _, want := range c.want {
			must.Hold(t, got.status == c.status && strings.Contains(got.body, want), name, "returned", got.status, got.body, "want", c.status, want)
		}
	}
	must.Equal(t, p.cmd.Wait(), nil, "the jobrunner ended with", &p.stderr)
	duration := time.Since(signalTime) // the requests wait for five minutes, the job runs for more than three
	must.Hold(t, duration <= waitTimeout, "the stop took", duration)
}

// An interrupted job tail says that the job continues, even if the deployment hasn't returned its status.
func TestInterruptedTail(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/status/") {
			asked <- struct{}{}
			<-r.Context().Done()
		}
		io.WriteString(w, `{"endpoints": [{"id": "e1", "name": "e"}]}`)
	}))
	defer server.Close()
	var stderr strings.Builder
	cmd := exec.Command(binary, "job", "tail", "e1", "j1")
	cmd.Env, cmd.Stderr = environment(t.TempDir(), "GPUCLOUD_BASE_URL="+server.URL, "GPUCLOUD_API_KEY=k"), &stderr
	must.Succeed(t, cmd.Start())
	<-asked
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the exit status is checked below
	must.Hold(t, cmd.ProcessState.ExitCode() == 4 && stderr.String() == "jobrunner: interrupted: the job continues\n", "job tail ended with", cmd.ProcessState, stderr.String())
}

// Closing the terminal stops the deployment like Ctrl-C. Closing its log, as tee does on Ctrl-C, doesn't kill it.
func TestStopsOnHangup(t *testing.T) {
	t.Parallel()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // otherwise the jobrunner would inherit nohup's setting to ignore it
	defer signal.Stop(hangups)
	p := &process{t: t, cmd: exec.Command(binary, "serve", "--ephemeral", "--listen=127.0.0.1:0")}
	p.cmd.Env, p.cmd.Stderr = environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), closedPipe(t)
	p.startupLines = serving.Start(t, p.cmd)
	p.url = p.startupValue("GPUCLOUD_BASE_URL")
	p.createEndpointOfImage("builtin/echo") // is logged
	p.cmd.Process.Signal(syscall.SIGHUP)
	must.Equal(t, p.cmd.Wait(), nil, "the jobrunner ended with", &p.stderr)
}

// An interrupt during the start ends the program, which prints that it was interrupted.
func TestInterruptedStart(t *testing.T) {
	t.Parallel()
	silentServer := must.Do(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silentServer.Close()
	var stderr strings.Builder
	cmd := exec.Command(binary, "serve", "--listen=127.0.0.1:0", "--engine=postgres://u@"+silentServer.Addr().String()+"/db")
	cmd.Env, cmd.Stderr = environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), &stderr
	must.Succeed(t, cmd.Start())
	defer must.Do(silentServer.Accept())(t).Close() // waits until the program connects
	must.Succeed(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // the exit status is checked below
	must.Hold(t, cmd.ProcessState.ExitCode() == 1 && strings.HasPrefix(stderr.String(), "jobrunner: interrupted: "), "serve ended with", cmd.ProcessState, stderr.String())

	// doctor reads a file, here a pipe without content.
	dir := t.TempDir()
	file := filepath.Join(dir, "engine")
	must.Succeed(t, syscall.Mkfifo(file, 0o600))
	cmd = exec.Command(binary, "doctor", "--listen=127.0.0.1:0", "--engine-file", file)
	cmd.Env = environment(dir)
	must.Succeed(t, cmd.Start())
	defer must.Do(os.OpenFile(file, os.O_WRONLY, 0))(t).Close() // waits until the program reads
	must.Succeed(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the exit status is checked below
	must.Equal(t, cmd.ProcessState.ExitCode(), 1, "the exit status of doctor")

	// serve reads the same pipe. It ignores the first signal.
	cmd = exec.Command(binary, "serve", "--listen=127.0.0.1:0", "--ephemeral", "--api-key-file", file)
	cmd.Env = environment(dir)
	must.Succeed(t, cmd.Start())
	defer must.Do(os.OpenFile(file, os.O_WRONLY, 0))(t).Close()
	go cmd.Wait()
	waitUntil(t, "the end of serve", func() bool { return cmd.Process.Signal(os.Interrupt) != nil })

	// dev runs the project's Python, here a script that interrupts dev.
	dir = t.TempDir()
	python := filepath.Join(dir, ".venv", "bin", "python")
	must.Succeed(t, os.MkdirAll(filepath.Dir(python), 0o700))
	writeFile(t, filepath.Join(dir, ".venv", "pyvenv.cfg"), "")
	writeFile(t, python, "#!/bin/sh\nkill $PPID\nexec sleep 600\n")
	must.Succeed(t, os.Chmod(python, 0o700))
	writeFile(t, filepath.Join(dir, "handler.py"), "import runpod\n")
	_, text, code := runDevOnce(t, filepath.Join(dir, "handler.py"))
	must.Hold(t, code == 4 && text == "jobrunner: interrupted\n", "dev ended with", code, text)
}

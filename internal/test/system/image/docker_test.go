package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// container is a running container of the image, with a read-only root and no capabilities.
type container struct {
	t        *testing.T
	engine   *containers.Engine
	id       string
	url, key string
}

// The image's jobrunner runs a job as an unprivileged user, exits with 0 after SIGTERM, and keeps the job on its volume.
func TestDocker(t *testing.T) {
	if testing.Short() {
		t.Skip("compiling the jobrunner for the image takes a minute")
	}
	e := containers.Docker(t)
	s := testSettings()
	s.root, s.source, s.name, s.platforms = root, "./cmd/jobrunner", "localhost/team/jobrunner", []string{"linux/" + runtime.GOARCH}
	images := must.Do(s.build(t.Context()))(t)
	dir := t.TempDir()
	must.Succeed(t, write(dir, s.tag(), imageIndex(images), images))
	e.Output(t, "load", "--input", filepath.Join(dir, archiveName(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})))
	must.Equal(t, e.Output(t, "run", "--rm", "--network=none", s.tag(), "version"), "jobrunner 1.2.3", "version")
	t.Run("testcontainers", func(t *testing.T) { throughTestcontainers(t, e, s.tag()) })
	volume := e.Output(t, "volume", "create")
	t.Cleanup(func() { e.Output(t, "volume", "rm", volume) })

	c := start(t, e, s.tag(), volume)
	c.key = c.awaitLog(`GPUCLOUD_API_KEY=(\w+)`)
	var endpoint, job struct{ ID, Status string }
	c.call(http.MethodPost, "/v2/serverless", `{"name": "e", "image": "builtin/echo", "workers": {"max": 1}, "cpu": [{"id": "cpu3c", "vcpuCount": 2}]}`, &endpoint)
	c.call(http.MethodPost, "/v2/"+endpoint.ID+"/runsync", `{"input": {"a": 1}}`, &job)
	must.Require(t, job.Status == "COMPLETED", "expected a completed job and got", job)
	c.stop()

	next := start(t, e, s.tag(), volume)
	next.key = c.key
	next.call(http.MethodGet, "/v2/"+endpoint.ID+"/status/"+job.ID, "", &job)
	must.Equal(t, job.Status, "COMPLETED", "status after the next start of", job)
	log := next.awaitLog(`(?s)(.*Ctrl-C.*)`)
	must.Hold(t, !strings.Contains(log, "#code=") && !strings.Contains(log, c.key), "the log contains a sign-in code or the key:", log)
	next.stop()
}

// throughTestcontainers runs the tests of jobrunnercontainer with the image.
func throughTestcontainers(t *testing.T, e *containers.Engine, tag string) {
	t.Helper()
	e.Network(t) // skips the test without a container network
	const module = root + "/jobrunner/jobrunnertest/jobrunnercontainer"
	files, err := filepath.Glob(module + "/*")
	must.Require(t, err == nil && len(files) != 0, "expected files in", module, "and got", files, err)
	for _, file := range files { // so that go test's cached result depends on them
		must.ReadFile(t, file)
	}
	for _, v := range append(slices.Clone(e.Env), "TESTCONTAINERS_RYUK_DISABLED=true", "JOBRUNNER_IMAGE="+tag) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	out, err := gobuild.RunGo(t.Context(), module, "test", "-count=1", "-v", "./...")
	must.Hold(t, err == nil && strings.Contains(string(out), "--- PASS: TestRun ") && strings.Contains(string(out), "--- PASS: TestRunFails"), "expected that TestRun and TestRunFails pass and got", err, string(out))
}

func start(t *testing.T, e *containers.Engine, tag, volume string) *container {
	t.Helper()
	c := &container{t: t, engine: e}
	c.id = e.Output(t, "run", "--detach", "--network=host", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges",
		"--volume="+volume+":"+home, tag, "serve", "--listen=127.0.0.1:0", "--data="+home)
	t.Cleanup(func() { e.Output(t, "rm", "--force", c.id) })
	c.url = c.awaitLog(`GPUCLOUD_BASE_URL=(\S+)`)
	c.call(http.MethodGet, "/readyz", "", nil)
	return c
}

// awaitLog waits until the container's log matches a pattern, and returns the first group.
func (c *container) awaitLog(pattern string) string {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		log := c.engine.Output(c.t, "logs", c.id)
		if found := regexp.MustCompile(pattern).FindStringSubmatch(log); found != nil {
			return found[1]
		}
		must.Require(c.t, !time.Now().After(deadline), "the container printed no match of", pattern, "in", log)
	}
}

func (c *container) call(method, path, body string, into any) {
	c.t.Helper()
	req := must.Do(http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body)))(c.t)
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	resp := must.Do(http.DefaultClient.Do(req))(c.t)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode < 300 && into != nil {
		err = json.Unmarshal(text, into)
	}
	must.Require(c.t, err == nil && resp.StatusCode < 300, method, path, "was answered with", resp.StatusCode, string(text), err)
}

// stop sends SIGTERM and expects exit status 0.
func (c *container) stop() {
	c.t.Helper()
	c.engine.Output(c.t, "stop", "--time=60", c.id)
	must.Equal(c.t, c.engine.Output(c.t, "inspect", "--format={{.State.ExitCode}} {{.State.OOMKilled}}", c.id), "0 false", "exit status of the container, and whether it ran out of memory")
}

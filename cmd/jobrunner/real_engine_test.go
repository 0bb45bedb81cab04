//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// awaitStartFailure waits until the endpoint's reason contains a text.
func (c *containerDeployment) awaitStartFailure(text string) (reason string) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			c.t.Log(c.workerList())
		}
	}()
	return c.awaitHealthReason(text)
}

func (c *containerDeployment) createRegistryAuth(name, username, password string) string {
	c.t.Helper()
	return c.createObject("/v2/registries", fmt.Sprintf(`{"name": %q, "username": %q, "password": %q}`, name, username, password))
}

// An image in a private registry is pulled with its endpoint's registry auth. If auth or image are
// missing or wrong, jobs wait and the reason says what to do. No response or log has a password.
func testRealPrivateRegistry(t *testing.T, e *containers.Engine) {
	registry := containers.StartRegistry(t)
	source := "team/private-" + e.Name + ":1"
	buildImage(t, e, source, "contained", nil)
	private := registry.Push(t, e, source, "private/"+e.Name+":1")
	e.Output(t, "rmi", source) // so that it must be pulled
	c := startContainerDeployment(t, e, "")
	stopRecording := recordCommandLines(containers.Password, "planted-wrong")
	right, wrong := c.createRegistryAuth("right", containers.Username, containers.Password), c.createRegistryAuth("wrong", containers.Username, "planted-wrong")
	for _, step := range []struct{ name, image, auth, reason string }{
		{"no login", private, "", "has no registry auth, and the registry " + registry.Address + " wants a login"},
		{"wrong login", private, wrong, "the registry " + registry.Address + " refused the login"},
		{"absent image", registry.Address + "/private/absent:2", right, "the registry " + registry.Address + " has no such image"},
		{"absent registry", "127.0.0.1:1/team/absent", right, "the registry 127.0.0.1:1 can't be reached"},
	} {
		auth := ""
		if step.auth != "" {
			auth = `"registry": "` + step.auth + `"`
		}
		c.createEndpointOf(step.image, auth)
		job := c.submit(`{"name": "waits"}`)
		reason := c.awaitStartFailure(step.reason)
		t.Logf("%s: %s", step.name, reason)
		must.Hold(t, !strings.Contains(c.workerList(), "planted") && len(reason) <= 500,
			"with", step.name, "the answers have a password, or a long reason:", c.workerList())
		must.Equal(t, must.Do(c.client("k").Jobs.Status(t.Context(), c.endpoint, job))(t).Status, "IN_QUEUE", "the job's status with", step.name)
		if step.name != "wrong login" {
			c.call(http.MethodDelete, "/v2/serverless/"+c.endpoint, "", nil)
			continue
		}
		// With the right login the same job runs.
		c.call(http.MethodPatch, "/v2/serverless/"+c.endpoint, `{"registry": "`+right+`"}`, nil)
		c.awaitCompletion(job)
		c.call(http.MethodDelete, "/v2/serverless/"+c.endpoint, "", nil)
	}
	c.stopAndExpectNoContainer()
	must.Equal(t, stopRecording(), nil, "arguments of processes contain passwords")
	log := c.stderr.String()
	must.Hold(t, !strings.Contains(log, "planted") && strings.Contains(log, "refused the login"), "the log has a password, or lacks the reason", log)
}

// If a container crashes or is killed at its memory limit, the job's error and the log say so, and it is replaced.
func testRealCrashes(t *testing.T, e *containers.Engine) {
	c := startContainerDeployment(t, e, "options: [--memory=64m, --memory-swap=64m]")
	c.createEndpointOf(handlerImage, "")
	for name, step := range map[string]struct{ input, reason string }{
		"exit": {`{"name": "exit", "exit": 3}`, "its worker died: exit status 3"},
		// Podman doesn't always report the reason; the jobrunner then infers it.
		"memory": {`{"name": "memory", "eat": true}`, "its worker died: exit status 137: killed by SIGKILL, .*memory"},
	} {
		job := c.awaitEnd(c.submit(step.input))
		must.Hold(t, job.Status == "FAILED" && regexp.MustCompile(step.reason).MatchString(string(job.Error)), "the job", name, "is", job.Status, "with", string(job.Error), "want", step.reason)
	}
	c.awaitCompletion(c.submit(`{"name": "after"}`))
	begins := c.countTakes()
	must.Hold(t, begins["exit"] == 2 && begins["memory"] == 2 && begins["after"] == 1, "the jobs began so often:", begins)
	containers := c.containers()
	must.Hold(t, len(containers) == 1, "want one container, got", containers)
	c.stopAndExpectNoContainer()
	log := c.stderr.String()
	must.Hold(t, strings.Count(log, "a worker died") == 4 && strings.Contains(log, "exit status 3"), "the log is", log)
}

// If a container can't start because its command isn't in the image, or ends at once, the reason says so.
func testRealStartsThatFail(t *testing.T, e *containers.Engine) {
	c := startContainerDeployment(t, e, "")
	for args, reason := range map[string]string{
		"absent-program":                       "absent-program",
		"python3 -c 'import absent_module'":    "No module named 'absent_module'",
		"python3 -c 'print(1)'":                "it ended with exit status 0 and never asked for a job",
		"python3 -c 'raise SystemExit(\"x\")'": "with exit status 1",
	} {
		words := must.Do(json.Marshal(args))(t)
		c.createEndpointOf(handlerImage, `"args": `+string(words)+`, "workers": {"min": 1, "max": 1}`)
		t.Logf("%s: %s", args, c.awaitStartFailure(reason))
		c.call(http.MethodDelete, "/v2/serverless/"+c.endpoint, "", nil)
		c.waitUntil("the end of the container", func() bool { return len(c.containers()) == 0 })
	}
	c.stopAndExpectNoContainer()
}

// After a kill -9 during a job, the next start removes the container, and the job runs again in
// another one. Containers of a second jobrunner on the same engine aren't affected.
func testRealKills(t *testing.T, e *containers.Engine) {
	other := startContainerDeployment(t, e, "")
	other.createEndpointOf(handlerImage, `"workers": {"min": 1, "max": 1}`)
	otherJob := other.submit(`{"name": "beside", "wait": "go"}`)
	other.waitUntil("the job of the other jobrunner", func() bool { return len(other.recordedLines("begins")) == 1 })
	otherContainers := other.containers()

	c := startContainerDeployment(t, e, "")
	c.createEndpointOf(handlerImage, `"workers": {"min": 1, "max": 1}`)
	id := c.submit(`{"name": "killed", "wait": "go"}`)
	c.waitUntil("the job", func() bool { return len(c.recordedLines("begins")) == 1 })
	before := c.containers()
	must.Require(t, len(before) == 1, "containers:", before)
	c.kill()
	if after := c.containers(); len(after) != 1 {
		t.Logf("the kill itself ended the container: %v", after)
	}
	c.start(t)
	c.waitUntil("the job's second begin", func() bool { return len(c.recordedLines("begins")) == 2 })
	after := c.containers()
	must.Hold(t, len(after) == 1 && after[0] != before[0], "the container was", before, "and after the kill is", after)
	c.release("go")
	c.awaitCompletion(id)
	must.Equal(t, c.countTakes()["killed"], 2, "starts of the job")
	now := other.containers()
	must.Hold(t, len(now) == 1 && now[0] == otherContainers[0], "the other jobrunner had", otherContainers, "and now", now)
	c.stopAndExpectNoContainer()
	other.release("go")
	other.awaitCompletion(otherJob)
	must.Equal(t, other.countTakes()["beside"], 1, "starts of the other job")
	other.stopAndExpectNoContainer()
}

// A stop waits for a job that ends soon. A longer job runs again after the next start, uncounted.
func testRealStop(t *testing.T, e *containers.Engine) {
	c := startContainerDeployment(t, e, "")
	c.createEndpointOf(handlerImage, `"workers": {"min": 2, "max": 2}`)
	soonID, lateID := c.submit(`{"name": "soon", "wait": "soon"}`), c.submit(`{"name": "late", "wait": "late"}`)
	c.waitUntil("both jobs", func() bool { return len(c.recordedLines("begins")) == 2 })
	must.Succeed(t, c.cmd.Process.Signal(syscall.SIGTERM))
	c.release("soon")
	must.Equal(t, c.cmd.Wait(), nil, "the jobrunner ended with", &c.stderr)
	must.Equal(t, c.containers(), nil, "containers are left")
	c.start(t)
	c.release("late")
	got := c.awaitEnd(soonID)
	must.Hold(t, got.Status == "COMPLETED" && got.Retries == 0, "the job that was nearly done is", got.Status, "after", got.Retries, "retries")
	got = c.awaitEnd(lateID)
	must.Hold(t, got.Status == "COMPLETED" && got.Retries == 0, "the longer job is", got.Status, "after", got.Retries, "retries")
	begins := c.countTakes()
	must.Hold(t, begins["soon"] == 1 && begins["late"] == 2, "the jobs began so often:", begins)
	c.stopAndExpectNoContainer()
}

// Workers behind a load balancer listen at different ports. Workers without requests are
// killed immediately: an engine would wait for a worker that ignores the stop signal.
func testRealLoadBalancer(t *testing.T, e *containers.Engine) {
	c := startContainerDeployment(t, e, "")
	c.createBalancer()
	c.stopAndExpectNoContainer()
	must.Equal(t, c.recordedLines("terms"), nil, "signals that workers got")
}

// createBalancer creates a load-balancing endpoint with two workers and expects that both answer.
func (c *containerDeployment) createBalancer() {
	c.t.Helper()
	c.createEndpointOf(handlerImage, `"type": "LOAD_BALANCER", "scaling": {"type": "REQUEST_COUNT", "requestCount": 1}, "args": "python3 -u /worker/served.py", "workers": {"min": 2, "max": 2}, "ports": ["8000/http"]`)
	c.awaitBothAnswers()
}

// awaitBothAnswers waits until both workers behind a load balancer have answered.
func (c *containerDeployment) awaitBothAnswers() {
	c.t.Helper()
	answeredWorkers := map[string]bool{}
	c.waitUntil("answers of both workers", func() bool {
		status, body := c.get("/v2/" + c.endpoint + "/some/path")
		worker, path, _ := strings.Cut(body, " ")
		if status != http.StatusOK || path != "/some/path" {
			c.t.Fatalf("a worker answered %d %s\n%s", status, body, c.workerList())
		}
		answeredWorkers[worker] = true
		return len(answeredWorkers) == 2
	})
}

// In a separate network, a worker's ports are published only to this machine.
func testRealPublishedPorts(t *testing.T, e *containers.Engine) {
	if e.Name != "docker" {
		t.Skip("podman needs plugins and iptables for a separate network")
	}
	network := e.Network(t)
	c := startContainerDeployment(t, e, "network: "+network)
	c.createBalancer()
	for _, id := range c.containers() {
		ports := e.Output(t, "port", id)
		t.Log(ports)
		must.Hold(t, strings.Contains(ports, "8000/tcp -> 127.0.0.1:") && strings.Count(ports, " -> 127.0.0.1:") == 2 &&
			strings.Count(ports, "->") == 2, "published ports:", ports)
	}
	c.stopAndExpectNoContainer()
}

// The next ephemeral jobrunner of the same user removes the container of a killed one.
func testRealEphemeralKills(t *testing.T, e *containers.Engine) {
	c := prepareContainers(t, e, e.Path, "")
	c.startEphemeral(t)
	c.createEndpoint("/v2/serverless", `{"name": "contained", "image": "`+handlerImage+`", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}}`)
	c.awaitCompletion(c.submit(`{"name": "one"}`))
	c.kill()
	c.startEphemeral(t)
	c.stopAndExpectNoContainer()
}

//go:build unix

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

type pageWorkers struct {
	Workers []struct{ ID, State, Reason string }
}

func (h *testDeployment) logOf(worker, source string) string {
	h.t.Helper()
	var text string
	h.call(http.MethodGet, "/v2/serverless/"+h.endpoint+"/workers/"+worker+"/logs?source="+source, "", &text)
	return text
}

// A worker's exit status is in its log, the jobrunner's log, its job's error and on the page.
func TestDeathLeavesATrace(t *testing.T) {
	acctest.LeaveToCI(t, "TestReasonHasTheCause covers the reason of a worker that can't start")
	t.Parallel()
	for name, c := range map[string]struct{ statement, exit string }{
		"exit":   {"os._exit(3)", "exit status 3"},
		"signal": {"os.kill(os.getpid(), 11)", "SIGSEGV"},
		"kill":   {"os.kill(os.getpid(), 9)", "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startDeployment(t)
			writeFile(t, filepath.Join(h.dir, "handler.py"), "import os, runpod\ndef handler(job):\n    print('about to die', flush=True)\n    "+c.statement+"\nrunpod.serverless.start({'handler': handler})\n")
			h.createEndpoint("/v2/serverless", `{"name": "dies", "image": "team/handler", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 0, "max": 1}}`)
			id := h.queueJob("x", "")
			jobError := string(h.awaitEnd(id).Error)
			must.Hold(t, strings.Contains(jobError, "timed out after 1 retries: its worker died: "+c.exit) &&
				strings.HasSuffix(jobError, "; the last line of its log: about to die"), "the job's error is", jobError)
			var snapshot pageWorkers
			h.waitUntil("the worker's end on the page", func() bool {
				h.call(http.MethodGet, "/ui/snapshot", "", &snapshot)
				n := 0
				for _, w := range snapshot.Workers {
					if w.State == "DIED" && strings.Contains(w.Reason, "its process ended with "+c.exit) && strings.Contains(w.Reason, "while it ran the job "+id) {
						n++
					}
				}
				return n == 2
			})
			deadWorker := snapshot.Workers[len(snapshot.Workers)-1].ID
			text := h.logOf(deadWorker, "system")
			must.Hold(t, strings.Contains(text, "the process ended with "+c.exit) && !strings.Contains(text, "about to die"), "the system lines of its log are", text)
			text = h.logOf(deadWorker, "container")
			must.Hold(t, !strings.Contains(text, "the process ended") && strings.Contains(text, "about to die"), "its own lines are", text)
			h.interrupt()
			log := h.stderr.String()
			must.Hold(t, strings.Count(log, "a worker died") == 2 && strings.Contains(log, c.exit) && strings.Contains(log, id), "the log is", log)
		})
	}
}

// The reason of a worker that can't start has the cause from its log, even from a traceback in a line of JSON.
func TestReasonHasTheCause(t *testing.T) {
	t.Parallel()
	h := startWithHandler(t, `import json, traceback
def log(level, message):
    print(json.dumps({"requestId": None, "message": message, "level": level}), flush=True)
try:
    def deep(n):
        return deep(n - 1) if n else {}["the cause"]
    deep(40)
except KeyError as err:
    lines = traceback.format_exception(type(err), err, err.__traceback__)
log("ERROR", f"Uncaught exception | {['x' * 3000] + lines}")
for n in range(30):
    log("DEBUG", "JobScaler.status | heartbeat")
raise SystemExit(1)
`)
	var list struct {
		Workers []struct{ Status, Reason string }
	}
	h.waitUntil("a reason", func() bool {
		h.call(http.MethodGet, "/v2/serverless/"+h.endpoint+"/workers", "", &list)
		// The log is added to the reason shortly after the state changes.
		return len(list.Workers) == 1 && list.Workers[0].Status == "UNHEALTHY" && strings.Contains(list.Workers[0].Reason, "its log")
	})
	reason := list.Workers[0].Reason
	must.Hold(t, strings.HasPrefix(reason, "it ended right after its start, with exit status 1. The end of its log:\n") &&
		strings.HasSuffix(reason, "\nKeyError: 'the cause'") && !strings.Contains(reason, "heartbeat") && len(reason) <= 2000, "the reason is", reason)
}

// A result that a worker posted while the database was unavailable survives a kill of the jobrunner.
func TestResultOutlivesOutageAndKill(t *testing.T) {
	acctest.LeaveToCI(t, "jobrunner.TestResultsOnAFullDisk covers the spool")
	t.Parallel()
	server := pgtest.NewServer(t)
	engine := "--engine=" + server.URL
	h := startWithEndpoint(t, `"cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 2, "max": 2}`, engine)
	firstID, secondID := h.queueJob("first", "go"), h.queueJob("second", "go")
	h.waitUntil("two jobs", func() bool { return len(h.recordedLines("begins")) == 2 })
	server.End(syscall.SIGINT)
	h.release("go")
	h.waitUntil("two reports on the disk", func() bool {
		reports, _ := filepath.Glob(filepath.Join(h.home, "data", "reports", "*.report"))
		return len(reports) == 2
	})
	h.kill()
	server.Start()
	h.start(t, engine)
	for _, id := range []string{firstID, secondID} {
		_, _, retries := h.awaitResult(id)
		must.Hold(t, retries == 0, "the job was retried")
	}
	begins := h.recordedLines("begins")
	must.Hold(t, len(begins) == 2, "a job was started again:", begins)
	reports, _ := filepath.Glob(filepath.Join(h.home, "data", "reports", "*"))
	must.Hold(t, len(reports) == 0, "delivered reports are left:", reports)
	h.expectCleanStop(h.interrupt)
}

// A job that kills its jobrunner each time is dispatched only twice.
func TestJobThatKillsItsJobrunner(t *testing.T) {
	acctest.LeaveToCI(t, "TestSurvivesKills kills a jobrunner")
	t.Parallel()
	env := environment(t.TempDir(), "GPUCLOUD_API_KEY=k")
	data := "--data=" + t.TempDir()
	p := serve(t, env, data)
	endpoint := p.createEndpointOfImage("builtin/conformance")
	job := must.Do(p.client("k").Jobs.Run(t.Context(), endpoint, api.Submission{Input: []byte(`{"op":"sleep","ms":600000}`)}))(t)
	var got api.Job
	for kills := range 2 {
		p.waitUntil("the job to run", func() bool {
			got = must.Do(p.client("k").Jobs.Status(t.Context(), endpoint, job.ID))(t)
			return got.Status == "IN_PROGRESS"
		})
		must.Equal(t, got.Retries, kills, "retries, one after each kill")
		p.kill()
		p = serve(t, env, data)
	}
	p.waitUntil("the job to end", func() bool {
		got = must.Do(p.client("k").Jobs.Status(t.Context(), endpoint, job.ID))(t)
		return got.Finished()
	})
	must.Hold(t, got.Status == "FAILED" && strings.Contains(string(got.Error), "the jobrunner that ran it was killed"), "the job is", got)
	p.interrupt()
}

// startWithHandler starts a deployment and creates an endpoint with one worker. text is its handler's source.
func startWithHandler(t *testing.T, text string) *testDeployment {
	t.Helper()
	h := startDeployment(t)
	writeFile(t, filepath.Join(h.dir, "handler.py"), text)
	h.createEndpoint("/v2/serverless", `{"name": "broken", "image": "team/handler", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}}`)
	return h
}

// awaitHealthReason waits until the reason why workers can't start has a text, such as the end of a worker's log.
func (h *testDeployment) awaitHealthReason(text string) (reason string) {
	h.t.Helper()
	h.waitUntil("a reason with "+text, func() bool {
		var health struct{ Reason string }
		h.call(http.MethodGet, "/v2/"+h.endpoint+"/health", "", &health)
		reason = health.Reason
		return strings.Contains(reason, text)
	})
	return reason
}

// While no worker can start, health and a header of waiting jobs have the reason. Bodies don't change.
func TestHealthSaysWhyJobsWait(t *testing.T) {
	t.Parallel()
	h := startWithHandler(t, "import no_such_model\n")
	const want = "it ended right after its start, with exit status 1: ModuleNotFoundError: No module named 'no_such_model'"
	must.Equal(t, h.awaitHealthReason("ModuleNotFoundError"), want, "the reason")
	id := h.queueJob("x", "")
	for path, method := range map[string]string{"/run": http.MethodPost, "/runsync?wait=1000": http.MethodPost, "/status/" + id: http.MethodGet} {
		resp, _ := h.request(method, "/v2/"+h.endpoint+path, `{"input": {}}`)
		must.Hold(t, resp.Header.Get("X-Queue-Reason") == want, path, "the headers are", resp.Header)
	}
	var body string
	h.call(http.MethodGet, "/v2/"+h.endpoint+"/status/"+id, "", &body)
	must.Equal(t, body, `{"id":"`+id+`","status":"IN_QUEUE"}`, "the job")
	writeFile(t, filepath.Join(h.dir, "handler.py"), tracingHandler)
	h.awaitResult(id)
	var health map[string]any
	h.call(http.MethodGet, "/v2/"+h.endpoint+"/health", "", &health)
	_, ok := health["reason"]
	must.Hold(t, !ok, "a worker runs, but health has a reason:", health)
	resp, _ := h.request(http.MethodGet, "/v2/"+h.endpoint+"/status/"+id, "")
	must.Hold(t, resp.Header.Get("X-Queue-Reason") == "", "a completed job has the headers", resp.Header)
}

// The log of serve has requests and results, but no polls of workers.
func TestPollsAreNotLogged(t *testing.T) {
	t.Parallel()
	h := startWithEndpoint(t, `"cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}`)
	id := h.queueJob("x", "")
	h.awaitResult(id)
	h.interrupt()
	log := h.stderr.String()
	for _, path := range []string{"/ping/", "/job-take/", "/job-stop/"} {
		must.Hold(t, !strings.Contains(log, path), "the log has", path, log)
	}
	must.Contain(t, log, "/job-done/", "/run")
}

// shortenedCount returns a 25th of n in a short run, but at least one.
func shortenedCount(n int) int {
	if testing.Short() {
		return max(n/25, 1)
	}
	return n
}

// After a kill -9 at a random moment under load, all acknowledged objects exist, and all jobs complete.
func TestSurvivesKills(t *testing.T) {
	for _, fsync := range []string{"full", "normal"} {
		t.Run(fsync, func(t *testing.T) {
			if fsync == "normal" {
				acctest.LeaveToCI(t, "full tests the same: a kill loses nothing in either mode")
			}
			t.Parallel()
			testKills(t, shortenedCount(50), environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--fsync="+fsync)
		})
	}
}

// Only with --fsync=normal does a jobrunner use a server that may lose acknowledged commits.
func TestServerThatMayLoseCommits(t *testing.T) {
	acctest.LeaveToCI(t, "sqldb.TestAsynchronousCommitIsRejected covers the check")
	t.Parallel()
	engine := "--engine=" + pgtest.Start(t) + "&options=-c%20synchronous_commit%3Doff"
	env := environment(t.TempDir(), "GPUCLOUD_API_KEY=k")
	must.Contain(t, mustFail(t, env, "serve", "--listen=127.0.0.1:0", engine), "synchronous_commit is off", "--fsync=normal")
	serve(t, env, engine, "--fsync=normal").interrupt()
}

// With the state in PostgreSQL, running jobs continue once the death of their jobrunner is noticed.
func TestSurvivesKillsOnPostgres(t *testing.T) {
	acctest.LeaveToCI(t, "TestSurvivesKills tests it on SQLite")
	t.Parallel()
	testKills(t, shortenedCount(3), environment(t.TempDir(), "GPUCLOUD_API_KEY=k", "GPUCLOUD_ENGINE="+pgtest.Start(t)))
}

// testKills kills a jobrunner under load, several times, and expects all acknowledged volumes and jobs after each kill.
func testKills(t *testing.T, kills int, env []string, args ...string) {
	t.Helper()
	args = append(args, "--data="+t.TempDir(), "--limits=off")
	p := serve(t, env, args...)
	endpoint := createQueueEndpoint(t, p.client("k"), "killed", "builtin/conformance", 8)
	volumes, allJobs := map[string]int64{}, map[string]string{}
	for range kills {
		jobs := map[string]string{}
		loadAndKill(t, p, endpoint, volumes, jobs)
		maps.Copy(allJobs, jobs)
		p = serve(t, env, args...)
		c := p.client("k")
		sizes := map[string]int64{}
		for _, v := range must.Do(c.NetworkVolumes.List(t.Context()))(t) {
			sizes[v.ID] = v.Size
		}
		for id, size := range volumes { // it may also have the size that was requested when the jobrunner died
			must.Hold(t, sizes[id] >= size, "volume", id, "was acknowledged with", size, "GB and has", sizes[id])
		}
		for id, output := range jobs {
			awaitOutput(t, c, endpoint, id, output)
		}
	}
	for id, output := range allJobs { // results survive kills, too
		awaitOutput(t, p.client("k"), endpoint, id, output)
	}
	var health struct {
		Jobs struct{ Completed, Failed, InProgress, InQueue int }
	}
	waitUntil(t, "the end of the jobs that were not acknowledged", func() bool {
		p.call(http.MethodGet, "/v2/"+endpoint+"/health", "", &health)
		return health.Jobs.InQueue+health.Jobs.InProgress == 0
	})
	must.Hold(t, health.Jobs.Completed >= len(allJobs) && health.Jobs.Failed == 0, "the health is", health, "after", len(allJobs), "acknowledged jobs")
	t.Logf("%d volumes and %d jobs were acknowledged", len(volumes), len(allJobs))
	p.interrupt()
}

// loadAndKill sends requests from several clients, and kills the jobrunner after a random response.
func loadAndKill(t *testing.T, p *process, endpoint string, volumes map[string]int64, jobs map[string]string) {
	t.Helper()
	var mu sync.Mutex
	remaining := 1 + rand.IntN(150)
	ctx, stop := context.WithCancel(t.Context())
	recordResponse := func(record func()) {
		mu.Lock()
		defer mu.Unlock()
		record()
		if remaining--; remaining == 0 {
			p.kill()
			stop()
		}
	}
	var clients sync.WaitGroup
	for client := range 4 {
		c := p.client("k")
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := fmt.Sprintf("%d-%d", client, n)
				switch client {
				case 0:
					id, err := p.writeVolume(ctx, http.MethodPost, "", `{"name": "`+name+`", "size": 10, "dataCenter": "EU-RO-1"}`)
					if err != nil {
						return
					}
					recordResponse(func() { volumes[id] = 10 })
					if _, err := p.writeVolume(ctx, http.MethodPatch, "/"+id, `{"size": 20}`); err != nil {
						return
					}
					recordResponse(func() { volumes[id] = 20 })
				default:
					// Jobs run for different times, so that at the kill some are in every state.
					output := fmt.Sprintf(`%q`, name)
					input := fmt.Sprintf(`{"op":"sleep","ms":%d,"output":%s}`, rand.IntN(20), output)
					job, err := c.Jobs.Run(ctx, endpoint, api.Submission{Input: []byte(input)})
					if err != nil {
						return
					}
					recordResponse(func() { jobs[job.ID] = output })
				}
			}
		})
	}
	clients.Wait()
	p.kill()
}

// writeVolume creates or changes a network volume, without the API client's retries at a dead jobrunner.
func (p *process) writeVolume(ctx context.Context, method, path, body string) (id string, err error) {
	_, text, err := send(ctx, method, p.url+"/v2/network-volumes"+path, "k", body)
	if err != nil {
		return "", err
	}
	var created struct{ ID string }
	if err := json.Unmarshal([]byte(text), &created); err != nil || created.ID == "" {
		return "", fmt.Errorf("%s %s: %s, %w", method, path, text, err)
	}
	return created.ID, nil
}

// awaitOutput waits until a job completes with the output, after one kill at most, which counts as a retry.
func awaitOutput(t testing.TB, c *api.Client, endpoint, id, output string) {
	t.Helper()
	waitUntil(t, "the end of "+id, func() bool {
		job, err := c.Jobs.Status(t.Context(), endpoint, id)
		must.Require(t, err == nil && (!job.Finished() || job.Status == "COMPLETED" && string(job.Output) == output && job.Retries <= 1), "job", id, "is", job.Status, "with", string(job.Output), "after", job.Retries, "retries", err)
		return job.Finished()
	})
}

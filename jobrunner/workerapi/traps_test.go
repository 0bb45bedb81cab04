//go:build unix

package workerapi_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// These tests run workers with the public SDK or its stand-in, and check what a simple server gets wrong.

// skipIfShort skips a test of ten seconds or more in a short run, which has similar shorter tests.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs for ten seconds and more: see make test-all")
	}
}

// A process that implements only the worker protocol serves an endpoint.
func TestProcessServesAnEndpoint(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	d.expectJob(d.submit(`{"a": 1}`), "COMPLETED", `{"a": 1}`, 0)
	job := d.expectJob(d.submit(`{"op": "raise", "text": "it is Friday"}`), "FAILED", "", 0)
	w := d.nextWorker()
	must.Hold(t, strings.Contains(string(job.Error), "it is Friday") && job.WorkerID == w.id, "the job failed with", job.Error, "on", job.WorkerID)
	d.expectJob(d.submit(`{"op": "env", "name": "RUNPOD_POD_ID"}`), "COMPLETED", `"`+w.id+`"`, 0)
	h := must.Do(d.client.Jobs.Health(t.Context(), d.endpoint.ID))(t)
	must.Hold(t, h.Workers.Idle+h.Workers.Running == 1 && h.Jobs.Completed == 2 && h.Jobs.Failed == 1, "health is", h)
}

func TestLateProgressChangesNothing(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	for _, c := range [][3]string{
		{`{"op": "return", "value": 7}`, "COMPLETED", `7`},
		{`{"op": "return", "value": {"error": "no", "a": 1}}`, "FAILED", `{"a": 1}`},
	} {
		id := d.submit(c[0])
		d.expectJob(id, c[1], c[2], 0)
		d.waitForEnd(d.submit(`{"op": "late progress", "of": "` + id + `"}`))
		progress := d.waitForRequest(t, 1, false, "late progress", func(r request) bool { return strings.HasSuffix(r.path, id) && isProgress(r) })
		must.Equal(t, progress.status, 200, "the status of late progress, about which a worker can do nothing")
		d.expectJob(id, c[1], c[2], 0)
	}
}

// A repeated result, or a result of another worker's job, changes nothing.
func TestStrayResultsChangeNothing(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 2)
	input, release := heldInput(t, `, "a": 1`)
	busy := d.submit(input)
	first := d.nextWorker()
	first.log.Await(t, "began "+busy, 1)
	d.submit(input)
	second := d.nextWorker()
	for _, body := range []string{`{"output": "stray"}`, `{"error": "stray"}`, `{"status": "IN_PROGRESS", "output": "stray"}`, `{"output": NaN}`} {
		want := 200
		if strings.Contains(body, "NaN") {
			want = 400
		}
		must.Equal(t, d.postResult(second, busy, body), want, "the status of a post about another's job:", body)
		job := d.getJob(busy)
		must.Hold(t, job.Status == "IN_PROGRESS" && job.Output == nil, body, "of another's job made it", job.Status, string(job.Output))
	}
	release()
	d.expectJob(busy, "COMPLETED", input, 0)
	for _, w := range []*startedWorker{first, second} {
		must.Equal(t, d.postResult(w, busy, `{"error": "twice"}`), 200, "the status of a repeated result")
	}
	must.Equal(t, d.postResult(first, "unknown", `{"output": 1}`), 200, "the status of a result of an unknown job")
	d.expectJob(busy, "COMPLETED", input, 0)
}

// Cancelling a job frees its slot. A worker survives if the handler stops, and is killed if it blocks.
func TestCancelFreesTheSlot(t *testing.T) {
	for handler, workerSurvives := range map[string]bool{"awaiting": true, "blocking": false} {
		t.Run(handler, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, handler, 1)
			id := d.submit(`{"op": "sleep", "seconds": 600}`)
			w := d.nextWorker()
			w.log.Await(t, "began "+id, 1)
			workerSurvives := workerSurvives && d.hasRelease(t, 1, 10) // earlier releases have no job-stop
			job, err := d.client.Jobs.Cancel(t.Context(), d.endpoint.ID, id)
			must.Require(t, err == nil && job.Status == "CANCELLED", "cancel answered", job, err)
			must.Equal(t, d.expectJob(d.submit(`{}`), "COMPLETED", "", 0).WorkerID == w.id, workerSurvives, "whether the worker survived the cancel")
			if !workerSurvives {
				d.waitForExit(w)
				d.expectSilence(w, d.nextWorker())
			}
			d.expectJob(id, "CANCELLED", "", 0)
		})
	}
}

// A ping without a job doesn't mean that a cancelled job has stopped: it may precede the job.
func TestPingWithoutJobsDoesNotFreeTheSlot(t *testing.T) {
	t.Parallel()
	d := deploy(t, "blocking", 1)
	id := d.submit(`{"op": "sleep", "seconds": 600}`)
	w := d.nextWorker()
	w.log.Await(t, "began "+id, 1)
	d.requireRelease(t, 1, 10) // the first release with job-stop
	must.Do(d.client.Jobs.Cancel(t.Context(), d.endpoint.ID, id))(t)
	d.waitForAnswered(t, 1, "job-stop", "")
	status := d.sendAs(w, http.MethodGet, "ping/"+w.id, "")
	must.Require(t, status == 200, "a ping was answered", status)
	job := d.expectJob(d.submit(`{}`), "COMPLETED", "", 0)
	must.Hold(t, job.WorkerID != w.id, "a worker whose handler blocks took a job")
}

func TestTimeOutFreesTheSlot(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	d := deploy(t, "blocking", 1)
	id := d.submit(`{"op": "sleep", "seconds": 600}`, api.JobPolicy{ExecutionTimeout: new(int64(5000))})
	w := d.nextWorker()
	d.expectJob(id, "TIMED_OUT", "", 0)
	job := d.expectJob(d.submit(`{}`), "COMPLETED", "", 0)
	must.Hold(t, job.WorkerID != w.id, "a worker whose handler blocks took a job")
	d.waitForExit(w)
	d.expectSilence(w, d.nextWorker())
}

// A crashed worker loses its job at once, despite its ping process, and the job is dispatched again.
func TestCrashLosesTheJob(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	input, release := heldInput(t, `, "then": "crash"`)
	id := d.submit(input)
	first := d.nextWorker()
	d.waitForAnswered(t, 1, "ping/"+first.id, id)
	release()
	d.waitForExit(first)
	second := d.nextWorker()
	must.Contain(t, string(d.expectJob(id, "FAILED", "", 1).Error), "timed out after 1 retries: its worker died: exit status 3")
	h := must.Do(d.client.Jobs.Health(t.Context(), d.endpoint.ID))(t)
	must.Hold(t, h.Jobs.Retried == 1 && h.Jobs.Failed == 1, "health is", h)
	d.expectJob(d.submit(`{}`), "COMPLETED", "", 0)
	third := d.nextWorker()
	d.expectSilence(first, third)
	d.expectSilence(second, third)
}

func TestKilledWorkerLosesTheJob(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	input, release := heldInput(t, "")
	id := d.submit(input)
	first := d.nextWorker()
	d.waitForAnswered(t, 1, "ping/"+first.id, id)
	killed := time.Now()
	must.Succeed(t, syscall.Kill(first.cmd.Process.Pid, syscall.SIGKILL))
	second := d.nextWorker()
	redispatchDelay := d.waitForAnswered(t, 1, "job-take/"+second.id, "").answeredAt.Sub(killed)
	d.expectSilence(first, second)
	release()
	job := d.expectJob(id, "COMPLETED", input, 1)
	must.Hold(t, job.WorkerID == second.id && time.Duration(job.DelayTime)*time.Millisecond <= redispatchDelay,
		"the job ran on", job.WorkerID, "after a delay in ms of", job.DelayTime, "although it was dispatched again after", redispatchDelay)
}

// A worker that restarts under its id has lost its job, although its old ping process still reports the job.
func TestRestartedWorkerLosesTheJob(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	id := d.submit(`{"op": "restart"}`)
	d.requireRelease(t, 1, 10) // earlier releases find the lost job in their folder, and take no other
	d.expectJob(id, "COMPLETED", `"restarted"`, 1)
}

// Pings that name jobs of other workers don't affect the worker's own job.
func TestPingOfOthersLosesNoJob(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	input, release := heldInput(t, "")
	id := d.submit(input)
	w := d.nextWorker()
	d.waitForAnswered(t, 1, "ping/"+w.id, id)
	for _, morePings := range []int{6, 0} { // 6 pings outlast the grace period
		status := d.sendAs(w, http.MethodGet, "ping/"+w.id+"?job_id=another-q1&", "")
		must.Require(t, status == 200, "a ping was answered", status)
		d.waitForAnswered(t, len(d.answeredRequests("ping/"+w.id, id))+morePings, "ping/"+w.id, id)
	}
	release()
	d.expectJob(id, "COMPLETED", input, 0)
}

// An idle worker isn't sent SIGTERM, after which it could take a job and not run it. Its polls end, then it is killed.
func TestIdleWorkerEnds(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	d.expectJob(d.submit(`{}`), "COMPLETED", "", 0)
	w := d.nextWorker()
	polls := len(d.answeredRequests("job-take", ""))
	d.waitForReceived(t, polls+1, "job-take", "")
	want := d.endpoint
	want.Workers.IdleTimeout = new(int64(1))
	d.update(want)
	poll := d.waitForAnswered(t, polls+1, "job-take", "")
	must.Hold(t, poll.status == 204 && poll.answeredAt.Sub(poll.receivedAt) <= 30*time.Second, "the open poll was answered", poll)
	must.Hold(t, d.waitForExit(w), "the worker ended by itself:", w.Exit().Text)
	must.Hold(t, !strings.Contains(w.log.String(), "eceived shutdown signal"), "the worker was sent a signal")
	for range 5 {
		d.expectJob(d.submit(`{}`), "COMPLETED", "", 0)
	}
}

// After a change of the endpoint, the old worker finishes its job.
func TestReplacedWorkerEndsItsJob(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	input, release := heldInput(t, "")
	id := d.submit(input)
	old := d.nextWorker()
	old.log.Await(t, "began "+id, 1)
	want := d.endpoint
	want.Container = &api.Container{Image: d.endpoint.Container.Image, Env: map[string]string{"COLOUR": "green"}}
	d.update(want)
	next := d.submit(`{"op": "env", "name": "COLOUR"}`)
	release()
	must.Equal(t, d.expectJob(id, "COMPLETED", input, 0).WorkerID, old.id, "the worker of the job")
	d.expectJob(next, "COMPLETED", `"green"`, 0)
	must.Hold(t, d.waitForExit(old), "the worker ended by itself:", old.Exit().Text)
}

// A worker with one slot is healthy, although it doesn't poll while it is busy and for a second afterwards.
func TestBusyWorkerIsLeftAlone(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	first, second := d.submit(`{"op": "sleep", "seconds": 4}`), d.submit(`{}`)
	w := d.nextWorker()
	for _, id := range []string{first, second} {
		job := d.waitForEnd(id)
		must.Hold(t, job.Status == "COMPLETED" && job.WorkerID == w.id && job.Retries == 0, "the job is", job.Status, "on", job.WorkerID, "after", job.Retries, "retries")
	}
}

func TestWorkerIsReplacedAfterItsJob(t *testing.T) {
	t.Parallel()
	d := deploy(t, "fresh for each", 1)
	d.expectJob(d.submit(`{"a": 1}`), "COMPLETED", `{"a": 1}`, 0)
	first := d.nextWorker()
	job := d.expectJob(d.submit(`{"a": 2}`), "COMPLETED", `{"a": 2}`, 0)
	must.Hold(t, job.WorkerID != first.id, "the job ran on the same worker")
	d.waitForExit(first)
}

// The slots of one worker run several jobs at once; cancelling one job does not affect the others.
func TestSlotsOfAWorker(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	d := deploy(t, "two at a time", 1)
	running, cancelled := d.submit(`{"op": "sleep", "seconds": 9}`), d.submit(`{"op": "sleep", "seconds": 600}`)
	w := d.nextWorker()
	w.log.Await(t, "began "+running, 1)
	w.log.Await(t, "began "+cancelled, 1)
	d.requireRelease(t, 1, 10) // the first release with job-stop
	must.Do(d.client.Jobs.Cancel(t.Context(), d.endpoint.ID, cancelled))(t)
	must.Equal(t, d.expectJob(running, "COMPLETED", `{"op": "sleep", "seconds": 9}`, 0).WorkerID, w.id, "the worker of the job that wasn't cancelled")
	d.expectJob(d.submit(`{"a": 1}`), "COMPLETED", `{"a": 1}`, 0)
	d.expectJob(cancelled, "CANCELLED", "", 0)
}

// A worker that loses a result and keeps reporting the job serves others until the time-out ends the job and the worker.
func TestTimeOutEndsALostResult(t *testing.T) {
	skipIfShort(t)
	requireStandIn(t)
	t.Parallel()
	d := deploy(t, "streaming@1.3.7", 1)
	lost := d.submit(`{"chunks": [1], "op": "raise", "text": "it is Friday"}`, api.JobPolicy{ExecutionTimeout: new(int64(10_000))})
	w := d.nextWorker()
	must.Equal(t, d.expectJob(d.submit(`{"chunks": [1]}`), "COMPLETED", `[]`, 0).WorkerID, w.id, "the worker of the next job")
	must.Equal(t, d.getJob(lost).Status, "IN_PROGRESS", "the lost job")
	d.expectJob(lost, "TIMED_OUT", "", 0)
	d.waitForExit(w)
	job := d.expectJob(d.submit(`{"chunks": [1]}`), "COMPLETED", `[]`, 0)
	must.Hold(t, job.WorkerID != w.id, "a worker that was killed took a job")
	d.expectSilence(w, d.nextWorker())
}

// The endpoint's health shows a worker that reports itself unhealthy (releases from 1.10; 1.9 just exits).
func TestUnfitWorkerIsUnhealthy(t *testing.T) {
	t.Parallel()
	d := deploy(t, "unfit", 1)
	id := d.submit(`{}`)
	ticker := time.NewTicker(50 * time.Millisecond) // nothing notifies of a change of health
	defer ticker.Stop()
	for deadline := time.Now().Add(waitTimeout); ; <-ticker.C {
		h, err := d.client.Jobs.Health(t.Context(), d.endpoint.ID)
		must.Require(t, err == nil && !time.Now().After(deadline), "health is", h, err)
		if h.Jobs.Completed > 0 {
			t.Skip("the release of the SDK has no checks of fitness")
		}
		if h.Workers.Unhealthy == 1 {
			must.Equal(t, h.Workers.Idle+h.Workers.Running+h.Workers.Ready, 0, "the number of working workers in", h)
			break
		}
	}
	must.Equal(t, d.getJob(id).Status, "IN_QUEUE", "the state of the job")
}

// A worker with many slots runs all its jobs, and is not told to stop any.
func TestManySlots(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	d := deploy(t, "fifty at a time", 1)
	d.submit(`{}`)
	d.requireRelease(t, 1, 7, 1) // earlier releases request one job at a time, once a second
	var ids []string
	for range 300 {
		ids = append(ids, d.submit(`{"op": "return", "value": 7}`))
	}
	for _, id := range ids {
		d.expectJob(id, "COMPLETED", `7`, 0)
	}
	for _, r := range d.answeredRequests("job-stop", "") {
		must.Hold(t, r.status != 200, "the worker was told to stop a job", r)
	}
	log := d.nextWorker().log.String()
	must.Hold(t, !strings.Contains(log, "Job stopped"), "the worker stopped a job", log)
}

// A worker gets an input of a megabyte with any HTTP client.
func TestLargeJobReachesAWorker(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	d.expectJob(d.submit(`{"op": "length", "text": "`+strings.Repeat("x", 1<<20)+`"}`), "COMPLETED", `1048576`, 0)
}

// The chunks of a streamed output and its end reach the client.
func TestProcessStreams(t *testing.T) {
	t.Parallel()
	d := deploy(t, "streaming", 1)
	id := d.submit(`{"chunks": ["a", {"b": 1}]}`)
	d.expectJob(id, "COMPLETED", `[]`, 0)
	status, text := d.send("Bearer planted-key", http.MethodGet, "/v2/"+d.endpoint.ID+"/stream/"+id, "")
	must.Hold(t, status == 200 && text == `[{"output":"a"},{"output":{"b": 1}}]`, "the stream is", status, text)
}

//go:build unix

package workerapi_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// long skips a test of ten seconds and more in a short run, where others of its
// kind remain.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs for ten seconds and more: see make test-all")
	}
}

// A process that knows the worker protocol and nothing else serves an endpoint.
func TestProcessServesAnEndpoint(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	d.wants(d.submit(`{"a": 1}`), "COMPLETED", `{"a": 1}`, 0)
	job := d.wants(d.submit(`{"op": "raise", "text": "it is Friday"}`), "FAILED", "", 0)
	w := d.next()
	if !strings.Contains(job.Error, "it is Friday") || job.WorkerID != w.id {
		t.Errorf("the job failed with %q on %s", job.Error, job.WorkerID)
	}
	d.wants(d.submit(`{"op": "env", "name": "RUNPOD_POD_ID"}`), "COMPLETED", `"`+w.id+`"`, 0)
	if h, err := d.client.Jobs.Health(t.Context(), d.endpoint.ID); err != nil || h.Workers.Idle+h.Workers.Running != 1 || h.Jobs.Completed != 2 || h.Jobs.Failed != 1 {
		t.Errorf("health is %+v, %v", h, err)
	}
}

// Trap 1: progress that is told after the result changes nothing.
func TestLateProgressChangesNothing(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	for _, c := range [][3]string{
		{`{"op": "return", "value": 7}`, "COMPLETED", `7`},
		{`{"op": "return", "value": {"error": "no", "a": 1}}`, "FAILED", `{"a": 1}`},
	} {
		id := d.submit(c[0])
		d.wants(id, c[1], c[2], 0)
		d.ends(d.submit(`{"op": "late progress", "of": "` + id + `"}`))
		late := d.await(t, 1, false, "late progress", func(r request) bool { return strings.HasSuffix(r.path, id) && isProgress(r) })
		if late.status != 200 {
			t.Errorf("late progress was answered %d: a worker can do nothing about it", late.status)
		}
		d.wants(id, c[1], c[2], 0)
	}
}

// Results that come twice, or of another worker's job, change nothing.
func TestStrayResultsChangeNothing(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 2)
	input, release := hold(t, `, "a": 1`)
	busy := d.submit(input)
	first := d.next()
	first.log.await(t, "began "+busy)
	d.submit(input)
	second := d.next()
	for _, body := range []string{`{"output": "stray"}`, `{"error": "stray"}`, `{"status": "IN_PROGRESS", "output": "stray"}`, `{"output": NaN}`} {
		want := 200
		if strings.Contains(body, "NaN") {
			want = 400
		}
		if status := d.posts(second, busy, body); status != want {
			t.Errorf("%s of another's job was answered %d", body, status)
		}
		if job := d.status(busy); job.Status != "IN_PROGRESS" || job.Output != nil {
			t.Errorf("%s of another's job made it %s with %s", body, job.Status, job.Output)
		}
	}
	release()
	d.wants(busy, "COMPLETED", input, 0)
	for _, w := range []*started{first, second} {
		if status := d.posts(w, busy, `{"error": "twice"}`); status != 200 {
			t.Errorf("a result that came twice was answered %d", status)
		}
	}
	if status := d.posts(first, "nobody-knows-it", `{"output": 1}`); status != 200 {
		t.Errorf("a result of no job was answered %d", status)
	}
	d.wants(busy, "COMPLETED", input, 0)
}

// Trap 2: cancel frees the slot. A handler that stops keeps its worker; one that
// blocks is killed with it, after a grace.
func TestCancelFreesTheSlot(t *testing.T) {
	for handler, survives := range map[string]bool{"awaiting": true, "blocking": false} {
		t.Run(handler, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, handler, 1)
			id := d.submit(`{"op": "sleep", "seconds": 600}`)
			w := d.next()
			w.log.await(t, "began "+id)
			survives := survives && d.since(t, 1, 10) // before, no release is told to stop
			if job, err := d.client.Jobs.Cancel(t.Context(), d.endpoint.ID, id); err != nil || job.Status != "CANCELLED" {
				t.Fatalf("cancel answered %+v, %v", job, err)
			}
			job := d.wants(d.submit(`{}`), "COMPLETED", "", 0)
			if survived := job.WorkerID == w.id; survived != survives {
				t.Errorf("the worker lives on: %t", survived)
			}
			if !survives {
				d.gone(w)
				d.silent(w, d.next())
			}
			d.wants(id, "CANCELLED", "", 0)
		})
	}
}

// Trap 2: a ping that was on its way when the worker was given a job is no sign
// that the job has stopped.
func TestPingOfBeforeTheJobIsNoSign(t *testing.T) {
	t.Parallel()
	d := deploy(t, "blocking", 1)
	id := d.submit(`{"op": "sleep", "seconds": 600}`)
	w := d.next()
	w.log.await(t, "began "+id)
	d.needs(t, 1, 10) // that a release asks what to stop
	if _, err := d.client.Jobs.Cancel(t.Context(), d.endpoint.ID, id); err != nil {
		t.Fatal(err)
	}
	d.asked(t, 1, "job-stop", "")
	if status := d.as(w, http.MethodGet, "ping/"+w.id, ""); status != 200 {
		t.Fatalf("a ping was answered %d", status)
	}
	if job := d.wants(d.submit(`{}`), "COMPLETED", "", 0); job.WorkerID == w.id {
		t.Error("a worker whose handler blocks took a job")
	}
}

// Trap 2: so does the execution time-out.
func TestTimeOutFreesTheSlot(t *testing.T) {
	long(t)
	t.Parallel()
	d := deploy(t, "blocking", 1)
	id := d.submit(`{"op": "sleep", "seconds": 600}`, api.JobPolicy{ExecutionTimeout: new(int64(5000))})
	w := d.next()
	d.wants(id, "TIMED_OUT", "", 0)
	if job := d.wants(d.submit(`{}`), "COMPLETED", "", 0); job.WorkerID == w.id {
		t.Error("a worker whose handler blocks took a job")
	}
	d.gone(w)
	d.silent(w, d.next())
}

// Trap 3: a worker that crashes loses its job at once, although a process of its
// own goes on to say that it runs; the job is dispatched once more.
func TestCrashLosesTheJob(t *testing.T) {
	long(t)
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	input, release := hold(t, `, "then": "crash"`)
	id := d.submit(input)
	first := d.next()
	d.asked(t, 1, "ping/"+first.id, id)
	release()
	d.gone(first)
	second := d.next()
	job := d.wants(id, "FAILED", "", 1)
	if !strings.Contains(job.Error, "timed out after 1 retries: its worker died with exit status 3") {
		t.Errorf("a job that was lost twice failed with %q", job.Error)
	}
	if h, err := d.client.Jobs.Health(t.Context(), d.endpoint.ID); err != nil || h.Jobs.Retried != 1 || h.Jobs.Failed != 1 {
		t.Errorf("health is %+v, %v", h, err)
	}
	d.wants(d.submit(`{}`), "COMPLETED", "", 0)
	third := d.next()
	d.silent(first, third)
	d.silent(second, third)
}

// Trap 3: so does one that somebody kills.
func TestKilledWorkerLosesTheJob(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	input, release := hold(t, "")
	id := d.submit(input)
	first := d.next()
	d.asked(t, 1, "ping/"+first.id, id)
	killed := time.Now()
	if err := syscall.Kill(first.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := d.next()
	again := d.asked(t, 1, "job-take/"+second.id, "").answered.Sub(killed)
	d.silent(first, second)
	release()
	if job := d.wants(id, "COMPLETED", input, 1); job.WorkerID != second.id || time.Duration(job.DelayTime)*time.Millisecond > again {
		t.Errorf("the job ran on %s after a delay of %d ms, when it was handed out again after %s", job.WorkerID, job.DelayTime, again)
	}
}

// Trap 3: a worker that begins anew under its id has lost its job, whatever the
// process that pings since before says.
func TestRestartedWorkerLosesTheJob(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	id := d.submit(`{"op": "restart"}`)
	d.needs(t, 1, 10) // before, a release finds the lost job in its folder, and takes no other
	d.wants(id, "COMPLETED", `"restarted"`, 1)
}

// Trap 3: a ping that names what other workers run says of the worker's own job
// nothing, however often it comes.
func TestPingOfOthersLosesNoJob(t *testing.T) {
	long(t)
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	input, release := hold(t, "")
	id := d.submit(input)
	w := d.next()
	d.asked(t, 1, "ping/"+w.id, id)
	for _, seconds := range []int{6, 0} { // longer than the grace
		if status := d.as(w, http.MethodGet, "ping/"+w.id+"?job_id=another-q1&", ""); status != 200 {
			t.Fatalf("a ping was answered %d", status)
		}
		d.asked(t, len(d.all("ping/"+w.id, id))+seconds, "ping/"+w.id, id)
	}
	release()
	d.wants(id, "COMPLETED", input, 0)
}

// Trap 4: a worker that has nothing to do is sent no signal that it could
// misread: its polls end, and then it is killed. No job is swallowed.
func TestIdleWorkerEnds(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	d.wants(d.submit(`{}`), "COMPLETED", "", 0)
	w := d.next()
	polls := len(d.all("job-take", ""))
	d.asks(t, polls+1, "job-take", "")
	d.idle(1)
	if last := d.asked(t, polls+1, "job-take", ""); last.status != 204 || last.answered.Sub(last.at) > 30*time.Second {
		t.Errorf("the open poll was answered %s", last)
	}
	if !d.gone(w) {
		t.Errorf("the worker ended by itself: %s", w.Exit())
	}
	if strings.Contains(w.log.String(), "eceived shutdown signal") {
		t.Error("it was sent a signal")
	}
	for range 5 {
		d.wants(d.submit(`{}`), "COMPLETED", "", 0)
	}
}

// Trap 4: a change of the endpoint lets a worker end its job.
func TestReplacedWorkerEndsItsJob(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	input, release := hold(t, "")
	id := d.submit(input)
	old := d.next()
	old.log.await(t, "began "+id)
	want := d.endpoint
	want.Container = &api.Container{Image: d.endpoint.Container.Image, Env: map[string]string{"COLOUR": "green"}}
	d.update(want)
	after := d.submit(`{"op": "env", "name": "COLOUR"}`)
	release()
	if job := d.wants(id, "COMPLETED", input, 0); job.WorkerID != old.id {
		t.Errorf("the job ran on %s", job.WorkerID)
	}
	d.wants(after, "COMPLETED", `"green"`, 0)
	if !d.gone(old) {
		t.Errorf("the worker ended by itself: %s", old.Exit())
	}
}

// Trap 5: a worker with one slot that does not ask while it is busy, nor for a
// second after, is as healthy as any.
func TestBusyWorkerIsLeftAlone(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	first, second := d.submit(`{"op": "sleep", "seconds": 4}`), d.submit(`{}`)
	w := d.next()
	for _, id := range []string{first, second} {
		if job := d.ends(id); job.Status != "COMPLETED" || job.WorkerID != w.id || job.Retries != 0 {
			t.Errorf("the job is %s on %s after %d retries", job.Status, job.WorkerID, job.Retries)
		}
	}
}

// A worker that asks for it is replaced after its job.
func TestWorkerIsReplacedAfterItsJob(t *testing.T) {
	t.Parallel()
	d := deploy(t, "fresh for each", 1)
	d.wants(d.submit(`{"a": 1}`), "COMPLETED", `{"a": 1}`, 0)
	first := d.next()
	if job := d.wants(d.submit(`{"a": 2}`), "COMPLETED", `{"a": 2}`, 0); job.WorkerID == first.id {
		t.Error("the job ran on the same worker")
	}
	d.gone(first)
}

// Several slots of one worker serve several jobs at once; one of them that is
// cancelled leaves the others.
func TestSlotsOfAWorker(t *testing.T) {
	long(t)
	t.Parallel()
	d := deploy(t, "two at a time", 1)
	stays, goes := d.submit(`{"op": "sleep", "seconds": 9}`), d.submit(`{"op": "sleep", "seconds": 600}`)
	w := d.next()
	w.log.await(t, "began "+stays)
	w.log.await(t, "began "+goes)
	d.needs(t, 1, 10) // that a release asks what to stop
	if _, err := d.client.Jobs.Cancel(t.Context(), d.endpoint.ID, goes); err != nil {
		t.Fatal(err)
	}
	if job := d.wants(stays, "COMPLETED", `{"op": "sleep", "seconds": 9}`, 0); job.WorkerID != w.id {
		t.Errorf("the job that stays ran on %s", job.WorkerID)
	}
	d.wants(d.submit(`{"a": 1}`), "COMPLETED", `{"a": 1}`, 0)
	d.wants(goes, "CANCELLED", "", 0)
}

// A worker that loses a result, and names the job for ever as one that it runs,
// goes on with other jobs; the time-out ends the lost one, and the worker.
func TestTimeOutEndsALostResult(t *testing.T) {
	long(t)
	onStandIn(t)
	t.Parallel()
	d := deploy(t, "streaming@1.3.7", 1)
	lost := d.submit(`{"chunks": [1], "op": "raise", "text": "it is Friday"}`, api.JobPolicy{ExecutionTimeout: new(int64(10_000))})
	w := d.next()
	if job := d.wants(d.submit(`{"chunks": [1]}`), "COMPLETED", `[]`, 0); job.WorkerID != w.id {
		t.Errorf("the next job ran on %s", job.WorkerID)
	}
	if job := d.status(lost); job.Status != "IN_PROGRESS" {
		t.Errorf("the lost job is %s", job.Status)
	}
	d.wants(lost, "TIMED_OUT", "", 0)
	d.gone(w)
	if job := d.wants(d.submit(`{"chunks": [1]}`), "COMPLETED", `[]`, 0); job.WorkerID == w.id {
		t.Error("a worker that was killed took a job")
	}
	d.silent(w, d.next())
}

// A worker that finds itself unfit makes the endpoint's health say so: since 1.10
// a release tells of it, 1.9 just ends.
func TestUnfitWorkerIsUnhealthy(t *testing.T) {
	t.Parallel()
	d := deploy(t, "unfit", 1)
	id := d.submit(`{}`)
	ticker := time.NewTicker(50 * time.Millisecond) // of real processes, which tell nobody
	defer ticker.Stop()
	for late := time.Now().Add(patience); ; <-ticker.C {
		h, err := d.client.Jobs.Health(t.Context(), d.endpoint.ID)
		if err != nil || time.Now().After(late) {
			t.Fatalf("health is %+v, %v", h, err)
		}
		if h.Jobs.Completed > 0 {
			t.Skip("the release of the SDK has no checks of fitness")
		}
		if h.Workers.Unhealthy == 1 {
			if h.Workers.Idle+h.Workers.Running+h.Workers.Ready != 0 {
				t.Errorf("health is %+v", h)
			}
			break
		}
	}
	if job := d.status(id); job.Status != "IN_QUEUE" {
		t.Errorf("the job is %s", job.Status)
	}
}

// A worker with many slots does all its jobs, and hears of none that it is to
// stop.
func TestManySlots(t *testing.T) {
	long(t)
	t.Parallel()
	d := deploy(t, "fifty at a time", 1)
	d.submit(`{}`)
	d.needs(t, 1, 7, 1) // before, a release asks for one job at a time, once a second
	var ids []string
	for range 300 {
		ids = append(ids, d.submit(`{"op": "return", "value": 7}`))
	}
	for _, id := range ids {
		d.wants(id, "COMPLETED", `7`, 0)
	}
	for _, r := range d.all("job-stop", "") {
		if r.status == 200 {
			t.Errorf("the worker was told to stop a job: %s", r)
		}
	}
	if log := d.next().log.String(); strings.Contains(log, "Job stopped") {
		t.Errorf("the worker stopped a job:\n%s", log)
	}
}

// An input of a megabyte reaches a worker, whatever its HTTP client.
func TestLargeJobReachesAWorker(t *testing.T) {
	t.Parallel()
	d := deploy(t, "awaiting", 1)
	d.wants(d.submit(`{"op": "length", "text": "`+strings.Repeat("x", 1<<20)+`"}`), "COMPLETED", `1048576`, 0)
}

// The parts of a streamed output reach the client, and its end.
func TestProcessStreams(t *testing.T) {
	t.Parallel()
	d := deploy(t, "streaming", 1)
	id := d.submit(`{"chunks": ["a", {"b": 1}]}`)
	d.wants(id, "COMPLETED", `[]`, 0)
	if status, text := d.get("/stream/" + id); status != 200 || text != `[{"output":"a"},{"output":{"b": 1}}]` {
		t.Errorf("the stream is %d %s", status, text)
	}
}

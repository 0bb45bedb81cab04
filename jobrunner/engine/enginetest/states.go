package enginetest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

var idForm = regexp.MustCompile(`^(sync-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9a-z]+$`)

func testSuccess(tt *testing.T, env *Env) {
	t := with(tt, env)
	id := t.submit(engine.NewJob{})
	if !idForm.MatchString(id) || strings.HasPrefix(id, "sync-") {
		t.Errorf("id %q", id)
	}
	if id := t.submit(engine.NewJob{Endpoint: "other", Sync: true}); !idForm.MatchString(id) || !strings.HasPrefix(id, "sync-") {
		t.Errorf("id %q of a synchronous job", id)
	}
	if job := t.is(id, engine.InQueue); job.Worker != "" || job.Delay != 0 || job.Output != nil {
		t.Errorf("in the queue: %+v", job)
	}
	t.Advance(1234 * time.Millisecond)
	job := t.take(engine.Take{Worker: "w1"})
	if job.ID != id || job.Worker != "w1" || job.Attempt != 1 || job.Delay != 1234*time.Millisecond || string(job.Input) != "{}" || job.Rest != nil {
		t.Errorf("taken: %+v", job)
	}
	t.takeNone()
	if job := t.is(id, engine.InProgress); job.Worker != "w1" || job.Delay != 1234*time.Millisecond || job.Execution != 0 {
		t.Errorf("in progress: %+v", job)
	}
	t.report(job.Ref, engine.Progress([]byte(`"half"`)), engine.Accepted)
	if job := t.is(id, engine.InProgress); string(job.Output) != `"half"` {
		t.Errorf("progress is %s", job.Output)
	}
	t.Advance(5678 * time.Millisecond)
	t.report(job.Ref, engine.Done([]byte(`"whole"`)), engine.Accepted)
	for range 2 { // reading changes nothing
		done := t.is(id, engine.Completed)
		if done.Worker != "w1" || done.Delay != 1234*time.Millisecond || done.Execution != 5678*time.Millisecond || string(done.Output) != `"whole"` || done.Retries != 0 || done.Error != "" {
			t.Errorf("completed: %+v", done)
		}
		t.Advance(time.Second)
	}
	if job, err := t.Get(t.ctx, "other", id); err == nil {
		t.Errorf("another endpoint shows %+v", job)
	}

	id = t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("no luck", []byte(`1`)), engine.Accepted)
	if job := t.is(id, engine.Failed); job.Error != "no luck" || string(job.Output) != "1" {
		t.Errorf("failed: %+v", job)
	}

	// A result without output, even after progress.
	id = t.submit(engine.NewJob{})
	job = t.take(engine.Take{})
	t.report(job.Ref, engine.Progress([]byte(`"half"`)), engine.Accepted)
	t.report(job.Ref, engine.Done(nil), engine.Accepted)
	if job := t.is(id, engine.Completed); job.Output != nil {
		t.Errorf("output %s of a job without a result", job.Output)
	}
}

func testOrder(tt *testing.T, env *Env) {
	t := with(tt, env)
	var ids []string
	for i := range 20 { // some in the same millisecond
		ids = append(ids, t.submit(engine.NewJob{Low: i%3 == 0}))
		if i%5 == 0 {
			t.Advance(time.Millisecond)
		}
	}
	other := t.submit(engine.NewJob{Endpoint: "other"})
	jobs, err := t.Take(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 15})
	if err != nil || len(jobs) != 15 {
		t.Fatalf("took %d, %v", len(jobs), err)
	}
	for i, job := range jobs {
		if job.ID != ids[i] || job.Low != (i%3 == 0) {
			t.Errorf("job %d was taken out of order", i)
		}
	}
	if jobs, err = t.Take(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 15}); err != nil || len(jobs) != 5 {
		t.Errorf("took %d, %v; want the last 5", len(jobs), err)
	}
	if job := t.take(engine.Take{Endpoint: "other"}); job.ID != other {
		t.Errorf("the other endpoint returned %s", job.ID)
	}
}

func testBytes(tt *testing.T, env *Env) {
	t := with(tt, env)
	input := []byte("{ \"a\" :\t1.0e7,\n\"ü\":\"\\u00fc\", \"a\": 12345678901234567890 }")
	rest := []byte(`{ "s3Config" : {"accessId":"x"} }`)
	id := t.submit(engine.NewJob{Input: input, Rest: rest})
	job := t.take(engine.Take{})
	if string(job.Input) != string(input) || string(job.Rest) != string(rest) {
		t.Errorf("taken: %s %s", job.Input, job.Rest)
	}
	t.report(job.Ref, engine.Done(input), engine.Accepted)
	if got := t.get(id); string(got.Output) != string(input) {
		t.Errorf("output: %s", got.Output)
	}
	large := []byte(`"` + strings.Repeat("x", 20<<20) + `"`)
	id = t.submit(engine.NewJob{Input: large})
	job = t.take(engine.Take{})
	t.report(job.Ref, engine.Done(job.Input), engine.Accepted)
	if got := t.get(id); string(got.Output) != string(large) {
		t.Errorf("20 MB came back as %d bytes", len(got.Output))
	}
	// Several at a time, around the size at which each is read separately.
	inputs := map[string]string{}
	for _, n := range []int{2, 65_536, 65_537, 65_535, 100_000} {
		input := fmt.Sprintf("%*d", n, n)
		inputs[t.submit(engine.NewJob{Input: []byte(input)})] = input
	}
	jobs, err := t.Take(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 9})
	if err != nil || len(jobs) != len(inputs) {
		t.Fatal(len(jobs), err)
	}
	for _, job := range jobs {
		if string(job.Input) != inputs[job.ID] {
			t.Errorf("%d bytes came as %d", len(inputs[job.ID]), len(job.Input))
		}
	}
}

func testCancel(tt *testing.T, env *Env) {
	t := with(tt, env)
	cancel := func(id string, want engine.State) engine.Job {
		t.Helper()
		job, err := t.Cancel(t.ctx, "ep", id)
		if err != nil || job.State != want || job.ID != id {
			t.Errorf("the cancellation returned %+v, %v; want %s", job, err, want)
		}
		return job
	}
	waiting := t.submit(engine.NewJob{})
	cancel(waiting, engine.Cancelled)
	t.takeNone()
	cancel(waiting, engine.Cancelled)

	running := t.submit(engine.NewJob{})
	job := t.take(engine.Take{})
	t.Advance(2 * time.Second)
	if job := cancel(running, engine.Cancelled); job.Execution != 2*time.Second {
		t.Errorf("ran for %s", job.Execution)
	}
	t.report(job.Ref, engine.Done([]byte(`1`)), engine.Stale)
	if job := t.is(running, engine.Cancelled); job.Output != nil {
		t.Errorf("output %s after the cancellation", job.Output)
	}

	done := t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Done([]byte(`1`)), engine.Accepted)
	if job := cancel(done, engine.Completed); string(job.Output) != "1" {
		t.Errorf("output %s", job.Output)
	}
	failed := t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("x", nil), engine.Accepted)
	cancel(failed, engine.Failed)
	late := t.submit(engine.NewJob{Timeout: 5 * time.Second})
	t.take(engine.Take{})
	t.Advance(5 * time.Second)
	cancel(late, engine.TimedOut)

	for _, id := range []string{"unknown", ""} {
		if _, err := t.Cancel(t.ctx, "ep", id); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("cancel of %q: %v", id, err)
		}
	}
	if _, err := t.Cancel(t.ctx, "other", t.submit(engine.NewJob{})); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("cancel through another endpoint: %v", err)
	}
}

// A report counts only for its own take, and only while that runs.
func testFence(tt *testing.T, env *Env) {
	t := with(tt, env)
	reports := map[string]engine.Report{
		"done": engine.Done([]byte(`"late"`)), "fail": engine.Fail("late", nil), "progress": engine.Progress([]byte(`"late"`)),
		"beat": engine.Beat(time.Second), "lost": engine.Lost(),
	}
	all := func(what, id string, ref engine.Ref) {
		t.Helper()
		before, err := t.Get(t.ctx, "ep", id)
		for name, r := range reports {
			if got, err := t.Report(t.ctx, ref, r); got != engine.Stale || err != nil {
				t.Errorf("%s: %s returned %v, %v", what, name, got, err)
			}
		}
		t.Advance(2 * time.Second) // longer than the beat's lease
		after, err2 := t.Get(t.ctx, "ep", id)
		if fmt.Sprint(before, err) != fmt.Sprint(after, err2) {
			t.Errorf("%s: %+v became %+v", what, before, after)
		}
	}
	id := t.submit(engine.NewJob{})
	job := t.take(engine.Take{Worker: "w1"})
	for what, change := range map[string]func(*engine.Ref){
		"another worker":   func(r *engine.Ref) { r.Worker = "w2" },
		"another attempt":  func(r *engine.Ref) { r.Attempt++ },
		"another endpoint": func(r *engine.Ref) { r.Endpoint = "other" },
		"another job":      func(r *engine.Ref) { r.ID = "unknown" },
	} {
		ref := job.Ref
		change(&ref)
		all(what, id, ref)
	}
	t.report(job.Ref, engine.Lost(), engine.Accepted)
	all("given back", id, job.Ref)
	again := t.take(engine.Take{Worker: "w1"})
	all("taken again", id, job.Ref)
	t.report(again.Ref, engine.Done([]byte(`"good"`)), engine.Accepted)
	all("completed", id, again.Ref)

	id = t.submit(engine.NewJob{Timeout: 5 * time.Second})
	job = t.take(engine.Take{})
	t.Advance(5 * time.Second)
	all("timed out", id, job.Ref)

	id = t.submit(engine.NewJob{TTL: 10 * time.Second})
	job = t.take(engine.Take{})
	t.Advance(10 * time.Second)
	all("gone", id, job.Ref)
}

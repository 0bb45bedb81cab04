package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// testBytes expects inputs, rests and outputs byte for byte, and the limits of a take.
func testBytes(t *tester) {
	input := []byte("{ \"a\" :\t1.0e7,\n\"ü\":\"\\u00fc\", \"a\": 12345678901234567890 }")
	rest := []byte(`{ "s3Config" : {"accessId":"x"} }`)
	id := t.submit(engine.NewJob{Input: input, Rest: rest})
	job := t.take(engine.Take{})
	must.Hold(t, string(job.Input) == string(input) && string(job.Rest) == string(rest), "the taken job has", string(job.Input), string(job.Rest))
	t.report(job.Ref, engine.Done(input), engine.Accepted)
	must.Equal(t, string(t.get(id).Output), string(input), "the output")
	large := []byte(`"` + strings.Repeat("x", 20<<20) + `"`)
	id = t.submit(engine.NewJob{Input: large})
	job = t.take(engine.Take{})
	t.report(job.Ref, engine.Done(job.Input), engine.Accepted)
	got := t.get(id)
	must.Hold(t, string(got.Output) == string(large), "20 MB came back as", len(got.Output), "bytes")
	// Several jobs at a time.
	inputs := map[string]string{}
	for _, n := range []int{2, 65_536, 65_537, 65_535, 100_000} {
		input := fmt.Sprintf("%*d", n, n)
		inputs[t.submit(engine.NewJob{Input: []byte(input)})] = input
	}
	jobs, err := t.TakeQueued(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 9})
	must.Require(t, err == nil && len(jobs) == len(inputs), "took", len(jobs), "jobs,", err, "want", len(inputs))
	for _, job := range jobs {
		must.Equal(t, string(job.Input), inputs[job.ID], len(inputs[job.ID]), "bytes came as", len(job.Input))
		t.report(job.Ref, engine.Done(nil), engine.Accepted)
	}
	take := func(n int) {
		jobs, err := t.TakeQueued(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 99})
		must.Hold(t, err == nil && len(jobs) == n, "took", len(jobs), "jobs,", err, "want", n)
		for _, job := range jobs {
			t.report(job.Ref, engine.Done(nil), engine.Accepted)
		}
	}
	// A take returns fewer jobs if their inputs are large, or of unknown size after a restart.
	for range 3 {
		t.submit(engine.NewJob{Input: large[:2], Rest: large[:7<<20]})
	}
	take(2)
	take(1)
	for range 20 {
		t.submit(engine.NewJob{})
	}
	t.restart()
	take(16)
	take(4)
	// A job that was lost is taken alone: its input may be what its worker can't read.
	for range 3 {
		t.submit(engine.NewJob{})
	}
	for _, job := range must.Do(t.TakeQueued(t.ctx, engine.Take{Endpoint: "ep", Worker: "w", Max: 2}))(t) {
		t.report(job.Ref, engine.Lost(""), engine.Accepted)
	}
	for range 3 {
		take(1)
	}
}

// Each queued job is either purged or taken.
func testPurgeAgainstTakers(t *tester) {
	many := t.repetitions(1500)
	for range many {
		t.submit(engine.NewJob{})
	}
	var wg sync.WaitGroup
	taken := make([]int, 3)
	for i := range taken {
		wg.Go(func() {
			for {
				jobs, err := t.TakeQueued(t.ctx, engine.Take{Endpoint: "ep", Worker: fmt.Sprint(i), Max: 7})
				must.Hold(t, err == nil, err)
				if len(jobs) == 0 {
					return
				}
				taken[i] += len(jobs)
			}
		})
	}
	removed := make([]int, 2)
	for i := range removed {
		wg.Go(func() {
			n, err := t.Purge(t.ctx, "ep")
			must.Hold(t, err == nil, err)
			removed[i] = n
		})
	}
	wg.Wait()
	ran, deleted := taken[0]+taken[1]+taken[2], removed[0]+removed[1]
	must.Equal(t, ran+deleted, many, "the number of jobs, of which", ran, "were taken and", deleted, "purged")
	t.expectCounts(engine.Counts{InProgress: ran})
}

// A call after the engine is closed returns an error and changes nothing.
func TestCallAfterClose(t *testing.T) {
	c := sqldb.Config{Dir: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		e := newTester(t, c, nil)
		e.Close()
		must.ErrorIs(t, must.Err(e.Submit(e.ctx, engine.NewJob{Endpoint: "ep", Input: []byte("{}")})), sqldb.ErrClosed)
		e.restart()
		e.expectCounts(engine.Counts{})
	})
}

// A purge leaves a job that is taken, fails and is retried while the purge runs.
func TestPurgeLeavesRetriedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *tester
		var retried string
		e = newTester(t, sqldb.Config{}, func(c *engine.Config) {
			c.Observe = func(ev engine.Event) {
				if ev.To == "" && retried == "" { // between two steps of the purge
					time.Sleep(ms)
					job := e.take(engine.Take{})
					retried = job.ID
					e.report(job.Ref, engine.Fail("x", nil), engine.Accepted)
					must.Do(e.Retry(e.ctx, "ep", retried))(t)
				}
			}
		})
		for range 100 {
			e.submit(engine.NewJob{})
		}
		must.Equal(t, must.Do(e.Purge(e.ctx, "ep"))(t), 99, "the number of purged jobs")
		e.expectState(retried, engine.InQueue)
	})
}

func testStream(t *tester) {
	drain := func(id string, state engine.State, want ...string) {
		t.Helper()
		job, chunks, more, err := t.Drain(t.ctx, "ep", id, engine.MaxDrain)
		if err != nil || job.State != state || more || fmt.Sprintf("%s", chunks) != fmt.Sprintf("%s", want) {
			t.Errorf("drained %s, with more: %v, of a job that is %s, %v; want %s of a job that is %s", chunks, more, job.State, err, want, state)
		}
	}
	id := t.submit(engine.NewJob{})
	drain(id, engine.InQueue)
	job := t.take(engine.Take{})
	drain(id, engine.InProgress)
	var want []string
	for i := range 25 {
		t.report(job.Ref, engine.Chunk(fmt.Appendf(nil, "%d", i), nil), engine.Accepted)
		want = append(want, fmt.Sprintf(`{"output":%d}`, i))
		if i == 12 {
			drain(id, engine.InProgress, want...)
			drain(id, engine.InProgress)
			want = nil
		}
	}
	drain(id, engine.InProgress, want...)
	t.report(job.Ref, engine.Chunk([]byte(`"last"`), []byte(`{"pending": 0}`)), engine.Accepted)
	t.report(job.Ref, engine.Done([]byte(`"all"`)), engine.Accepted)
	t.report(job.Ref, engine.Chunk([]byte(`"late"`), nil), engine.Stale)
	drain(id, engine.Completed, `{"output":"last","metrics":{"pending": 0}}`)
	drain(id, engine.Completed)
	must.Equal(t, string(t.expectState(id, engine.Completed).Output), `"all"`, "the output")

	// Small chunks of one report are read as one element, but counted separately.
	id = t.submit(engine.NewJob{})
	job = t.take(engine.Take{})
	large := `"` + strings.Repeat("x", 64<<10) + `"`
	t.report(job.Ref, engine.Chunk([]byte("1"), nil), engine.Accepted)
	t.report(job.Ref, engine.Chunks([][]byte{[]byte("2"), []byte("3"), []byte(large), []byte("5"), []byte("6")}), engine.Accepted)
	t.report(job.Ref, engine.Chunks([][]byte{[]byte("7"), []byte("8")}), engine.Accepted)
	n, err := t.Unread(t.ctx, "ep", id)
	must.Hold(t, n == 8 && err == nil, n, "chunks are unread,", err, "want 8")
	drain(id, engine.InProgress, `{"output":1}`, `{"output":2},{"output":3}`, `{"output":`+large+`}`, `{"output":5},{"output":6}`, `{"output":7},{"output":8}`)
	t.report(job.Ref, engine.Chunks([][]byte{[]byte("9"), []byte("10")}), engine.Accepted)
	t.report(job.Ref, engine.Done(nil), engine.Accepted)
	for _, want := range []int{2, 0} {
		n, err := t.Unread(t.ctx, "ep", id)
		must.Hold(t, n == want && err == nil, n, "chunks are unread,", err, "want", want)
		_, _, _, err = t.Drain(t.ctx, "ep", id, engine.MaxDrain)
		must.Succeed(t, err)
	}

	// The chunks of a dead worker are deleted, and watches are woken.
	id = t.submit(engine.NewJob{})
	watch := t.Watch("ep", id)
	defer watch.Stop()
	job = t.take(engine.Take{})
	<-watch.C
	t.report(job.Ref, engine.Chunk([]byte(`1`), nil), engine.Accepted)
	<-watch.C
	t.report(job.Ref, engine.Lost(""), engine.Accepted)
	job = t.take(engine.Take{})
	t.report(job.Ref, engine.Chunk([]byte(`2`), nil), engine.Accepted)
	drain(id, engine.InProgress, `{"output":2}`)
	t.report(job.Ref, engine.Chunk([]byte(`3`), nil), engine.Accepted)
	t.restart()
	drain(id, engine.InQueue)

	_, _, _, err = t.Drain(t.ctx, "other", id, engine.MaxDrain)
	must.Hold(t, errors.Is(err, engine.ErrNotFound), "draining through another endpoint:", err)
	t.advance(24 * time.Hour)
	_, _, _, err = t.Drain(t.ctx, "ep", id, engine.MaxDrain)
	must.Hold(t, errors.Is(err, engine.ErrNotFound), "draining a deleted job:", err)
}

// A chunk of 20 MB is split and needs several reads, of which only the last reports the end.
func testLargeStream(t *tester) {
	id := t.submit(engine.NewJob{})
	job := t.take(engine.Take{})
	text := strings.Repeat("0123456789abcdef ü", 20<<20/19)
	output, err := json.Marshal(text)
	must.Succeed(t, err)
	t.report(job.Ref, engine.Chunk(output, nil), engine.Accepted)
	t.report(job.Ref, engine.Done(nil), engine.Accepted)
	joined, reads := strings.Builder{}, 0
	for more := true; more; reads++ {
		var chunks [][]byte
		_, chunks, more, err = t.Drain(t.ctx, "ep", id, engine.MaxDrain)
		must.Succeed(t, err)
		size := 0
		for _, c := range chunks {
			var chunk struct{ Output string }
			err := json.Unmarshal(c, &chunk)
			must.Require(t, err == nil && len(c) <= engine.MaxChunk, "a chunk of", len(c), "bytes,", err)
			joined.WriteString(chunk.Output)
			size += len(c)
		}
		must.Hold(t, size <= 9<<20, "one read returned", size, "bytes")
	}
	must.Hold(t, joined.String() == text && reads >= 3, reads, "reads returned", joined.Len(), "bytes, expected", len(text))
}

func testNewest(t *tester) {
	expectNewest := func(want ...string) []engine.Job {
		t.Helper()
		jobs := must.Do(t.Newest(t.ctx, "ep", 100, 64<<10))(t)
		must.Equal(t, jobIDs(jobs), want, "the newest jobs")
		return jobs
	}
	expectNewest()
	a, b := t.submit(engine.NewJob{}), t.submit(engine.NewJob{Timeout: 5 * time.Second})
	t.submit(engine.NewJob{Endpoint: "other"})
	t.report(t.take(engine.Take{}).Ref, engine.Done([]byte(`"`+strings.Repeat("x", 64<<10-2)+`"`)), engine.Accepted)
	t.take(engine.Take{})
	for i, job := range expectNewest(b, a) {
		want := t.get([]string{b, a}[i])
		must.Hold(t, fmt.Sprintf("%+v", job) == fmt.Sprintf("%+v", want), "listed as", job, "read as", want)
	}
	t.advance(5 * time.Second)
	jobs := expectNewest(b, a)
	must.Hold(t, jobs[0].State == engine.TimedOut && jobs[0].Execution == 5*time.Second, "the timed-out job:", jobs[0])
	t.advance(30*time.Minute - 5*time.Second)
	expectNewest(b)
}

func testNewestOfAll(t *tester) {
	expectNewest := func(endpoint string, n int, want ...string) (jobs []engine.Job) {
		t.Helper()
		jobs = must.Do(t.Newest(t.ctx, endpoint, n, 0))(t)
		var got []string
		for _, j := range jobs {
			got = append(got, j.Endpoint+" "+j.ID)
		}
		must.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "the newest jobs")
		return jobs
	}
	expectNewest("", 5)
	a, b := t.submit(engine.NewJob{}), t.submit(engine.NewJob{Endpoint: "other"})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("no", []byte(`1`)), engine.Accepted)
	c := t.submit(engine.NewJob{Timeout: 5 * time.Second})
	t.take(engine.Take{})
	t.submit(engine.NewJob{Endpoint: engine.BatchQueue("ep")})
	expectNewest("", 2, "ep "+c, "other "+b)
	expectNewest("nowhere", 2)
	jobs := expectNewest("ep", 5, "ep "+c, "ep "+a)
	second, want := jobs[1], t.get(a)
	must.Hold(t, second.Error == "no" && second.Output == nil && second.State == want.State && second.Queued.Equal(want.Queued) && second.Worker == want.Worker, "listed as", second, "read as", want)
	t.advance(5 * time.Second)
	got := expectNewest("", 1, "ep "+c)[0]
	must.Hold(t, got.State == engine.TimedOut && got.Execution == 5*time.Second, "the timed-out job:", got)
	t.advance(30 * time.Minute)
	expectNewest("", 5, "other "+b)
}

// The newest jobs include synchronous and asynchronous ones, in the order of their submission.
func testNewestOfBothKinds(t *tester) {
	var want []string // the newest first
	for i := range 7 {
		want = slices.Insert(want, 0, t.submit(engine.NewJob{Sync: i%2 == 1 || i == 2}))
		t.submit(engine.NewJob{Endpoint: "other"})
		t.advance(ms)
	}
	for n := range len(want) + 2 {
		jobs, err := t.Newest(t.ctx, "ep", n, 0)
		got := jobIDs(jobs)
		must.Hold(t, err == nil && slices.Equal(got, want[:min(n, len(want))]), "the newest", n, "jobs are", got, err, "expected the newest of", want)
	}
}

func jobIDs(jobs []engine.Job) (ids []string) {
	for _, job := range jobs {
		ids = append(ids, job.ID)
	}
	return ids
}

func testDrop(t *tester) {
	running := t.submit(engine.NewJob{})
	job := t.take(engine.Take{})
	waiting := t.submit(engine.NewJob{})
	for range t.repetitions(600) { // needs more than one transaction
		t.submit(engine.NewJob{Endpoint: "ep"})
	}
	other := t.submit(engine.NewJob{Endpoint: "other"})
	w := t.Watch("ep", running)
	defer w.Stop()
	must.Succeed(t, t.DropEndpoint(t.ctx, "ep"))
	t.expectState(waiting, "")
	t.expectState(running, "")
	t.expectCounts(engine.Counts{})
	must.Equal(t, len(w.C), 1, "how often the watch of a running job was woken")
	t.report(job.Ref, engine.Progress(nil), engine.Stale)
	must.Equal(t, must.Err(t.Get(context.Background(), "other", other)), nil, "the other endpoint's job")
	queues := must.Do(t.StoredQueues(t.ctx))(t)
	must.Hold(t, t.db.Memory() > 0 || len(queues) == 1 && queues[0] == "other", "queues are", queues)
	t.restart()
	t.expectCounts(engine.Counts{})
}

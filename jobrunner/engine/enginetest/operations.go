package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

func (t tester) retry(id string) {
	t.Helper()
	if job, err := t.Retry(t.ctx, "ep", id); err != nil || job.ID != id || job.State != engine.InQueue {
		t.Fatalf("the retry returned %+v, %v", job, err)
	}
}

func (t tester) noRetry(id string, state engine.State) {
	t.Helper()
	before := t.is(id, state)
	_, err := t.Retry(t.ctx, "ep", id)
	var refused *engine.NotRetryable
	if !errors.As(err, &refused) || refused.State != state {
		t.Errorf("the retry of a job in state %s returned %v", state, err)
	}
	if after := t.is(id, state); fmt.Sprintf("%+v", after) != fmt.Sprintf("%+v", before) {
		t.Errorf("a rejected retry changed %+v to %+v", before, after)
	}
}

func testRetry(tt *testing.T, env *Env) {
	t := with(tt, env)
	input := []byte(`{"n":  1}`)
	id := t.submit(engine.NewJob{Input: input, Rest: []byte(`{"policy":{}}`)})
	t.noRetry(id, engine.InQueue)
	t.report(t.take(engine.Take{}).Ref, engine.Lost(), engine.Accepted)
	t.Advance(time.Second)
	job := t.take(engine.Take{})
	t.noRetry(id, engine.InProgress)
	t.report(job.Ref, engine.Chunk([]byte(`"old"`), nil), engine.Accepted)
	t.report(job.Ref, engine.Fail("no luck", []byte(`"old"`)), engine.Accepted)

	other := t.submit(engine.NewJob{}) // precedes the retried job in the queue
	t.Advance(30*time.Minute - ms)
	t.retry(id)
	if got := t.is(id, engine.InQueue); got.Output != nil || got.Error != "" || got.Retries != 0 || got.Delay != 0 || got.Worker != "" {
		t.Errorf("after the retry: %+v", got)
	}
	if _, chunks, _, err := t.Drain(t.ctx, "ep", id); err != nil || len(chunks) > 0 {
		t.Errorf("after the retry its stream has %s, %v", chunks, err)
	}
	t.noRetry(id, engine.InQueue)
	t.counts(engine.Counts{InQueue: 2, Failed: 1, Retried: 1})
	t.Restart()
	t.counts(engine.Counts{InQueue: 2, Failed: 1, Retried: 1})

	t.Advance(3 * time.Second)
	if got := t.take(engine.Take{}); got.ID != other {
		t.Error("the retried job went to the head of the queue")
	}
	again := t.take(engine.Take{})
	if again.ID != id || string(again.Input) != string(input) || string(again.Rest) != `{"policy":{}}` || again.Retries != 0 || again.Delay != 3*time.Second {
		t.Errorf("the second take: %+v", again)
	}
	t.report(job.Ref, engine.Done([]byte(`"late"`)), engine.Stale)
	t.report(again.Ref, engine.Lost(), engine.Accepted) // the retry has a new retry count
	again = t.take(engine.Take{})
	t.report(again.Ref, engine.Done([]byte(`"new"`)), engine.Accepted)
	if got := t.is(id, engine.Completed); string(got.Output) != `"new"` || got.Retries != 1 {
		t.Errorf("done: %+v", got)
	}
	t.noRetry(id, engine.Completed)
	t.Advance(30*time.Minute - ms) // the retention starts again
	t.is(id, engine.Completed)
	t.Advance(ms)
	t.is(id, "")

	// An overdue job counts as TIMED_OUT, the ttl counts from the submission, and an expired job
	// can't be retried.
	id = t.submit(engine.NewJob{Timeout: 5 * time.Second, TTL: time.Minute})
	t.take(engine.Take{})
	t.Advance(5 * time.Second)
	t.retry(id)
	t.take(engine.Take{})
	t.Advance(5 * time.Second)
	t.is(id, engine.TimedOut)
	t.retry(id)
	t.Advance(50*time.Second - ms)
	t.is(id, engine.InQueue)
	t.Advance(ms)
	if _, err := t.Retry(t.ctx, "ep", id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("retry after the ttl: %v", err)
	}
	id = t.submit(engine.NewJob{})
	if _, err := t.Retry(t.ctx, "other", id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a retry through another endpoint: %v", err)
	}
	if _, err := t.Cancel(t.ctx, "ep", id); err != nil {
		t.Fatal(err)
	}
	t.noRetry(id, engine.Cancelled)
	id = t.submit(engine.NewJob{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("x", nil), engine.Accepted)
	t.Advance(30 * time.Minute)
	if _, err := t.Retry(t.ctx, "ep", id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("retry after the retention: %v", err)
	}
}

func testPurge(tt *testing.T, env *Env) {
	t := with(tt, env)
	purge := func(want int) {
		t.Helper()
		if n, err := t.Purge(t.ctx, "ep"); err != nil || n != want {
			t.Errorf("purged %d, %v; want %d", n, err, want)
		}
	}
	purge(0)
	done, running, failed, again := t.submit(engine.NewJob{}), t.submit(engine.NewJob{}), t.submit(engine.NewJob{}), t.submit(engine.NewJob{})
	other := t.submit(engine.NewJob{Endpoint: "other"})
	t.report(t.take(engine.Take{}).Ref, engine.Done([]byte(`1`)), engine.Accepted)
	job := t.take(engine.Take{})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("x", nil), engine.Accepted)
	t.report(t.take(engine.Take{}).Ref, engine.Lost(), engine.Accepted)
	const many = 1300 // more than one transaction purges
	ids := []string{again}
	for i := range many {
		ids = append(ids, t.submit(engine.NewJob{Low: i%2 == 0}))
	}
	t.submit(engine.NewJob{TTL: 10 * time.Second})
	t.Advance(10 * time.Second) // this job has expired
	purge(many + 1)
	for _, id := range ids {
		t.is(id, "")
	}
	t.takeNone()
	t.counts(engine.Counts{InProgress: 1, Completed: 1, Failed: 1, Retried: 1})
	t.is(done, engine.Completed)
	t.is(running, engine.InProgress)
	t.is(failed, engine.Failed)
	t.report(job.Ref, engine.Done([]byte(`1`)), engine.Accepted)
	if job, err := t.Get(t.ctx, "other", other); err != nil || job.State != engine.InQueue {
		t.Errorf("the other endpoint's job is %s, %v", job.State, err)
	}
	purge(0)
	t.submit(engine.NewJob{})
	purge(1)
}

// Each queued job is either purged or taken, and jobs submitted after the purge stay.
func testPurgeAgainstTakers(tt *testing.T, env *Env) {
	t := with(tt, env)
	const many = 1500
	for range many {
		t.submit(engine.NewJob{})
	}
	var wg sync.WaitGroup
	taken := make([]int, 3)
	for i := range taken {
		wg.Go(func() {
			for {
				jobs, err := t.Take(t.ctx, engine.Take{Endpoint: "ep", Worker: fmt.Sprint(i), Max: 7})
				if err != nil {
					t.Error(err)
				}
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
			if err != nil {
				t.Error(err)
			}
			removed[i] = n
		})
	}
	wg.Wait()
	ran, gone := taken[0]+taken[1]+taken[2], removed[0]+removed[1]
	if ran+gone != many {
		t.Errorf("of %d jobs %d were taken and %d removed", many, ran, gone)
	}
	t.counts(engine.Counts{InProgress: ran})
}

func testStream(tt *testing.T, env *Env) {
	t := with(tt, env)
	drain := func(id string, state engine.State, want ...string) {
		t.Helper()
		job, chunks, more, err := t.Drain(t.ctx, "ep", id)
		if err != nil || job.State != state || more || fmt.Sprintf("%s", chunks) != fmt.Sprintf("%s", want) {
			t.Errorf("drained %s, %v, of a job in state %s, %v; want %s and %s", chunks, more, job.State, err, want, state)
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
	if got := t.is(id, engine.Completed); string(got.Output) != `"all"` {
		t.Errorf("the output is %s", got.Output)
	}

	// Small chunks of one report are read as one, but counted separately.
	id = t.submit(engine.NewJob{})
	job = t.take(engine.Take{})
	large := `"` + strings.Repeat("x", 64<<10) + `"`
	t.report(job.Ref, engine.Chunk([]byte("1"), nil), engine.Accepted)
	t.report(job.Ref, engine.Chunks([][]byte{[]byte("2"), []byte("3"), []byte(large), []byte("5"), []byte("6")}), engine.Accepted)
	t.report(job.Ref, engine.Chunks([][]byte{[]byte("7"), []byte("8")}), engine.Accepted)
	if n, err := t.Unread(t.ctx, "ep", id); n != 8 || err != nil {
		t.Errorf("%d chunks are unread, %v; want 8", n, err)
	}
	drain(id, engine.InProgress, `{"output":1}`, `{"output":2},{"output":3}`, `{"output":`+large+`}`, `{"output":5},{"output":6}`, `{"output":7},{"output":8}`)
	t.report(job.Ref, engine.Chunks([][]byte{[]byte("9"), []byte("10")}), engine.Accepted)
	t.report(job.Ref, engine.Done(nil), engine.Accepted)
	for _, want := range []int{2, 0} {
		if n, err := t.Unread(t.ctx, "ep", id); n != want || err != nil {
			t.Errorf("%d chunks are unread, %v; want %d", n, err, want)
		}
		if _, _, _, err := t.Drain(t.ctx, "ep", id); err != nil {
			t.Error(err)
		}
	}

	// The chunks of a dead worker are deleted, and watches are woken.
	id = t.submit(engine.NewJob{})
	watch := t.Watch("ep", id)
	defer watch.Stop()
	job = t.take(engine.Take{})
	<-watch.C
	t.report(job.Ref, engine.Chunk([]byte(`1`), nil), engine.Accepted)
	<-watch.C
	t.report(job.Ref, engine.Lost(), engine.Accepted)
	job = t.take(engine.Take{})
	t.report(job.Ref, engine.Chunk([]byte(`2`), nil), engine.Accepted)
	drain(id, engine.InProgress, `{"output":2}`)
	t.report(job.Ref, engine.Chunk([]byte(`3`), nil), engine.Accepted)
	t.Restart()
	drain(id, engine.InQueue)

	if _, _, _, err := t.Drain(t.ctx, "other", id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("draining through another endpoint: %v", err)
	}
	t.Advance(24 * time.Hour)
	if _, _, _, err := t.Drain(t.ctx, "ep", id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("draining a deleted job: %v", err)
	}
}

// A chunk of 20 MB is split into several, which need more than one read. Only the last read
// reports the end.
func testLargeStream(tt *testing.T, env *Env) {
	t := with(tt, env)
	id := t.submit(engine.NewJob{})
	job := t.take(engine.Take{})
	text := strings.Repeat("0123456789abcdef ü", 20<<20/19)
	output, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	t.report(job.Ref, engine.Chunk(output, nil), engine.Accepted)
	t.report(job.Ref, engine.Done(nil), engine.Accepted)
	joined, reads := strings.Builder{}, 0
	for more := true; more; reads++ {
		var chunks [][]byte
		if _, chunks, more, err = t.Drain(t.ctx, "ep", id); err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, c := range chunks {
			var one struct{ Output string }
			if err := json.Unmarshal(c, &one); err != nil || len(c) > engine.MaxChunk+len(`{"output":}`) {
				t.Fatalf("a chunk of %d bytes, %v", len(c), err)
			}
			joined.WriteString(one.Output)
			size += len(c)
		}
		if size > 9<<20 {
			t.Errorf("one read returned %d bytes", size)
		}
	}
	if joined.String() != text || reads < 3 {
		t.Errorf("%d reads returned %d bytes, expected %d", reads, joined.Len(), len(text))
	}
}

func testRecent(tt *testing.T, env *Env) {
	t := with(tt, env)
	recent := func(want ...string) []engine.Job {
		t.Helper()
		jobs, err := t.Recent(t.ctx, "ep")
		if err != nil {
			t.Fatal(err)
		}
		if got := jobIDs(jobs); !slices.Equal(got, want) {
			t.Errorf("the newest are %s, want %s", got, want)
		}
		return jobs
	}
	recent()
	a, b := t.submit(engine.NewJob{}), t.submit(engine.NewJob{Timeout: 5 * time.Second})
	t.submit(engine.NewJob{Endpoint: "other"})
	t.report(t.take(engine.Take{}).Ref, engine.Done([]byte(`"`+strings.Repeat("x", 64<<10-2)+`"`)), engine.Accepted)
	t.take(engine.Take{})
	for i, job := range recent(b, a) {
		if want := t.get([]string{b, a}[i]); fmt.Sprintf("%+v", job) != fmt.Sprintf("%+v", want) {
			t.Errorf("listed as %+v, read as %+v", job, want)
		}
	}
	t.Advance(5 * time.Second)
	if jobs := recent(b, a); jobs[0].State != engine.TimedOut || jobs[0].Execution != 5*time.Second {
		t.Errorf("the expired job: %+v", jobs[0])
	}
	t.Advance(30*time.Minute - 5*time.Second)
	recent(b)
}

func testLatest(tt *testing.T, env *Env) {
	t := with(tt, env)
	latest := func(endpoint string, n int, want ...string) (jobs []engine.Job) {
		t.Helper()
		jobs, err := t.Latest(t.ctx, endpoint, n)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, j := range jobs {
			got = append(got, j.Endpoint+" "+j.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the latest are %s, want %s", got, want)
		}
		return jobs
	}
	latest("", 5)
	a, b := t.submit(engine.NewJob{}), t.submit(engine.NewJob{Endpoint: "other"})
	t.report(t.take(engine.Take{}).Ref, engine.Fail(strings.Repeat("é", 300), []byte(`1`)), engine.Accepted)
	c := t.submit(engine.NewJob{Timeout: 5 * time.Second})
	t.take(engine.Take{})
	t.submit(engine.NewJob{Endpoint: engine.BatchQueue("ep")})
	latest("", 2, "ep "+c, "other "+b)
	latest("nowhere", 2)
	jobs := latest("ep", 5, "ep "+c, "ep "+a)
	if got, want := jobs[1], t.get(a); got.Error != strings.Repeat("é", 200) || got.Output != nil || got.State != want.State || got.Queued != want.Queued || got.Worker != want.Worker {
		t.Errorf("listed as %+v, read as %+v", got, want)
	}
	t.Advance(5 * time.Second)
	if got := latest("", 1, "ep "+c)[0]; got.State != engine.TimedOut || got.Execution != 5*time.Second {
		t.Errorf("the expired job: %+v", got)
	}
	t.Advance(30 * time.Minute)
	latest("", 5, "other "+b)
}

// The newest jobs include synchronous and asynchronous ones, in the order of their
// submission.
func testNewestOfBothKinds(tt *testing.T, env *Env) {
	t := with(tt, env)
	var want []string // the newest first
	for i := range 7 {
		want = slices.Insert(want, 0, t.submit(engine.NewJob{Sync: i%2 == 1 || i == 2}))
		t.submit(engine.NewJob{Endpoint: "other"})
		t.Advance(ms)
	}
	for n := range len(want) + 2 {
		jobs, err := t.Latest(t.ctx, "ep", n)
		if got := jobIDs(jobs); err != nil || !slices.Equal(got, want[:min(n, len(want))]) {
			t.Errorf("the newest %d jobs are %v, %v; expected the newest of %v", n, got, err, want)
		}
	}
	jobs, err := t.Recent(t.ctx, "ep")
	if got := jobIDs(jobs); err != nil || !slices.Equal(got, want) {
		t.Errorf("the newest are %v, %v, want %v", got, err, want)
	}
}

func jobIDs(jobs []engine.Job) (ids []string) {
	for _, job := range jobs {
		ids = append(ids, job.ID)
	}
	return ids
}

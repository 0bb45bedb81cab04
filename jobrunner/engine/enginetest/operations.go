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
		t.Fatalf("retry answered %+v, %v", job, err)
	}
}

func (t tester) noRetry(id string, state engine.State) {
	t.Helper()
	before := t.is(id, state)
	_, err := t.Retry(t.ctx, "ep", id)
	var refused *engine.NotRetryable
	if !errors.As(err, &refused) || refused.State != state {
		t.Errorf("the retry of a job that is %s was answered %v", state, err)
	}
	if after := t.is(id, state); fmt.Sprintf("%+v", after) != fmt.Sprintf("%+v", before) {
		t.Errorf("a refused retry changed %+v to %+v", before, after)
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

	other := t.submit(engine.NewJob{}) // is before it in the queue
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
		t.Error("it went to the head of the queue")
	}
	again := t.take(engine.Take{})
	if again.ID != id || string(again.Input) != string(input) || string(again.Rest) != `{"policy":{}}` || again.Retries != 0 || again.Delay != 3*time.Second {
		t.Errorf("taken again: %+v", again)
	}
	t.report(job.Ref, engine.Done([]byte(`"late"`)), engine.Stale)
	t.report(again.Ref, engine.Lost(), engine.Accepted) // has its one dispatch more
	again = t.take(engine.Take{})
	t.report(again.Ref, engine.Done([]byte(`"new"`)), engine.Accepted)
	if got := t.is(id, engine.Completed); string(got.Output) != `"new"` || got.Retries != 1 {
		t.Errorf("done: %+v", got)
	}
	t.noRetry(id, engine.Completed)
	t.Advance(30*time.Minute - ms) // a retention of its own
	t.is(id, engine.Completed)
	t.Advance(ms)
	t.is(id, "")

	// The time-out that nobody has noted yet counts, the ttl counts from the
	// submission, and what is gone can't be retried.
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
		t.Errorf("retry by way of another endpoint: %v", err)
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
	const many = 1300 // more than goes at a time
	ids := []string{again}
	for i := range many {
		ids = append(ids, t.submit(engine.NewJob{Low: i%2 == 0}))
	}
	t.submit(engine.NewJob{TTL: 10 * time.Second})
	t.Advance(10 * time.Second) // that one is gone already
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

// Of each job that waits, either the purge or a worker gets hold, and who
// submits meanwhile loses nothing that came after the purge.
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
			t.Errorf("drained %s, %v, of a job that is %s, %v; want %s and %s", chunks, more, job.State, err, want, state)
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

	// Nobody gets what a worker streamed that died, and who watches is woken.
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
		t.Errorf("draining by way of another endpoint: %v", err)
	}
	t.Advance(24 * time.Hour)
	if _, _, _, err := t.Drain(t.ctx, "ep", id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("draining what is gone: %v", err)
	}
}

// 20 MB in one chunk come as several, in order, in more than one read, and
// only the last read is the end.
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
			t.Errorf("one read gave %d bytes", size)
		}
	}
	if joined.String() != text || reads < 3 {
		t.Errorf("%d of %d bytes came, in %d reads", joined.Len(), len(text), reads)
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
		var got []string
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
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
		t.Errorf("the job whose time is over: %+v", jobs[0])
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
	latest("", 2, "ep "+c, "other "+b)
	latest("nowhere", 2)
	jobs := latest("ep", 5, "ep "+c, "ep "+a)
	if got, want := jobs[1], t.get(a); got.Error != strings.Repeat("é", 200) || got.Output != nil || got.State != want.State || got.Queued != want.Queued || got.Worker != want.Worker {
		t.Errorf("listed as %+v, read as %+v", got, want)
	}
	t.Advance(5 * time.Second)
	if got := latest("", 1, "ep "+c)[0]; got.State != engine.TimedOut || got.Execution != 5*time.Second {
		t.Errorf("the job whose time is over: %+v", got)
	}
	t.Advance(30 * time.Minute)
	latest("", 5, "other "+b)
}

func testCalls(tt *testing.T, env *Env) {
	t := with(tt, env)
	const claim = 15 * time.Second
	next := func(busy ...string) (*engine.Call, time.Time) {
		t.Helper()
		var hosts []engine.BusyHost
		for _, host := range busy {
			hosts = append(hosts, engine.BusyHost{Host: host})
		}
		queues, err := t.CallQueues(t.ctx, hosts)
		if err != nil {
			t.Fatal(err)
		}
		if len(queues) == 0 {
			return nil, time.Time{}
		}
		first := slices.MinFunc(queues, func(a, b engine.CallQueue) int { return a.Next.Compare(b.Next) })
		call, err := t.ClaimCall(t.ctx, first, hosts, claim)
		if err != nil {
			t.Fatal(err)
		}
		return call, first.Next
	}
	none := func(want time.Duration, busy ...string) {
		t.Helper()
		call, at := next(busy...)
		if call != nil || at.IsZero() != (want == 0) || want > 0 && time.Until(at) != want {
			t.Errorf("got %+v, and another at %s; want none before %s from now", call, at, want)
		}
	}
	expect := func(id string, attempt int, busy ...string) *engine.Call {
		t.Helper()
		call, _ := next(busy...)
		if call == nil || call.Job.ID != id || call.Attempt != attempt {
			t.Fatalf("got %+v, want attempt %d for %s", call, attempt, id)
		}
		return call
	}
	note := func(c *engine.Call, again time.Time) {
		t.Helper()
		if err := t.Called(t.ctx, c, again); err != nil {
			t.Fatal(err)
		}
	}
	none(0)
	a := t.submit(engine.NewJob{Webhook: "http://a.example:8080/x", Input: []byte(`{"n":  1}`), TTL: time.Minute})
	b := t.submit(engine.NewJob{Webhook: "http://b.example/x"})
	none(0)
	t.report(t.take(engine.Take{}).Ref, engine.Done([]byte(`"out"`)), engine.Accepted)
	select {
	case <-t.Calls():
	default:
		t.Error("nobody is told of the call")
	}
	t.Advance(ms)
	t.report(t.take(engine.Take{}).Ref, engine.Fail("no", nil), engine.Accepted)

	call := expect(b, 0, "a.example:8080")
	note(call, time.Time{})
	call = expect(a, 0)
	if want := t.get(a); fmt.Sprintf("%+v", call.Job) != fmt.Sprintf("%+v", want) || string(call.Input) != `{"n":  1}` || call.URL != "http://a.example:8080/x" || call.Host != "a.example:8080" {
		t.Errorf("the call is %+v, the job %+v", call, want)
	}
	none(claim)
	none(0, "a.example:8080")
	note(call, time.Now().Add(10*time.Second))
	none(10 * time.Second)
	t.Advance(10 * time.Second)
	call = expect(a, 1)
	t.Advance(claim) // nobody said how it went
	expect(a, 1)
	note(call, time.Time{}) // comes too late to count
	none(claim)
	t.Advance(time.Minute) // the job's ttl is over, the call is still due
	t.is(a, "")
	again := expect(a, 1)
	t.Restart()
	none(claim)
	note(again, time.Time{})
	none(0)

	// A retry withdraws the call, and the next end orders one anew.
	c := t.submit(engine.NewJob{Webhook: "http://a.example/x"})
	t.report(t.take(engine.Take{}).Ref, engine.Fail("no", nil), engine.Accepted)
	call = expect(c, 0)
	t.retry(c)
	none(0)
	t.report(t.take(engine.Take{}).Ref, engine.Lost(), engine.Accepted)
	t.report(t.take(engine.Take{}).Ref, engine.Lost(), engine.Accepted)
	note(call, time.Now().Add(time.Hour)) // of the former end
	call = expect(c, 0)
	if call.Job.State != engine.Failed || call.Job.Retries != 1 {
		t.Errorf("the call is about %+v", call.Job)
	}
	if err := t.DropEndpoint(t.ctx, "ep"); err != nil {
		t.Fatal(err)
	}
	note(call, time.Now())
	none(0)
}

// Calls wait in one queue for each owner and endpoint. A host that is busy for
// one owner is not for others.
func testCallQueues(tt *testing.T, env *Env) {
	t := with(tt, env)
	const claim = 15 * time.Second
	end := func(owner, endpoint, host string) (id string) {
		t.Helper()
		id = t.submit(engine.NewJob{Owner: owner, Endpoint: endpoint, Webhook: "http://" + host + "/x"})
		jobs, err := t.Take(t.ctx, engine.Take{Endpoint: endpoint, Worker: "w", Max: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		t.report(jobs[0].Ref, engine.Done(nil), engine.Accepted)
		t.Advance(ms)
		return id
	}
	start := time.Now()
	queues := func(busy []engine.BusyHost, want ...string) []engine.CallQueue {
		t.Helper()
		all, err := t.CallQueues(t.ctx, busy)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(all, func(a, b engine.CallQueue) int {
			return strings.Compare(a.Owner+"/"+a.Endpoint, b.Owner+"/"+b.Endpoint)
		})
		var got []string
		for _, q := range all {
			got = append(got, fmt.Sprintf("%s/%s in %d ms", q.Owner, q.Endpoint, q.Next.Sub(start).Milliseconds()))
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("with %v busy the queues are %q, expected %q", busy, got, want)
		}
		return all
	}
	queues(nil)
	ids := []string{end("b", "e2", "h1"), end("a", "e1", "h1"), end("b", "e1", "h1"), end("a", "e1", "h2"), end("", "e1", "h1"), end("b", "e2", "h2")}
	queues([]engine.BusyHost{{Owner: "a", Host: "h1"}, {Owner: "b", Host: "h1"}}, "/e1 in 4 ms", "a/e1 in 3 ms", "b/e2 in 5 ms")
	all := queues(nil, "/e1 in 4 ms", "a/e1 in 1 ms", "b/e1 in 2 ms", "b/e2 in 0 ms")
	for i, want := range []int{4, 1, 2, 0} {
		call, err := t.ClaimCall(t.ctx, all[i], nil, claim)
		if err != nil || call == nil || call.Job.ID != ids[want] || call.Owner != all[i].Owner || call.Job.Endpoint != all[i].Endpoint {
			t.Errorf("of %+v came %+v, %v", all[i], call, err)
		}
	}
	for _, host := range []string{"h2", "h1"} {
		call, err := t.ClaimCall(t.ctx, all[3], []engine.BusyHost{{Owner: "b", Host: host}}, claim)
		if err != nil || (call == nil) != (host == "h2") {
			t.Errorf("with %s busy came %+v, %v", host, call, err)
		}
	}
	later := claim.Milliseconds() + 6
	queues(nil, fmt.Sprintf("/e1 in %d ms", later), "a/e1 in 3 ms", fmt.Sprintf("b/e1 in %d ms", later), fmt.Sprintf("b/e2 in %d ms", later))
}

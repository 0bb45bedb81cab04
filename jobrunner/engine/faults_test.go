//go:build linux

package engine_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/smalldisk"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

var faults = flag.Int("faults", 1, "how often TestFaults repeats each fault")

// Whatever happens to the database under load, each acknowledged submission is stored once, and no
// rejected submission is. Each job ends once with the accepted result. No chunk is lost or read twice. The
// webhook of each job that wasn't cancelled is called, and the counts agree with the rows. -faults=100
// repeats each fault a hundred times.
func TestFaults(t *testing.T) {
	for name, test := range map[string]func(*load){
		"lost reply to a commit": lostReplies, "late commit": lateCommits, "cut connections": cutConnections,
		"PostgreSQL restarted": restarts(syscall.SIGINT), "PostgreSQL killed": restarts(syscall.SIGKILL), "PostgreSQL stalled": stalls,
		"full disk": fullDisk, "read-only file": readOnlyFile, "damaged pages": damagedPages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &load{T: t, jobs: map[string]*loadJob{}}
			test(l)
			l.check()
		})
	}
}

func lostReplies(l *load) {
	proxy, address := pgtest.NewProxy(l, pgtest.Start(l.T))
	l.run(sqldb.Config{URL: address}, func() { proxy.LoseCommit(); l.awaitProgress() })
}

func lateCommits(l *load) {
	proxy, address := pgtest.NewProxy(l, pgtest.Start(l.T))
	l.run(sqldb.Config{URL: address}, func() {
		release := proxy.HoldCommit()
		l.awaitProgress()
		release()
		l.awaitProgress()
	})
}

func cutConnections(l *load) {
	proxy, address := pgtest.NewProxy(l, pgtest.Start(l.T))
	l.run(sqldb.Config{URL: address}, func() {
		proxy.Cut()
		if rand.IntN(2) == 0 { // without this wait, most callers don't notice the cut
			l.awaitErrors()
		}
		proxy.Mend(l)
	})
}

func restarts(signal syscall.Signal) func(*load) {
	return func(l *load) {
		server := pgtest.NewServer(l)
		l.run(sqldb.Config{URL: server.URL}, func() { server.End(signal); l.awaitErrors(); server.Start() })
	}
}

func stalls(l *load) {
	server := pgtest.NewServer(l)
	l.run(sqldb.Config{URL: server.URL}, func() { resume := server.Hang(); time.Sleep(200 * time.Millisecond); resume() })
}

func fullDisk(l *load) {
	disk := smalldisk.Mount(l, "64m")
	filler := filepath.Join(disk, "filler")
	l.run(sqldb.Config{Dir: filepath.Join(disk, "data")}, func() {
		f := must.Do(os.Create(filler))(l)
		for block := make([]byte, 64<<10); len(block) > 0; block = block[:len(block)/2] {
			for _, err := f.Write(block); err == nil; _, err = f.Write(block) {
			}
		}
		f.Close()
		l.awaitErrors()
		must.Succeed(l, os.Remove(filler))
	})
}

func readOnlyFile(l *load) {
	dir := l.TempDir()
	chattr := func(flag string) {
		out, err := exec.Command("chattr", flag, filepath.Join(dir, "jobrunner.db"), filepath.Join(dir, "jobrunner.db-wal")).CombinedOutput()
		if err != nil {
			l.Skipf("files can't be made read-only here: %s %s", err, out)
		}
	}
	l.run(sqldb.Config{Dir: dir}, func() { chattr("+i"); l.awaitErrors(); chattr("-i") })
}

// damagedPages copies the write-ahead log to the database file and then overwrites the pages of the
// file. It spares the first page and the pointer maps, because SQLite doesn't notice damage to them.
func damagedPages(l *load) {
	dir := l.TempDir()
	path := filepath.Join(dir, "jobrunner.db")
	damage := func() (effective bool) {
		second := must.Do(lite.Open("file:" + path))(l)
		defer second.Close()
		shm := must.Do(os.OpenFile(path+"-shm", os.O_RDWR, 0))(l)
		defer shm.Close()
		file := must.Do(os.OpenFile(path, os.O_RDWR, 0))(l)
		defer file.Close()
		var content []byte
		must.Succeed(l, l.e.DB.Write(l.Context(), func(tx *sqldb.Tx) error { // no write may be between the checkpoint and the damage
			must.Do(tx.Exec("PRAGMA cache_size=1"))(l)
			must.Succeed(l, second.Script("PRAGMA wal_checkpoint(PASSIVE)"))
			// Prevent further checkpoints, which write pages.
			must.Succeed(l, unix.FcntlFlock(shm.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK, Start: 121, Len: 1}))
			content = must.ReadFile(l, path)
			for page := 2; page < len(content)/4096; page++ {
				if page%820 != 1 {
					must.Do(file.WriteAt(bytes.Repeat([]byte{0xff}, 4096), int64(page)*4096))(l)
				}
			}
			return nil
		}))
		effective = l.failsWithin(time.Second)
		must.Do(file.WriteAt(content, 0))(l)
		return effective
	}
	l.run(sqldb.Config{Dir: dir}, func() {
		for deadline := time.Now().Add(time.Minute); !damage(); { // all pages in use may be in the log or cached
			must.Require(l, time.Now().Before(deadline), "no damage has an effect")
		}
	})
}

// load simulates clients and workers of an endpoint, and records what they know.
type load struct {
	*testing.T
	e *tester

	mu       sync.Mutex
	jobs     map[string]*loadJob
	ids      []string // of acknowledged jobs
	errs     int      // calls of clients that returned an error
	ended    int
	duration time.Duration
}

// loadJob is what the clients and workers know of a job.
type loadJob struct {
	input          string // empty if the submission failed, perhaps after a worker got the job
	webhook        bool
	want           engine.State // once a worker's result was accepted, or the job was cancelled
	ends           int          // number of accepted results
	lost           int          // number of accepted reports that the job's worker died
	chunks         []string     // accepted in the last attempt
	maybeCancelled bool         // the cancellation returned an error, but may have had an effect
	webhookCalls   int
	readChunks     []string // that clients got
}

// update calls f for a job's record. A worker may get a job before its client knows the id.
func (l *load) update(id string, f func(j *loadJob)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jobs[id] == nil {
		l.jobs[id] = new(loadJob)
	}
	f(l.jobs[id])
}

// awaitProgress waits until further jobs have ended.
func (l *load) awaitProgress() {
	ended := func() int { l.mu.Lock(); defer l.mu.Unlock(); return l.ended }
	for n, deadline := ended(), time.Now().Add(time.Minute); ended() < n+20; time.Sleep(time.Millisecond) {
		must.Require(l, time.Now().Before(deadline), "fewer than 20 jobs ended within a minute")
	}
}

func (l *load) awaitErrors() { must.Require(l, l.failsWithin(time.Minute), "the fault has no effect") }

func (l *load) failsWithin(limit time.Duration) bool {
	errs := func() int { l.mu.Lock(); defer l.mu.Unlock(); return l.errs }
	n := errs()
	for deadline := time.Now().Add(limit); errs() == n && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	return errs() > n
}

// run causes a fault repeatedly under load, and then waits until all jobs have ended.
func (l *load) run(c sqldb.Config, fault func()) {
	c.NoNotify = true
	dir := l.TempDir()
	l.e = newTester(l.T, c, func(c *engine.Config) { c.DataDir = dir; c.SetPoll(50 * time.Millisecond) })
	start := time.Now()
	submitting, stopSubmitting := context.WithCancel(l.Context())
	working, stopWorking := context.WithCancel(l.Context())
	defer stopWorking()
	var clients, workers sync.WaitGroup
	for client := range 6 {
		clients.Go(func() {
			for n := 0; submitting.Err() == nil; n++ {
				l.submit(fmt.Sprintf(`{"n":"%d-%d"}`, client, n))
			}
		})
	}
	for worker := range 4 {
		workers.Go(func() { l.work(working, strconv.Itoa(worker)) })
	}
	workers.Go(func() { l.callWebhooks(working) })
	for range *faults {
		l.awaitProgress()
		fault()
	}
	l.awaitProgress()
	stopSubmitting()
	clients.Wait()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		n := l.e.Counts("ep")
		queues := l.e.CallQueues(nil)
		if n.InQueue+n.InProgress+len(queues) == 0 {
			break
		}
		must.Require(l, time.Now().Before(deadline), "a minute after the last submission, jobs haven't ended:", n, "and calls are due:", queues)
	}
	stopWorking()
	workers.Wait()
	l.duration = time.Since(start)
}

func (l *load) submit(input string) {
	n := engine.NewJob{Endpoint: "ep", Input: []byte(input)}
	if rand.IntN(4) == 0 {
		n.Webhook = "http://hooks.example/" + input
	}
	job, err := l.e.Submit(l.Context(), n)
	if err != nil {
		l.mu.Lock()
		l.errs++
		l.mu.Unlock()
		time.Sleep(time.Millisecond)
		return
	}
	l.update(job.ID, func(j *loadJob) {
		j.input, j.webhook = input, n.Webhook != ""
		l.ids = append(l.ids, job.ID)
	})
	if rand.IntN(8) == 0 {
		got, err := l.e.Cancel(l.Context(), "ep", job.ID)
		l.update(job.ID, func(j *loadJob) {
			if j.maybeCancelled = j.maybeCancelled || err != nil; got.State == engine.Cancelled {
				j.want = engine.Cancelled
			}
		})
	}
	l.mu.Lock()
	earlier := l.ids[rand.IntN(len(l.ids))]
	l.mu.Unlock()
	l.drain(job.ID)
	l.drain(earlier)
}

func (l *load) drain(id string) {
	_, chunks, _, err := l.e.Drain(l.Context(), "ep", id, engine.MaxDrain)
	must.Hold(l, !errors.Is(err, engine.ErrNotFound), "an acknowledged job is missing")
	l.update(id, func(j *loadJob) {
		if err != nil {
			l.errs++
		}
		for _, c := range chunks {
			j.readChunks = append(j.readChunks, strings.Split(string(c), ",")...)
		}
	})
}

// work takes and runs jobs as a worker. For each job it streams chunks, and then reports a result or that it died.
func (l *load) work(ctx context.Context, worker string) {
	next := engine.Take{Endpoint: "ep", Worker: worker, Max: 1}
	for ctx.Err() == nil {
		jobs, err := l.e.Take(ctx, next)
		for err == nil && len(jobs) > 0 {
			jobs = l.runJob(ctx, jobs[0], next)
		}
		if err != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

func (l *load) runJob(ctx context.Context, job engine.Taken, next engine.Take) (following []engine.Taken) {
	ctx = context.WithoutCancel(ctx)
	recordAccepted := func(d engine.Directive, err error, f func(j *loadJob)) {
		must.Hold(l, err == nil, "a report returned", err)
		if err == nil && d != engine.Stale {
			l.update(job.ID, f)
		}
	}
	l.update(job.ID, func(j *loadJob) { j.chunks = nil })
	for n := range rand.IntN(4) {
		text := fmt.Sprintf(`"%s %d %d"`, job.ID, job.Attempt, n)
		d, err := l.e.Report(ctx, job.Ref, engine.Chunk([]byte(text), nil))
		recordAccepted(d, err, func(j *loadJob) { j.chunks = append(j.chunks, `{"output":`+text+`}`) })
	}
	report, state := engine.Done(job.Input), engine.Completed
	switch {
	case rand.IntN(8) == 0:
		report, state = engine.Fail(string(job.Input), nil), engine.Failed
	case job.Retries == 0 && rand.IntN(16) == 0:
		d, err := l.e.Report(ctx, job.Ref, engine.Lost(""))
		recordAccepted(d, err, func(j *loadJob) { j.chunks, j.lost = nil, j.lost+1 })
		return nil
	}
	var recorded sync.WaitGroup
	recorded.Add(1)
	following = l.e.ReportAndTake(ctx, job.Ref, report, next, func(d engine.Directive, err error) {
		defer recorded.Done()
		recordAccepted(d, err, func(j *loadJob) {
			j.want = state
			j.ends++
			l.ended++
		})
	})
	recorded.Wait()
	return following
}

func (l *load) callWebhooks(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		queues := l.e.CallQueues(nil)
		for _, q := range queues {
			call, err := l.e.ClaimCall(l.Context(), q, nil, 50*time.Millisecond)
			if err == nil && call != nil {
				l.update(call.Job.ID, func(j *loadJob) { j.webhookCalls++ })
				l.e.RecordCall(call, time.Time{})
			}
		}
	}
}

// check compares the engine with what clients and workers know, also after a restart.
func (l *load) check() {
	var want engine.Counts
	for _, id := range l.ids {
		l.drain(id)
	}
	for restartCount := range 2 {
		if restartCount > 0 {
			l.e.restart()
		}
		want.Retried = 0
		states := map[engine.State]int{}
		for id, j := range l.jobs {
			if j.input == "" {
				l.e.expectState(id, "")
				continue
			}
			job := l.e.get(id)
			states[job.State]++
			want.Retried += j.lost
			must.Hold(l, job.State == j.want || j.maybeCancelled && job.State == engine.Cancelled, "job", id, "is", job.State, "want", j.want, "and CANCELLED is allowed:", j.maybeCancelled)
			must.Hold(l, string(job.Output)+job.Error == j.input || job.State == engine.Cancelled, "job", id, "has", string(job.Output), job.Error, "want", j.input)
			must.Hold(l, j.ends <= 1, "job", id, "ended", j.ends, "times")
			must.Hold(l, !j.webhook || j.webhookCalls > 0 || job.State == engine.Cancelled, "the webhook of", id, "wasn't called")
			slices.Sort(j.readChunks)
			must.Equal(l, len(slices.Compact(slices.Clone(j.readChunks))), len(j.readChunks), "a chunk was read twice:", j.readChunks)
			for _, c := range j.chunks {
				must.Hold(l, slices.Contains(j.readChunks, c), "the chunk", c, "of a job that is", job.State, "was never read; read were", j.readChunks)
			}
		}
		want.Completed, want.Failed = states[engine.Completed], states[engine.Failed]
		l.e.expectCounts(want)
		var rows int
		var stored [6]int
		must.Succeed(l, l.e.DB.Read(l.Context(), func(r *sqldb.Reader) error {
			return errors.Join(r.QueryRow("SELECT COUNT(*) FROM jobs").Scan(&rows),
				r.QueryRow("SELECT in_queue, waiting, in_progress, completed, failed, retried FROM counts").Scan(&stored[0], &stored[1], &stored[2], &stored[3], &stored[4], &stored[5]))
		}))
		must.Equal(l, rows, len(l.ids), "the number of stored jobs")
		must.Equal(l, stored, [6]int{3: want.Completed, 4: want.Failed, 5: want.Retried}, "the stored counts")
		if restartCount > 0 {
			l.Logf("%d faults in %s: %d jobs: %v, %d errors, %d lost workers", *faults, l.duration.Round(100*time.Millisecond), len(l.ids), states, l.errs, want.Retried)
		}
	}
}

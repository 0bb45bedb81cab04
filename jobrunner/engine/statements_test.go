package engine

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/smalldisk"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

func openEmpty(t *testing.T, config sqldb.Config) (*Engine, *sqldb.DB) {
	t.Helper()
	db := must.Do(sqldb.Open(t.Context(), config))(t)
	e := must.Do(Open(t.Context(), Config{DB: db, Clock: new(clock.Clock), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}))(t)
	t.Cleanup(func() {
		e.Close()
		must.Equal(t, db.Close(), nil)
	})
	return e, db
}

// perJob are the statements that a commit runs for each job; on PostgreSQL for several at once, which
// TestCommitsReadTheirRows checks. lookups are the others for one job or endpoint, and the sweeper's.
var (
	perJob  = []string{insertJob, upsertJob, insertInput, upsertInput, updateRun, updateJob, deleteJob, insertOutput, upsertOutput, deleteOutput, insertChunk, insertNewChunk, deleteChunks, upsertCounts, upsertBatch, deleteBatch}
	lookups = []string{
		selectActive, selectInput, jobByKey, jobByOldID, selectCounts, deleteCounts, newestOfEndpoint,
		deleteExpired, nextExpiry, deleteOfEndpoint, unreadChunks, deleteReadChunks, countUnread, claimLeadership, releaseLeadership,
		deleteBatchesOf, selectBatches, selectRequests,
	}
)

// Statements for one job or endpoint and for the sweeper use indexes.
func TestStatementsUseIndexes(t *testing.T) {
	_, db := openEmpty(t, sqldb.Config{Dir: t.TempDir()})
	for _, statement := range append(perJob, lookups...) {
		err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
			return tx.Each(func(row sqldb.Row) error {
				var id, parent, unused int
				var detail string
				err := row.Scan(&id, &parent, &unused, &detail)
				indexed := strings.HasPrefix(detail, "SEARCH") || strings.Contains(detail, "USING INDEX") || strings.Contains(detail, "USING COVERING INDEX")
				must.Hold(t, !strings.Contains(detail, "TEMP B-TREE") && (!strings.HasPrefix(detail, "SCAN jobs") || indexed), "the plan of", statement, "has", detail)
				return err
			}, "EXPLAIN QUERY PLAN "+statement, make([]any, strings.Count(statement, "?"))...)
		})
		must.Hold(t, err == nil, statement, err)
	}
}

// On PostgreSQL these statements use indexes even with plans that were cached while the tables were empty.
func TestStatementsUseIndexesOnPostgreSQL(t *testing.T) {
	address := pgtest.Start(t)
	_, db := openEmpty(t, sqldb.Config{URL: address})
	pgtest.Exec(t, address, "VACUUM ANALYZE")
	for _, statement := range lookups {
		err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
			// A generic plan: the plan for NULL arguments would read nothing.
			for _, set := range []string{"SET LOCAL plan_cache_mode = force_generic_plan", "PREPARE planned AS " + statement} {
				if _, err := tx.Exec(set); err != nil {
					return err
				}
			}
			execute := "EXECUTE planned"
			if n := strings.Count(statement, "?"); n > 0 {
				execute += "(NULL" + strings.Repeat(", NULL", n-1) + ")"
			}
			var plan []string
			err := tx.Each(func(row sqldb.Row) error {
				var line string
				err := row.Scan(&line)
				plan = append(plan, line)
				return err
			}, "EXPLAIN "+execute)
			must.Equal(t, fullScan(plan), "", "the full scan in the plan of", statement, "\n", strings.Join(plan, "\n"))
			if err != nil {
				return err
			}
			return must.Err(tx.Exec("DEALLOCATE planned"))
		})
		must.Hold(t, err == nil, statement, err)
	}
}

// fullScan returns the line of a PostgreSQL plan that scans a whole table or index, or "". It ignores scans of few
// rows: with a condition or a limit, of small tables, and of the index of active jobs.
func fullScan(plan []string) string {
	limited := false
	for i, line := range plan {
		limited = limited || strings.Contains(line, "Limit ")
		scan := strings.Contains(line, "Scan on ") || strings.Contains(line, "Scan using ")
		small := strings.Contains(line, " on processes") || strings.Contains(line, " on leads") || strings.Contains(line, "Tid Scan") || strings.Contains(line, "CTE Scan") || strings.Contains(line, "Subquery Scan") ||
			strings.Contains(line, "jobs_active")
		if !scan || small || limited {
			limited = limited && !scan
			continue
		}
		hasCondition := false
		for _, below := range plan[i+1:] {
			if strings.Contains(below, "->") {
				break
			}
			indexed := strings.Contains(below, "Index Cond") || strings.Contains(below, "Recheck Cond")
			hasCondition = hasCondition || indexed && (!strings.Contains(line, "jobs_endpoint") || strings.Contains(below, "(endpoint = "))
		}
		if !hasCondition && !strings.Contains(line, "Bitmap Index Scan") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// Commits on PostgreSQL read only their own rows, also with plans cached while the tables were empty.
func TestCommitsReadTheirRows(t *testing.T) {
	const jobs, application = 200, "rows-of-commits"
	address := pgtest.Start(t)
	t.Run("jobs", func(t *testing.T) {
		e, _ := openEmpty(t, sqldb.Config{URL: address + "&application_name=" + application, NoNotify: true})
		pgtest.Exec(t, address, "VACUUM ANALYZE")
		for range jobs {
			must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(t)
			taken := must.Do(e.TakeQueued(t.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1}))(t)
			for _, r := range []Report{Chunk([]byte("1"), nil), Done([]byte("2"))} {
				must.Do(e.Report(t.Context(), taken[0].Ref, r))(t)
			}
		}
		must.Succeed(t, e.DropEndpoint(t.Context(), "ep"))
	})
	// The server's processes add their numbers to the statistics when they end.
	pgtest.Exec(t, address, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = '"+application+"'")
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: address, NoNotify: true}))(t)
	defer db.Close()
	var read int
	must.Succeed(t, db.Read(t.Context(), func(r *sqldb.Reader) error {
		return r.QueryRow("SELECT SUM(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE schemaname = current_schema()").Scan(&read)
	}))
	must.Hold(t, read > jobs && read < 40*jobs, read, "rows were read for", jobs, "jobs, want at most 40 rows for each")
}

// If the reply to a commit was lost, the commit is repeated, alone or merged with the next commit. Chunks
// that were read meanwhile aren't stored again, and no other chunk is lost.
func TestRepeatedCommit(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{URL: pgtest.Start(t), NoNotify: true})
	j := NewJob{Endpoint: "ep"}.job(e.newKey(), e.now())
	commitOfChunks := func(seqs ...int64) *commit {
		ch := &change{job: j, row: j.row}
		for _, seq := range seqs {
			ch.chunks, ch.row.streamed = append(ch.chunks, numberedChunk{seq, []byte(strconv.FormatInt(seq, 10))}), seq
		}
		return &commit{changes: []*change{ch}, process: e.Process()}
	}
	submission, next, cleared, last := commitOfChunks(1), commitOfChunks(2, 3), commitOfChunks(4), commitOfChunks(5)
	submission.changes[0].isNew, submission.changes[0].input = true, []byte("{}")
	cleared.changes[0].clearsResult = true
	for _, step := range []struct {
		commits []*commit
		want    string
	}{
		{[]*commit{submission}, "1"},
		{[]*commit{submission}, ""},
		{[]*commit{submission, next}, "23"},
		{[]*commit{submission, next}, ""},
		{[]*commit{next}, ""},
		{[]*commit{cleared}, "4"},
		{[]*commit{cleared, last}, "5"},
	} {
		must.Do(e.commits.try(step.commits))(t)
		all, more, err := e.store.drain(t.Context(), j.key, MaxDrain)
		var read strings.Builder
		for _, n := range all {
			read.Write(n.chunk)
		}
		must.Hold(t, err == nil && !more && read.String() == step.want, "drained the chunks", read.String(), "with more:", more, err, "want", step.want)
	}
	must.Do(e.commits.try([]*commit{cleared, commitOfChunks(6)}))(t)
	must.Do(e.commits.try([]*commit{cleared, commitOfChunks(6)}))(t)
	all, _, err := e.store.drain(t.Context(), j.key, MaxDrain)
	must.Hold(t, err == nil && len(all) == 1 && all[0].seq == 6, "drained the chunks", all, err, "want chunk 6")
}

// Nothing remains of a running job that another process has deleted with its endpoint.
func TestDeletedByOtherProcess(t *testing.T) {
	e, db := openEmpty(t, sqldb.Config{URL: pgtest.Start(t)})
	must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(t)
	jobs := must.Do(e.Take(t.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1}))(t)
	must.Succeed(t, e.WaitUntilStored(t.Context(), jobs[0].Ref))
	must.Do(e.store.deleteJobs(t.Context(), deleteOfEndpoint, "ep", 1))(t)
	for _, r := range []Report{Chunk([]byte("1"), nil), Done([]byte("2"))} {
		must.Do(e.Report(t.Context(), jobs[0].Ref, r))(t)
	}
	for _, table := range []string{"jobs", "inputs", "outputs", "chunks"} {
		var n int
		must.Succeed(t, db.Read(t.Context(), func(r *sqldb.Reader) error { return r.QueryRow("SELECT COUNT(*) FROM " + table).Scan(&n) }))
		must.Equal(t, n, 0, "the number of rows in", table)
	}
}

// Changes from before this process lost its leadership aren't stored under its new id.
func TestFormerLeaderStoresNothing(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{URL: pgtest.Start(t), NoNotify: true})
	must.Do(e.lock(t.Context(), "ep"))(t).unlock()
	former := &commit{process: "former", failed: make(chan struct{}), changes: []*change{{isNew: true, row: row{key: 1, endpoint: "ep", id: "x", state: InQueue}}}}
	e.commits.storeWithRetries(t.Context(), []*commit{former})
	must.Hold(t, former.hasFailed() && errors.Is(former.err, ErrNotLeader), "storing the former leader's commit returned", former.err)
	must.Hold(t, e.loadedQueue("ep") != nil, "the failed commit of the former id ended the new leadership")
	err := e.store.commit(former, false)
	must.ErrorIs(t, err, ErrNotLeader, "storing the former leader's commit again")
}

// A process that gets a new id leads no endpoint: changes of its queues must not be stored under the new id.
func TestNewIDEndsLeadership(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{URL: pgtest.Start(t)})
	must.Do(e.lock(t.Context(), "ep"))(t).unlock()
	must.Succeed(t, e.join(t.Context()))
	must.Hold(t, e.loadedQueue("ep") == nil, "the process still has the queue")
	e.Close() // no commit meanwhile
	e.spool.entries = []*entry{{Ref: Ref{Endpoint: "ep", ID: "x"}, commit: e.commits.open}}
	e.dropLeadership()
	must.Equal(t, len(e.spool.entries), 0, "reports that wait for the database")
}

// If the disk is full, changes that fit are stored, and aren't stored again later, over newer changes.
func TestPartOfACommitOnAFullDisk(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: smalldisk.Mount(t, "30m") + "/data"})
	submit := func(size int) (*job, error) {
		submitted, err := e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: make([]byte, size)})
		if err != nil {
			return nil, err
		}
		return e.loadedQueue("ep").jobs[submitted.ID], nil
	}
	small, large := must.Do(submit(1))(t), must.Do(submit(1))(t)
	for size := 1 << 20; size > 1<<10; size /= 2 {
		for err := error(nil); err == nil; _, err = submit(size) {
		}
	}
	for i := range 9 {
		endpoint := "ep" + strconv.Itoa(i)
		created, stored := must.Do(e.CreateBatch(t.Context(), endpoint, nil))(t), newQueue(e, BatchQueue(endpoint), 0)
		must.Succeed(t, stored.loadBatches(t.Context()))
		must.Require(t, must.Err(stored.findBatch(created.ID)) == nil, "batch", i, "isn't stored")
	}
	must.ErrorContains(t, must.Err(e.CreateBatch(t.Context(), "ep", [][]byte{make([]byte, 8<<20)})), "full")
	_, total, err := e.Batches(t.Context(), "ep", 0, 1)
	must.Hold(t, err == nil && total == 0, "after the creation of a batch failed,", total, "batches exist", err)
	newChange := func(j *job, streamed int64, output []byte) *change {
		ch := &change{job: j, row: j.row, setsResult: output != nil, output: output}
		ch.row.streamed = streamed
		return ch
	}
	unstored, err := e.commits.try([]*commit{{changes: []*change{newChange(small, 1, nil), newChange(large, 1, make([]byte, 8<<20))}, batches: []*batch{{key: 1, state: BatchDraft}}}})
	must.Require(t, sqldb.Classify(err) == sqldb.Full && len(unstored) == 1 && len(unstored[0].changes) == 1 && unstored[0].changes[0].job == large, "the unstored commits are", unstored, err, "want only the change of the large job")
	must.Succeed(t, e.store.commit(&commit{changes: []*change{newChange(small, 2, nil)}}, true))
	must.Succeed(t, e.store.commit(&commit{batches: []*batch{{key: 1, state: BatchFinalized}}}, true))
	must.ErrorContains(t, must.Err(e.commits.try(unstored)), "full")
	stored := newQueue(e, queueSuffix, 0)
	must.Succeed(t, stored.loadBatches(t.Context()))
	must.Equal(t, stored.batches[1].state, BatchFinalized, "the state of the batch")
	for j, streamed := range map[*job]int64{small: 2, large: 0} {
		stored, err := e.store.job(t.Context(), "ep", j.id, 0, e.now())
		must.Hold(t, err == nil && stored.streamed == streamed, "the stored job is", stored, err, "want", streamed, "streamed chunks")
	}
	taken := must.Do(e.TakeQueued(t.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1}))(t)[0]
	must.Do(e.Report(t.Context(), taken.Ref, Done(make([]byte, 8<<20))))(t)
	must.ErrorContains(t, must.Err(e.Cancel(t.Context(), "ep", taken.ID)), "full")
	_, open := e.commits.size() // without changes, but a flush may wait for it
	must.ErrorContains(t, open.wait(), "full")
}

// A merged change stores everything that one of its changes stores.
func TestMergedChanges(t *testing.T) {
	j := &job{}
	first := &change{job: j, row: row{deleteAt: 1, streamed: 1}, wholeRow: true, setsResult: true, output: []byte("1"), chunks: []numberedChunk{{seq: 1}}}
	second := &change{job: j, row: row{deleteAt: 1, streamed: 2}, chunks: []numberedChunk{{seq: 2}}}
	all := mergeCommits([]*commit{{changes: []*change{first}}, {changes: []*change{second}}}).changes
	must.Require(t, len(all) == 1, "the merged changes are", all, "want one change")
	ch := all[0]
	must.Hold(t, ch.row.streamed == 2 && ch.wholeRow && ch.setsResult && string(ch.output) == "1" && len(ch.chunks) == 2, "the merged change is", ch)
}

// A submission that passed the check for outages before an outage began, and is recorded during the
// outage, is rejected at once. When the outage ends, the job isn't stored, nor counted if a worker ran it.
func TestSubmissionAtTheStartOfAnOutage(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: t.TempDir()})
	q := must.Do(e.lock(t.Context(), "ep"))(t)
	e.commits.mu.Lock()
	e.commits.currentErr.Store(&sqldb.ErrUnavailable)
	e.commits.renew()
	e.commits.mu.Unlock()
	j := NewJob{Endpoint: "ep", Input: []byte("{}")}.job(e.newKey(), e.now())
	q.add(j)
	q.record(event{}, effect{to: InQueue}, j)
	for _, ev := range []event{{kind: taken}, {kind: lost, attempt: 1}, {kind: taken}, {kind: completed, attempt: 2}} {
		must.Hold(t, q.apply(j, ev).ok, "the event", ev, "doesn't apply")
	}
	c := q.unlock()
	must.ErrorIs(t, c.wait(), sqldb.ErrUnavailable)
	<-c.done
	must.ErrorIs(t, must.Err(e.Get(t.Context(), "ep", j.id)), ErrNotFound)
	must.Equal(t, must.Do(e.store.counts(t.Context(), "ep"))(t), Counts{})
}

// A call stores all its requests of a batch, or none: they share a commit, even if the committer runs meanwhile.
func TestRequestsOfACallShareACommit(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: t.TempDir()})
	q := must.Do(e.lock(t.Context(), BatchQueue("ep")))(t)
	must.Do(q.addRequests(&batch{key: e.newKey(), endpoint: "ep", state: BatchDraft, requests: map[State]int{}}, slices.Repeat([][]byte{[]byte("{}")}, MaxBatchRequests)))(t)
	commits := map[*commit]bool{}
	for _, j := range q.jobs {
		commits[j.change.commit] = true
	}
	must.Hold(t, len(commits) == 1 && commits[q.open], "the requests are in", len(commits), "commits")
	q.unlock()
}

// If a process is killed while the disk is full, the next start counts the active jobs: stored counts may be wrong.
func TestActiveJobsAreCounted(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: t.TempDir()})
	for range 2 {
		must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(t)
	}
	must.Do(e.exec(t.Context(), upsertCounts, "ep", 0, 0, -1, 5, 6, 7))(t)
	_, counts, err := e.store.load(t.Context(), "ep")
	must.Hold(t, err == nil && counts == Counts{InQueue: 2, waiting: 2, Completed: 5, Failed: 6, Retried: 7}, "the loaded counts are", counts, err)
}

// If a job's due time is set during a sweep, the next sweep starts then, not at once: under load, sweeps would never pause.
func TestWakeDuringASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEmpty(t, sqldb.Config{})
		q := must.Do(e.lock(t.Context(), "ep"))(t)
		q.unlock()
		synctest.Wait()
		q.mu.Lock()
		notify.Signal(e.sweepNow)
		for e.wakeAt.Load() != never { // until the sweep waits for the queue
			runtime.Gosched()
		}
		due := e.now() + 1000
		e.wake(due)
		q.unlock()
		synctest.Wait()
		must.Equal(t, e.wakeAt.Load(), due, "the time of the next sweep")
		time.Sleep(time.Second)
		synctest.Wait()
		must.Hold(t, e.wakeAt.Load() > due, "the sweeper didn't run at the new time")
	})
}

// Calls that wait for a queue while this process loses its leadership don't change the queue's jobs.
func TestClosedQueueStaysUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEmpty(t, sqldb.Config{})
		id := must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(t).ID
		must.Do(e.TakeQueued(t.Context(), Take{Endpoint: "ep", Worker: "w", Max: 1}))(t)
		q := e.loadedQueue("ep")
		synctest.Wait()
		q.mu.Lock()
		time.Sleep(DefaultTimeout)
		go func() { must.ErrorIs(t, must.Err(e.Get(t.Context(), "ep", id)), ErrNotFound) }()
		for range 1000 { // until Get and the sweep wait for the queue
			runtime.Gosched()
		}
		q.close()
		q.mu.Unlock()
		synctest.Wait()
		must.Equal(t, q.jobs[id].state, InProgress)
	})
}

// An unreadable spooled report stays in the data folder until its endpoint is deleted, and so do the chunks of a failed read in memory.
func TestUnreadableReportIsKept(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: t.TempDir()})
	path := filepath.Join(t.TempDir(), "1"+spoolSuffix)
	must.Succeed(t, os.WriteFile(path, []byte("damaged"), 0o600))
	e.spool.entries = []*entry{{Ref: Ref{Endpoint: "ep", ID: "x"}, path: path}}
	must.Do(e.lock(t.Context(), "ep"))(t).unlock()
	must.Equal(t, string(must.ReadFile(t, path)), "damaged", "the content of the report's file")
	j := must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(t)
	must.Do(e.Cancel(t.Context(), "ep", j.ID))(t)
	e.store.undelivered[j.key] = []numberedChunk{{1, []byte("12345")}}
	must.Succeed(t, e.DropEndpoint(t.Context(), "ep"))
	must.ErrorIs(t, must.Err(os.Stat(path)), fs.ErrNotExist)
	must.Equal(t, len(e.store.undelivered), 0, "the jobs with undelivered chunks")
}

// A worker doesn't take many retried jobs at once, because their inputs, which only the store has, may be large.
func TestTakeOfRetriedJobs(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: t.TempDir()})
	var ids []string
	for range 20 {
		id := must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("{}")}))(t).ID
		taken := must.Do(e.TakeQueued(t.Context(), Take{Endpoint: "ep", Max: 1}))(t)
		must.Do(e.Report(t.Context(), taken[0].Ref, Fail("no", nil)))(t)
		ids = append(ids, id)
	}
	for _, id := range ids {
		must.Do(e.Retry(t.Context(), "ep", id))(t)
	}
	jobs := must.Do(e.TakeQueued(t.Context(), Take{Endpoint: "ep", Max: 20}))(t)
	must.Equal(t, len(jobs), maxTake/assumedInputSize, "the number of jobs")
}

// If a process is killed while it drops an endpoint, the next start finds the rest through the row of counts, which is deleted last.
func TestInterruptedDrop(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: t.TempDir()})
	must.Do(e.CreateBatch(t.Context(), "ep", nil))(t)
	must.Do(e.exec(t.Context(), "CREATE TRIGGER kill BEFORE DELETE ON batches BEGIN SELECT RAISE(FAIL, 'killed'); END"))(t)
	must.ErrorContains(t, e.DropEndpoint(t.Context(), "ep"), "killed")
	must.Equal(t, len(must.Do(e.StoredQueues(t.Context()))(t)), 1, "the number of stored queues")
}

// A worker that takes jobs with its reports doesn't outrun the store.
func TestTakesWaitForTheStore(t *testing.T) {
	e, db := openEmpty(t, sqldb.Config{Dir: t.TempDir()})
	for range 3 * maxOpen {
		must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte(`1`)}))(t)
	}
	must.Succeed(t, db.Write(t.Context(), func(*sqldb.Tx) error { // no commit meanwhile
		next, n := Take{Endpoint: "ep", Max: 1}, 0
		for jobs := must.Do(e.Take(t.Context(), next))(t); len(jobs) > 0; n++ {
			jobs = e.ReportAndTake(t.Context(), jobs[0].Ref, Done(nil), next, func(Directive, error) {})
		}
		must.Hold(t, n < 5*maxOpen/2, n, "jobs ran") // a commit that waits for the database has some of them
		return nil
	}))
}

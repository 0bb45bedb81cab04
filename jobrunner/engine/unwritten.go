package engine

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// jobRow is a job with its input and output, as it will be written to the tables. The schema
// explains the columns. Times are milliseconds since 1970.
type jobRow struct {
	k              int64 // key of the row; 0 if the job isn't in the table yet, or running is true
	running        bool  // from handedOut: the job was running in the table
	endpoint, id   string
	low            bool
	webhook, owner string
	execution      int64 // execution timeout; 0: the endpoint's
	keep           int64 // retention
	submitted      int64 // only set if k is 0
	queued         int64
	retries        int
	expires, gone  int64
	input, rest    []byte

	state             State
	worker            string
	attempt           int
	started, deadline int64
	finished          int64
	output            []byte
	message           string // the error of a failed job
}

// row returns the row of a job submitted now.
func (n NewJob) row(id string, now int64) jobRow {
	gone := now + cmp.Or(n.TTL, DefaultTTL).Milliseconds()
	return jobRow{endpoint: n.Endpoint, id: id, low: n.Low, webhook: n.Webhook, owner: n.webhookOwner(), execution: n.Timeout.Milliseconds(), keep: n.retention().Milliseconds(),
		submitted: now, queued: now, expires: gone, gone: gone, input: n.Input, rest: n.Rest, state: InQueue}
}

// rowWrites maps statements to their arguments, one list for each job.
type rowWrites map[string][][]any

func (w rowWrites) add(statement string, args ...any) { w[statement] = append(w[statement], args) }

// run runs each statement for all its rows.
func (w rowWrites) run(tx *sqldb.Tx) error {
	for _, statement := range []string{insertJob, insertInput, insertOutput, startJob, startAndEndJob, upsertOutput} {
		if err := tx.LaterEach(statement, w[statement]); err != nil {
			return err
		}
	}
	return tx.UpdateAll(endRunningJob, w[endRunningJob])
}

// addJob adds the statements that write a job. A COMPLETED job is written without its
// input, which only a rerun or a webhook would need.
func (w rowWrites) addJob(j *jobRow, process string, now int64) {
	switch {
	case j.running:
		w.add(endRunningJob, j.state, j.finished, now, j.endpoint, j.id, j.finished, j.worker, j.attempt, j.finished)
		w.add(insertOutput, j.endpoint, j.id, j.output, j.message)
		return
	case j.k != 0 && j.state == InProgress:
		w.add(startJob, j.worker, process, j.attempt, j.started, j.deadline, j.k)
		return
	case j.k != 0:
		w.add(startAndEndJob, j.state, j.worker, process, j.attempt, j.started, j.deadline, j.finished, j.gone, j.k)
		w.add(upsertOutput, j.k, j.output, j.message)
		return
	case j.state == InQueue:
		process = ""
	}
	w.add(insertJob, j.endpoint, j.id, j.state, boolToInt(j.low), j.webhook, j.owner, j.execution, j.keep, j.submitted, j.submitted, j.submitted, j.expires, j.gone,
		j.worker, process, j.attempt, j.started, j.deadline, j.finished)
	if j.state != Completed {
		w.add(insertInput, j.endpoint, j.id, j.input, j.rest)
	}
	if j.state.Terminal() {
		w.add(insertOutput, j.endpoint, j.id, j.output, j.message)
	}
}

// unwritten holds the jobs whose latest changes have not been written to the tables: the
// changes of the commit in progress or, if the database is in memory, since the last commit.
// Most short jobs are submitted, taken and ended in that time, and are then written once.
// Only submissions, takes and results change a job here; any other transaction first writes
// all jobs.
type unwritten struct {
	jobs   map[jobKey]*jobRow
	order  []*jobRow              // in order of submission or take
	queue  map[string][]*jobRow   // by endpoint: queued jobs that aren't in the table, some of them expired
	queues map[string]*tableQueue // by endpoint
	leads  map[leadKey]bool       // results of selectLead
	bytes  int

	ended, endedBytes int // jobs that have ended, and their bytes
}

func newUnwritten() *unwritten {
	return &unwritten{jobs: map[jobKey]*jobRow{}, queue: map[string][]*jobRow{}, queues: map[string]*tableQueue{}, leads: map[leadKey]bool{}}
}

type leadKey struct {
	endpoint string
	Lead
}

// tableQueue prefetches the beginning of an endpoint's queue in the table. The table still
// shows jobs as queued that a worker has taken since.
type tableQueue struct {
	rows    []*jobRow // read, and not taken
	taken   int       // number of jobs that were read and taken
	turn, k int64     // of the last job that was read
	read    int       // number of jobs that the next read requests
	end     bool      // the whole queue has been read
}

const (
	// The first read of a queue requests a few more jobs than the last batch took, at least
	// minRead; each further read doubles the number. No read requests more than maxRead.
	minRead, maxRead = 4, 64
	// readBytes ends a read once its inputs have this size.
	readBytes = 1 << 20
)

// maxUnwritten bounds the inputs and outputs of unwritten jobs, in bytes. They don't
// count when a transaction checks for free space.
const maxUnwritten = 16 << 20

// A write is due when dueEnded jobs have ended, when their data exceeds dueEndedBytes, or
// when all unwritten jobs together exceed dueJobs or dueBytes. If few jobs have not ended,
// the write leaves them out, because most of them end soon.
const (
	dueEndedBytes                 = 1 << 20
	dueJobs, dueBytes             = 1024, maxUnwritten / 2
	maxDeferred, maxDeferredBytes = dueJobs / 2, dueBytes / 2
	// maxDeferral bounds how long a job is left out, in milliseconds. Lists are sorted by
	// the key of the row, so their order can differ from the order of submission by as much.
	maxDeferral = 1000
)

var dueEnded = 64 // a variable for a test

// unwrittenIn returns the unwritten jobs of a transaction, or nil if the transaction
// writes its jobs at once.
func unwrittenIn(tx *sqldb.Tx) *unwritten {
	batch := tx.Batch()
	if batch == nil {
		return nil
	}
	if batch.Value == nil {
		batch.Value = newUnwritten()
	}
	return batch.Value.(*unwritten)
}

// writeOut writes the unwritten jobs, except those that may be deferred. It doesn't modify
// the jobs, because the transaction may fail.
func (e *Engine) writeOut(tx *sqldb.Tx) error {
	batch := tx.Batch()
	if batch == nil || batch.Value == nil {
		return nil
	}
	u := batch.Value.(*unwritten)
	var deferred *unwritten
	if batch.MayDefer && u.canDefer(e.now()) {
		deferred = newUnwritten()
		deferred.queue, deferred.queues = u.queue, u.queues
	}
	rows := rowWrites{}
	for _, j := range u.order {
		if deferred != nil && !j.state.Terminal() {
			deferred.add(j)
		} else {
			rows.addJob(j, e.Process(), e.now())
		}
	}
	if err := rows.run(tx); err != nil {
		return err
	}
	if !e.db.InMemory() { // in memory, few running jobs are written, and a batch is not run again
		e.handedOut.remember(u)
	}
	batch.Value = nil
	if deferred != nil {
		batch.Value = deferred
	}
	return nil
}

// canDefer reports whether the jobs that have not ended can stay unwritten.
func (u *unwritten) canDefer(now int64) bool {
	return len(u.order)-u.ended <= maxDeferred && u.bytes-u.endedBytes <= maxDeferredBytes &&
		!slices.ContainsFunc(u.order, func(j *jobRow) bool { return !j.state.Terminal() && j.queued < now-maxDeferral })
}

func (u *unwritten) add(j *jobRow) {
	u.jobs[jobKey{j.endpoint, j.id}] = j
	u.order = append(u.order, j)
	u.bytes += len(j.input) + len(j.rest)
}

// setDue tells the database whether a write is due.
func (u *unwritten) setDue(tx *sqldb.Tx) {
	tx.Batch().Due = u.ended >= dueEnded || u.endedBytes >= dueEndedBytes || len(u.order) >= dueJobs || u.bytes >= dueBytes
}

// write is DB.Write for transactions that need all jobs in the tables.
func (e *Engine) write(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return e.db.Write(ctx, e.afterWriteOut(fn))
}

// writeWithReserve is DB.WriteWithReserve for transactions that need all jobs in the tables.
func (e *Engine) writeWithReserve(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return e.db.WriteWithReserve(ctx, e.afterWriteOut(fn))
}

func (e *Engine) afterWriteOut(fn func(*sqldb.Tx) error) func(*sqldb.Tx) error {
	return func(tx *sqldb.Tx) error {
		if err := e.writeOut(tx); err != nil {
			return err
		}
		return fn(tx)
	}
}

// insert adds a submitted job. A job with a webhook is written at once, because the
// webhook call refers to its row.
func (e *Engine) insert(tx *sqldb.Tx, row jobRow) error {
	u := unwrittenIn(tx)
	n := len(row.input) + len(row.rest)
	if u == nil || row.webhook != "" || n > maxUnwritten {
		if err := e.writeOut(tx); err != nil {
			return err
		}
		rows := rowWrites{}
		rows.addJob(&row, e.Process(), e.now())
		return rows.run(tx)
	}
	if u.bytes+n > maxUnwritten {
		if err := e.writeOut(tx); err != nil {
			return err
		}
		u = unwrittenIn(tx)
	}
	u.add(&row)
	u.queue[row.endpoint] = append(u.queue[row.endpoint], &row)
	u.setDue(tx)
	return nil
}

// prefetch reads enough of the queue in the table for one call of next, which then can't
// fail.
func (e *Engine) prefetch(tx *sqldb.Tx, t Take) error {
	u := unwrittenIn(tx)
	if u == nil {
		return nil
	}
	lead := leadKey{t.Endpoint, t.Lead}
	leads, known := u.leads[lead]
	if t.Lead == (Lead{}) {
		leads, known = true, true
	}
	if known && !leads {
		return nil
	}
	table, now := u.queues[t.Endpoint], e.now()
	if table == nil {
		table = &tableQueue{turn: -1, read: min(minRead+e.handedOut.lastTaken(t.Endpoint), maxRead)}
		u.queues[t.Endpoint] = table
	}
	for table.skipExpired(now); len(table.rows) == 0 && !table.end; table.skipExpired(now) {
		if err := table.fill(tx, t, !known, now); err != nil {
			return err
		}
		if len(table.rows) > 0 {
			u.leads[lead], known = true, true
		}
	}
	if known {
		return nil
	}
	leads, err := u.isLead(tx, t)
	table.end = table.end && leads // fill reads nothing unless the process leads
	return err
}

func (q *tableQueue) skipExpired(now int64) {
	for len(q.rows) > 0 && q.rows[0].gone <= now {
		q.rows = q.rows[1:]
	}
}

// next removes and returns the first job of an endpoint's queue, or nil if the queue is
// empty. Jobs in the table come first. The caller has called prefetch.
func (u *unwritten) next(t Take, now int64) *jobRow {
	if t.Lead != (Lead{}) && !u.leads[leadKey{t.Endpoint, t.Lead}] {
		return nil
	}
	endpoint := t.Endpoint
	if table := u.queues[endpoint]; len(table.rows) > 0 {
		j := table.rows[0]
		table.rows = table.rows[1:]
		table.taken++
		u.add(j)
		return j
	}
	for queue := u.queue[endpoint]; len(queue) > 0; {
		j := queue[0]
		queue = queue[1:]
		u.queue[endpoint] = queue
		if j.gone > now {
			return j
		}
	}
	return nil
}

// isLead reports whether the worker's process leads the endpoint.
func (u *unwritten) isLead(tx *sqldb.Tx, t Take) (leads bool, err error) {
	err = tx.QueryRow(selectLead, EndpointOf(t.Endpoint), t.Lead.Process, t.Lead.Epoch).Scan(new(int))
	leads = err == nil
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	if err == nil {
		u.leads[leadKey{t.Endpoint, t.Lead}] = leads
	}
	return leads, err
}

// fill reads the next jobs of the queue. If ofLead is true, it reads none unless the
// worker's process leads the endpoint.
func (q *tableQueue) fill(tx *sqldb.Tx, t Take, ofLead bool, now int64) (err error) {
	statement, args := waitingJobs, []any{t.Endpoint, now, q.turn, q.k}
	if ofLead {
		statement, args = waitingJobsOfLead, append(args, EndpointOf(t.Endpoint), t.Lead.Process, t.Lead.Epoch)
	}
	rows, err := tx.Query(statement, append(args, q.read)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	bytes := 0
	for bytes < readBytes && rows.Next() {
		j := &jobRow{endpoint: t.Endpoint, state: InQueue}
		var low int
		if err := rows.Scan(&j.k, &j.id, &low, &j.webhook, &j.execution, &j.keep, &j.queued, &j.expires, &j.gone, &j.attempt, &j.retries, &q.turn, &j.input, &j.rest); err != nil {
			return err
		}
		j.low, q.k = low == 1, j.k
		bytes += len(j.input) + len(j.rest)
		q.rows = append(q.rows, j)
	}
	q.end = bytes < readBytes && len(q.rows) < q.read
	q.read = min(2*q.read, maxRead)
	return rows.Err()
}

// load reads a job from the table if the worker still runs it, so that its result is
// written later. It leaves out jobs with a webhook, because the call refers to the row.
func (u *unwritten) load(tx *sqldb.Tx, ref Ref, at int64) error {
	j := &jobRow{endpoint: ref.Endpoint, id: ref.ID, state: InProgress, worker: ref.Worker, attempt: ref.Attempt}
	var low int
	err := tx.QueryRow(selectHeldJob, ref.Endpoint, ref.ID, at, ref.Worker, ref.Attempt, at).
		Scan(&j.k, &low, &j.keep, &j.queued, &j.expires, &j.gone, &j.retries, &j.started, &j.deadline)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	j.low = low == 1
	if err == nil {
		u.add(j)
	}
	return err
}

// has reports whether the job is unwritten, even if another worker runs it.
func (u *unwritten) has(ref Ref) bool {
	return u != nil && u.jobs[jobKey{ref.Endpoint, ref.ID}] != nil
}

// heldBy returns an unwritten job if the worker still runs it, and nil otherwise.
func (u *unwritten) heldBy(ref Ref, at int64) *jobRow {
	if u == nil {
		return nil
	}
	if j := u.jobs[jobKey{ref.Endpoint, ref.ID}]; j.isHeldBy(ref, at) {
		return j
	}
	return nil
}

// isHeldBy reports whether the worker still runs the job, which may be nil.
func (j *jobRow) isHeldBy(ref Ref, at int64) bool {
	return j != nil && j.state == InProgress && j.worker == ref.Worker && j.attempt == ref.Attempt && j.gone > at && j.deadline > at
}

// start gives the job to a worker, as startJob does: IN_QUEUE → IN_PROGRESS.
func (j *jobRow) start(t Take, now int64) (Taken, change) {
	j.state, j.worker, j.attempt, j.started = InProgress, t.Worker, j.attempt+1, now
	j.deadline = now + cmp.Or(j.execution, cmp.Or(t.Timeout, DefaultTimeout).Milliseconds())
	job := Taken{Ref: Ref{Endpoint: j.endpoint, ID: j.id, Worker: j.worker, Attempt: j.attempt}, Input: j.input, Rest: j.rest, Low: j.low, Retries: j.retries}
	return job, job.start(now, j.queued, j.deadline, j.gone)
}

// end records the result of an unwritten job.
func (u *unwritten) end(tx *sqldb.Tx, j *jobRow, r Report, now, at int64) change {
	u.ended++
	u.endedBytes += len(j.input) + len(j.rest) + len(r.output)
	u.bytes += len(r.output)
	u.setDue(tx)
	return j.end(r, now, at)
}

// end records the job's result, as completeJob and failJob do:
// IN_PROGRESS → COMPLETED, FAILED.
func (j *jobRow) end(r Report, now, at int64) change {
	j.state = Completed
	if r.kind == reportFail {
		j.state = Failed
	}
	j.finished, j.gone = at, min(j.expires, now+j.keep)
	j.output, j.message = r.output, r.err
	c := change{endpoint: j.endpoint, id: j.id, low: j.low, from: InProgress, to: j.state, due: j.gone, queued: j.queued, started: j.started, retries: j.retries}
	c.setResult(Ref{Worker: j.worker}, r, at)
	return c
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

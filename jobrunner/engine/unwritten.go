package engine

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// jobRow is a job's row, with what belongs to it, before it is in the table, or as it
// is to be there. Times are milliseconds since 1970, as there.
type jobRow struct {
	k              int64 // 0: it is not in the table
	endpoint, id   string
	low            bool
	webhook, owner string
	execution      int64 // time-out, 0: the endpoint's
	keep           int64 // retention
	submitted      int64 // of one that is not in the table
	queued         int64
	retries        int
	expires, gone  int64
	input, rest    []byte

	state             State
	worker            string
	attempt           int
	started, deadline int64
	lease             int64
	finished          int64
	output            []byte
	message           string // why it failed
}

// row is that of a job that is submitted at a time.
func (n NewJob) row(id string, now int64) jobRow {
	gone := now + cmp.Or(n.TTL, DefaultTTL).Milliseconds()
	return jobRow{endpoint: n.Endpoint, id: id, low: n.Low, webhook: n.Webhook, owner: n.webhookOwner(), execution: n.Timeout.Milliseconds(), keep: n.retention().Milliseconds(),
		submitted: now, queued: now, expires: gone, gone: gone, input: n.Input, rest: n.Rest, state: InQueue}
}

// rowWrites are the arguments of the statements that write rows, one list for each job.
type rowWrites map[string][][]any

func (w rowWrites) add(statement string, args ...any) { w[statement] = append(w[statement], args) }

// run runs each statement for all its rows.
func (w rowWrites) run(tx *sqldb.Tx) error {
	for _, statement := range []string{insertJob, insertInput, insertOutput, startJob, endTaken, upsertOutput} {
		if err := tx.LaterEach(statement, w[statement]); err != nil {
			return err
		}
	}
	return nil
}

// addJob adds what became of a job. The input of one that is COMPLETED is left out, for
// nobody runs it again: only a webhook would show it.
func (w rowWrites) addJob(j *jobRow, process string) {
	switch {
	case j.k != 0 && j.state == InProgress:
		w.add(startJob, j.worker, process, j.attempt, j.started, j.deadline, j.lease, j.k)
		return
	case j.k != 0:
		w.add(endTaken, j.state, j.worker, process, j.attempt, j.started, j.deadline, j.finished, j.gone, j.k)
		w.add(upsertOutput, j.k, j.output, j.message)
		return
	case j.state == InQueue:
		process = ""
	}
	w.add(insertJob, j.endpoint, j.id, j.state, boolToInt(j.low), j.webhook, j.owner, j.execution, j.keep, j.submitted, j.submitted, j.submitted, j.expires, j.gone,
		j.worker, process, j.attempt, j.started, j.deadline, j.lease, j.finished)
	if j.state != Completed {
		w.add(insertInput, j.endpoint, j.id, j.input, j.rest)
	}
	if j.state.Terminal() {
		w.add(insertOutput, j.endpoint, j.id, j.output, j.message)
	}
}

// unwritten are the jobs that were submitted or taken in the commit under way, or, in
// memory, since the last commit, as far as that is not written yet. Most jobs that take
// little time are taken and end in that time, too, and are then written once. What can
// happen to a job here are the transitions of a submission, a take and a result; before
// anything else all are written.
type unwritten struct {
	jobs   map[jobKey]*jobRow
	order  []*jobRow              // of submission, or of the take
	queue  map[string][]*jobRow   // by endpoint, those that may wait and are not in the table
	queues map[string]*tableQueue // by endpoint
	leads  map[leadOf]bool        // which processes were found to lead
	bytes  int

	over, overBytes int // of those that have ended
}

func newUnwritten() *unwritten {
	return &unwritten{jobs: map[jobKey]*jobRow{}, queue: map[string][]*jobRow{}, queues: map[string]*tableQueue{}, leads: map[leadOf]bool{}}
}

// leadOf is the lead of an endpoint.
type leadOf struct {
	endpoint string
	Lead
}

// tableQueue is the beginning of an endpoint's queue in the table, of which no job was
// taken in a way that the table shows.
type tableQueue struct {
	rows    []*jobRow // read, and not taken
	turn, k int64     // of the last one that was read
	read    int       // how many at the next time
	end     bool      // no more are there
}

const (
	// How many waiting jobs are read at first, which doubles up to the most.
	firstRead, mostRead = 4, 64
	// readBytes ends a read before there are so many.
	readBytes = 1 << 20
)

// maxUnwritten bounds what is put off, in bytes: it counts as free where room is
// looked for.
const maxUnwritten = 16 << 20

// What is written behind is due when so many jobs have ended, with so many bytes, or there
// are so many in all. Those that have not ended stay while they are few: most are then
// written once.
const (
	dueOverBytes        = 1 << 20
	dueJobs, dueBytes   = 1024, maxUnwritten / 2
	mostKept, keptBytes = dueJobs / 2, dueBytes / 2
	// keptFor bounds for how long a job is kept, in milliseconds: by so much the keys of
	// the rows, in whose order lists have jobs, may differ from the order of submission.
	keptFor = 1000
)

var dueOver = 64 // less in a test

// unwrittenIn is what is not written in a transaction; nil where all is.
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

// writeOut writes what is not written yet, but for what may stay. It changes nothing of
// it, for the transaction may fail.
func (e *Engine) writeOut(tx *sqldb.Tx) error {
	batch := tx.Batch()
	if batch == nil || batch.Value == nil {
		return nil
	}
	u := batch.Value.(*unwritten)
	var rest *unwritten
	if batch.Rest && u.mayStay(e.now()) {
		rest = newUnwritten()
		rest.queue, rest.queues = u.queue, u.queues
	}
	rows := rowWrites{}
	for _, j := range u.order {
		if rest != nil && !j.state.Terminal() {
			rest.add(j)
		} else {
			rows.addJob(j, e.processID())
		}
	}
	if err := rows.run(tx); err != nil {
		return err
	}
	if batch.Value = nil; rest != nil {
		batch.Value = rest
	}
	return nil
}

// mayStay tells whether those that have not ended may stay unwritten.
func (u *unwritten) mayStay(now int64) bool {
	return len(u.order)-u.over <= mostKept && u.bytes-u.overBytes <= keptBytes &&
		!slices.ContainsFunc(u.order, func(j *jobRow) bool { return !j.state.Terminal() && j.queued < now-keptFor })
}

// add adds a job.
func (u *unwritten) add(j *jobRow) {
	u.jobs[jobKey{j.endpoint, j.id}] = j
	u.order = append(u.order, j)
	u.bytes += len(j.input) + len(j.rest)
}

// noteDue says when there is enough to write.
func (u *unwritten) noteDue(tx *sqldb.Tx) {
	tx.Batch().Due = u.over >= dueOver || u.overBytes >= dueOverBytes || len(u.order) >= dueJobs || u.bytes >= dueBytes
}

// write is DB.Write of what has to find all jobs in the table.
func (e *Engine) write(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return e.db.Write(ctx, e.afterWriteOut(fn))
}

// writeWithReserve is DB.WriteWithReserve of such.
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

// insert keeps a new job that is queued. One with a webhook is written at once: the call refers
// to the row.
func (e *Engine) insert(tx *sqldb.Tx, row jobRow) error {
	u := unwrittenIn(tx)
	n := len(row.input) + len(row.rest)
	if u == nil || row.webhook != "" || n > maxUnwritten {
		if err := e.writeOut(tx); err != nil {
			return err
		}
		rows := rowWrites{}
		rows.addJob(&row, e.processID())
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
	u.noteDue(tx)
	return nil
}

// look reads the beginning of an endpoint's queue in the table, as far as next needs it.
func (u *unwritten) look(tx *sqldb.Tx, t Take, now int64) error {
	if leads, err := u.isLead(tx, t); !leads || err != nil {
		return err
	}
	endpoint := t.Endpoint
	table := u.queues[endpoint]
	if table == nil {
		table = &tableQueue{turn: -1, read: firstRead}
		u.queues[endpoint] = table
	}
	for {
		for len(table.rows) > 0 && table.rows[0].gone <= now {
			table.rows = table.rows[1:]
		}
		if len(table.rows) > 0 || table.end {
			return nil
		}
		if err := table.fill(tx, endpoint, now); err != nil {
			return err
		}
	}
}

// next is the job that is next in an endpoint's queue, at which look has looked, without it
// from then on; nil for none. Those in the table come first.
func (u *unwritten) next(t Take, now int64) *jobRow {
	if t.Lead != (Lead{}) && !u.leads[leadOf{t.Endpoint, t.Lead}] {
		return nil
	}
	endpoint := t.Endpoint
	if table := u.queues[endpoint]; len(table.rows) > 0 {
		j := table.rows[0]
		table.rows = table.rows[1:]
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

// isLead tells whether the process of a worker leads the endpoint, as far as the take asks.
func (u *unwritten) isLead(tx *sqldb.Tx, t Take) (leads bool, err error) {
	if t.Lead == (Lead{}) {
		return true, nil
	}
	key := leadOf{t.Endpoint, t.Lead}
	leads, known := u.leads[key]
	if known {
		return leads, nil
	}
	err = tx.QueryRow(isLead, EndpointOf(t.Endpoint), t.Lead.Process, t.Lead.Epoch).Scan(new(int))
	if leads = err == nil; errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	if err == nil {
		u.leads[key] = leads
	}
	return leads, err
}

// fill reads the jobs that come next.
func (q *tableQueue) fill(tx *sqldb.Tx, endpoint string, now int64) (err error) {
	rows, err := tx.Query(waitingJobs, endpoint, now, q.turn, q.k, q.read)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	bytes := 0
	for bytes < readBytes && rows.Next() {
		j := &jobRow{endpoint: endpoint, state: InQueue}
		var low int
		if err := rows.Scan(&j.k, &j.id, &low, &j.webhook, &j.execution, &j.keep, &j.queued, &j.expires, &j.gone, &j.attempt, &j.retries, &q.turn, &j.input, &j.rest); err != nil {
			return err
		}
		j.low, q.k = low == 1, j.k
		bytes += len(j.input) + len(j.rest)
		q.rows = append(q.rows, j)
	}
	q.end = bytes < readBytes && len(q.rows) < q.read
	q.read = min(2*q.read, mostRead)
	return rows.Err()
}

// load reads the job that is a worker's, where it is in the table, to end it here. One with
// a webhook stays there: the call refers to the row.
func (u *unwritten) load(tx *sqldb.Tx, ref Ref, at int64) error {
	j := &jobRow{endpoint: ref.Endpoint, id: ref.ID, state: InProgress, worker: ref.Worker, attempt: ref.Attempt}
	var low int
	err := tx.QueryRow(selectHeldJob, ref.Endpoint, ref.ID, at, ref.Worker, ref.Attempt, at).
		Scan(&j.k, &low, &j.keep, &j.queued, &j.expires, &j.gone, &j.retries, &j.started, &j.deadline)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if j.low = low == 1; err == nil {
		u.add(j)
	}
	return err
}

// has tells whether a job is here, whosever it is.
func (u *unwritten) has(ref Ref) bool {
	return u != nil && u.jobs[jobKey{ref.Endpoint, ref.ID}] != nil
}

// heldBy is the job that is a worker's; nil where it is not here, or not the worker's.
func (u *unwritten) heldBy(ref Ref, at int64) *jobRow {
	if u == nil {
		return nil
	}
	j := u.jobs[jobKey{ref.Endpoint, ref.ID}]
	if j == nil || j.state != InProgress || j.worker != ref.Worker || j.attempt != ref.Attempt || j.gone <= at || j.deadline <= at {
		return nil
	}
	return j
}

// start is IN_QUEUE → IN_PROGRESS; see startJob.
func (j *jobRow) start(t Take, now, lease int64) (Taken, change) {
	j.state, j.worker, j.attempt, j.started, j.lease = InProgress, t.Worker, j.attempt+1, now, lease
	j.deadline = now + cmp.Or(j.execution, cmp.Or(t.Timeout, DefaultTimeout).Milliseconds())
	job := Taken{Ref: Ref{Endpoint: j.endpoint, ID: j.id, Worker: j.worker, Attempt: j.attempt}, Input: j.input, Rest: j.rest, Low: j.low, Retries: j.retries}
	return job, job.start(now, j.queued, j.deadline, j.gone, lease)
}

// end ends a job that is here by a result.
func (u *unwritten) end(tx *sqldb.Tx, j *jobRow, r Report, now, at int64) change {
	u.over++
	u.overBytes += len(j.input) + len(j.rest) + len(r.output)
	u.bytes += len(r.output)
	u.noteDue(tx)
	return j.end(r, now, at)
}

// end is IN_PROGRESS → COMPLETED, FAILED by a result; see completeJob and failJob.
func (j *jobRow) end(r Report, now, at int64) change {
	j.state = Completed
	if r.kind == reportFail {
		j.state = Failed
	}
	j.finished, j.gone, j.lease = at, min(j.expires, now+j.keep), 0
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

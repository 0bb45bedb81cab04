package engine

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// store stores jobs in a database. Commits are absolute: they store values, not differences,
// so that a commit whose reply was lost can be repeated.
type store struct {
	db    *sqldb.DB
	tries atomic.Int64 // of commits, on a shared database

	// undelivered has the chunks of failed drains, by job. If the reply to a drain's commit was lost, the database
	// no longer has its chunks, and no client got them. They stay here until the next drain returns them, or the
	// job is deleted.
	mu          sync.Mutex
	undelivered map[int64][]numberedChunk
}

// maxUndelivered bounds undelivered, in bytes.
const maxUndelivered = 64 << 20

// The words in braces depend on the database: see sqldb/dialect.go.
const (
	// The submission of a job writes all columns. Later changes write the run columns. They write
	// the other columns only if these may have changed (effect.wholeRow), because some are indexed.
	fixedColumns = `endpoint, id, low, webhook, owner, exec_ms, keep_ms, batch`
	runColumns   = `state, turn, queued, worker, attempt, retries, started, deadline, streamed`
	otherColumns = `submitted, expires, gone, finished, call_at, call_tries`

	insertJob = `INSERT INTO jobs (k, ` + fixedColumns + `, ` + runColumns + `, ` + otherColumns + `, done) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	upsertJob = insertJob + ` ON CONFLICT (k) DO UPDATE SET state = excluded.state, turn = excluded.turn, queued = excluded.queued, worker = excluded.worker, attempt = excluded.attempt,
			retries = excluded.retries, started = excluded.started, deadline = excluded.deadline, streamed = excluded.streamed, expires = excluded.expires,
			gone = excluded.gone, finished = excluded.finished, call_at = excluded.call_at, call_tries = excluded.call_tries, done = excluded.done`
	setRun    = `UPDATE jobs SET state = ?, turn = ?, queued = ?, worker = ?, attempt = ?, retries = ?, started = ?, deadline = ?, streamed = ?`
	updateRun = setRun + ` WHERE k = ?`
	updateJob = setRun + `, submitted = ?, expires = ?, gone = ?, finished = ?, call_at = ?, call_tries = ?, done = ? WHERE k = ?`
	deleteJob = `DELETE FROM jobs WHERE k = ?`

	insertInput  = `INSERT INTO inputs (k, input, rest) VALUES (?, ?, ?)`
	upsertInput  = insertInput + ` ON CONFLICT (k) DO NOTHING`
	deleteInput  = `DELETE FROM inputs WHERE k = ?`
	insertOutput = `INSERT INTO outputs (k, output, error) VALUES (?, ?, ?)`
	upsertOutput = `INSERT INTO outputs (k, output, error) {row of a job (}?, ?, ?{if stored)} ON CONFLICT (k) DO UPDATE SET output = excluded.output, error = excluded.error`
	deleteOutput = `DELETE FROM outputs WHERE k = ?`
	// These run before the statements that write the job's row.
	insertChunk    = `INSERT INTO chunks (k, seq, chunk) {row of a job (}?, ?, ?{unless streamed)} ON CONFLICT (k, seq) DO NOTHING`
	insertNewChunk = `INSERT INTO chunks (k, seq, chunk) {row of a job (}?, ?, ?{unless stored)} ON CONFLICT (k, seq) DO NOTHING` // of a new job
	deleteChunks   = `DELETE FROM chunks WHERE k = ? AND seq <= ?`
	upsertCounts   = `INSERT INTO counts (endpoint, in_queue, waiting, in_progress, completed, failed, retried) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (endpoint) DO UPDATE SET in_queue = excluded.in_queue, waiting = excluded.waiting, in_progress = excluded.in_progress,
			completed = excluded.completed, failed = excluded.failed, retried = excluded.retried`

	// fence fails a commit if other processes have removed this process, because they lead its endpoints now. It
	// also fails a commit if a later try has succeeded: a server or network that stood still may deliver a commit
	// long after its connection was given up.
	// Arguments: the number of the try, the process, and the number.
	fence = `UPDATE processes SET tries = ? WHERE id = ? AND tries < ? RETURNING id`

	selectInput = `SELECT input, rest FROM inputs WHERE k = ?`
	// selectJob reads a job. It leaves out an output that is larger than a maximum.
	// Arguments: the maximum size of the output in bytes, and the arguments of a condition.
	selectJob = `SELECT jobs.k, ` + fixedColumns + `, ` + runColumns + `, ` + otherColumns + `, CASE WHEN LENGTH(output) <= ? THEN output END, COALESCE(LENGTH(output), 0), COALESCE(error, '')
		FROM jobs {left join outputs} WHERE `
	selectActive = selectJob + `endpoint = ? AND done = 0`
	jobByKey     = selectJob + `jobs.k = ? AND endpoint = ? AND id = ?`
	// Ids of older versions don't contain the key. Keys of these versions are small numbers.
	jobByOldID = selectJob + `endpoint = ? AND id = ? AND jobs.k < 1099511627776`

	// deleteExpired deletes ended jobs that have expired.
	// Arguments: the current time, the arguments of ownEndpoint, and the maximum number of jobs.
	deleteExpired = `DELETE FROM jobs WHERE {row} {in (}SELECT {row} FROM jobs WHERE gone <= ? AND done = 1 AND ` + ownEndpoint + ` LIMIT ?{for update}{skip locked}{)} RETURNING k`
	nextExpiry    = `SELECT COALESCE(MIN(gone), 9223372036854775807) FROM (SELECT gone FROM jobs WHERE done = 1 AND ` + ownEndpoint + ` ORDER BY gone LIMIT 1) AS earliest`
	// ownEndpoint is true for the endpoints that this process leads.
	// Arguments: this process, or "" if the database isn't shared, twice.
	ownEndpoint = `(? = '' OR REPLACE(endpoint, '` + queueSuffix + `', '') IN (SELECT endpoint FROM leads WHERE process = ?))`
	// Arguments: the endpoint, and the maximum number of jobs.
	deleteOfEndpoint = `DELETE FROM jobs WHERE {row} {in (}SELECT {row} FROM jobs WHERE endpoint = ? LIMIT ?{for update}{)} RETURNING k`
	deleteCounts     = `DELETE FROM counts WHERE endpoint = ?`

	selectCounts    = selectAllCounts + ` WHERE endpoint = ?`
	selectAllCounts = `SELECT endpoint, in_queue, waiting, in_progress, completed, failed, retried FROM counts`

	// Arguments: the maximum size of an output, the endpoint, the current time, and the number of jobs.
	newestOfEndpoint = selectJob + `endpoint = ? AND gone > ? ORDER BY jobs.k DESC LIMIT ?`
	// Arguments: the maximum size of an output in bytes, the current time, and the maximum
	// number of jobs. The plus sign keeps SQLite from using the index of gone: it reads the
	// newest rows until it has enough.
	newestJobs = selectJob + `+gone > ? AND endpoint NOT LIKE '%` + queueSuffix + `' ORDER BY jobs.k DESC LIMIT ?`

	unreadChunks = `SELECT seq, LENGTH(chunk) FROM chunks WHERE k = ? ORDER BY seq`
	// Arguments: the job's key, and the number of the last chunk.
	deleteReadChunks = `DELETE FROM chunks WHERE k = ? AND seq <= ? RETURNING seq, chunk`
	countUnread      = `SELECT COALESCE((SELECT streamed FROM jobs WHERE k = ? AND endpoint = ?) + 1 - MIN(seq), 0) FROM chunks WHERE k = ?`
)

func (r *row) runValues() []any {
	return []any{r.state, r.turn, r.queuedAt, r.worker, r.attempt, r.retries, r.startedAt, r.deadline, r.streamed}
}

// otherValues returns the columns that are written if they may have changed.
func (r *row) otherValues() []any {
	return []any{r.submittedAt, r.expiresAt, r.deleteAt, r.finishedAt, r.callAt, r.callTries, boolToInt(r.done())}
}

// commit stores a commit. With reserve it may use the space that is held back for a full disk.
func (s *store) commit(c *commit, reserve bool) error {
	write := s.db.Write
	if reserve {
		write = s.db.WriteWithReservedSpace
	}
	return write(context.Background(), func(tx *sqldb.Tx) error {
		if s.db.Shared() {
			try := s.tries.Add(1)
			if err := tx.Require(fence, ErrNotLeader, try, c.process, try); err != nil {
				return err
			}
		}
		statements := writes{}
		for _, ch := range c.changes {
			statements.addJob(ch, c.mayBeStored)
		}
		c.mayBeStored = true
		for _, endpoint := range slices.Sorted(maps.Keys(c.counts)) { // one order of locking prevents deadlocks
			n := c.counts[endpoint]
			statements.add(upsertCounts, endpoint, n.InQueue, n.waiting, n.InProgress, n.Completed, n.Failed, n.Retried)
		}
		for _, b := range c.batches {
			statements.addBatch(b)
		}
		return statements.run(tx)
	})
}

// writes maps statements to their arguments, one list for each row.
type writes map[string][][]any

func (w writes) add(statement string, args ...any) { w[statement] = append(w[statement], args) }

// addJob adds the statements for a change. A job that is COMPLETED at its first commit is stored
// without its input, unless a webhook call needs it. A new job may be stored already if the commit
// was tried before, because the reply may have been lost. At the first try, plain inserts are faster.
func (w writes) addJob(ch *change, mayBeStored bool) {
	r := &ch.row
	job, input, output, chunk := upsertJob, upsertInput, upsertOutput, insertChunk
	if ch.isNew {
		chunk = insertNewChunk
		if !mayBeStored {
			job, input, output = insertJob, insertInput, insertOutput
		}
	}
	switch {
	case r.state == absent:
		w.add(deleteJob, r.key)
		w.delete(r.key, r.attempt > 0)
		return
	case !ch.isNew && !ch.wholeRow:
		w.add(updateRun, append(r.runValues(), r.key)...)
	case !ch.isNew:
		w.add(updateJob, append(append(r.runValues(), r.otherValues()...), r.key)...)
	default:
		fixed := []any{r.key, r.endpoint, r.id, boolToInt(r.lowPriority), r.webhook, r.owner, r.timeout, r.retention, r.batch}
		w.add(job, append(append(fixed, r.runValues()...), r.otherValues()...)...)
		if r.state != Completed || r.callAt > 0 {
			w.add(input, r.key, ch.input, ch.rest)
		}
	}
	if ch.clearsResult {
		w.add(deleteOutput, r.key)
		last := r.streamed
		if len(ch.chunks) > 0 {
			last = ch.chunks[0].seq - 1
		}
		w.add(deleteChunks, r.key, last)
	}
	if ch.setsResult {
		w.add(output, r.key, ch.output, ch.message)
	}
	for _, c := range ch.chunks {
		w.add(chunk, r.key, c.seq, c.chunk)
	}
}

// delete adds the statements that delete the rows of a deleted job in the other tables. A job that was never
// taken has no output or chunks.
func (w writes) delete(k int64, wasTaken bool) {
	w.add(deleteInput, k)
	if wasTaken {
		w.add(deleteOutput, k)
		w.add(deleteChunks, k, math.MaxInt64)
	}
}

func (w writes) run(tx *sqldb.Tx) error {
	for _, statement := range []string{upsertBatch, deleteChunks, insertChunk, insertNewChunk, insertJob, upsertJob, insertInput, upsertInput, updateRun, updateJob, deleteJob, deleteInput, deleteOutput, insertOutput, upsertOutput, deleteBatch, upsertCounts} {
		if err := tx.PipelineEach(statement, w[statement]); err != nil {
			return err
		}
	}
	return nil
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// deleteJobs deletes jobs by a statement that returns their keys, and returns how many.
func (s *store) deleteJobs(ctx context.Context, statement string, args ...any) (n int, err error) {
	var keys []int64
	err = s.db.WriteWithReservedSpace(ctx, func(tx *sqldb.Tx) error {
		statements := writes{}
		keys = nil
		err := tx.Each(func(row sqldb.Row) error {
			var k int64
			err := row.Scan(&k)
			statements.delete(k, true)
			keys = append(keys, k)
			return err
		}, statement, args...)
		if err != nil {
			return err
		}
		return statements.run(tx)
	})
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		delete(s.undelivered, k)
	}
	return len(keys), nil
}

// job reads a job. It leaves out an output of more than maxOutput bytes.
func (s *store) job(ctx context.Context, endpoint, id string, maxOutput int, now int64) (*job, error) {
	var found []*job
	var err error
	if k, ok := keyOf(id); ok {
		found, err = s.list(ctx, jobByKey, maxOutput, k, endpoint, id)
	}
	if found == nil && err == nil {
		found, err = s.list(ctx, jobByOldID, maxOutput, endpoint, id)
	}
	switch {
	case err != nil:
		return nil, err
	case found == nil || found[0].deleteAt <= now:
		return nil, ErrNotFound
	}
	return found[0], nil
}

func (s *store) input(ctx context.Context, k int64) (input, rest []byte, err error) {
	err = s.db.Read(ctx, func(r *sqldb.Reader) error { return r.QueryRow(selectInput, k).Scan(&input, &rest) })
	return input, rest, err
}

// list reads jobs by a query that begins with selectJob.
func (s *store) list(ctx context.Context, query string, args ...any) (jobs []*job, err error) {
	err = s.db.Each(ctx, func(row sqldb.Row) error {
		j := &job{inputSize: assumedInputSize}
		jobs = append(jobs, j)
		return row.Scan(&j.key, &j.endpoint, &j.id, &j.lowPriority, &j.webhook, &j.owner, &j.timeout, &j.retention, &j.batch,
			&j.state, &j.turn, &j.queuedAt, &j.worker, &j.attempt, &j.retries, &j.startedAt, &j.deadline, &j.streamed,
			&j.submittedAt, &j.expiresAt, &j.deleteAt, &j.finishedAt, &j.callAt, &j.callTries, &j.output, &j.outputSize, &j.message)
	}, query, args...)
	return jobs, err
}

// load reads the active jobs and the counts of an endpoint. It counts the active jobs itself: if the process was
// killed while the disk was full, the stored counts include changes of jobs that were never stored.
func (s *store) load(ctx context.Context, endpoint string) (jobs []*job, counts Counts, err error) {
	if jobs, err = s.list(ctx, selectActive, -1, endpoint); err == nil {
		counts, err = s.counts(ctx, endpoint)
	}
	counts.InQueue, counts.waiting, counts.InProgress = 0, 0, 0
	for _, j := range jobs {
		if !j.state.Terminal() {
			counts.add(j.state, j.lowPriority, 1)
		}
	}
	return jobs, counts, err
}

func (s *store) counts(ctx context.Context, endpoint string) (Counts, error) {
	all, err := s.allCounts(ctx, selectCounts, endpoint)
	return all[endpoint], err
}

func (s *store) allCounts(ctx context.Context, query string, args ...any) (map[string]Counts, error) {
	all := map[string]Counts{}
	err := s.db.Each(ctx, func(row sqldb.Row) error {
		var endpoint string
		var n Counts
		err := row.Scan(&endpoint, &n.InQueue, &n.waiting, &n.InProgress, &n.Completed, &n.Failed, &n.Retried)
		all[endpoint] = n
		return err
	}, query, args...)
	return all, err
}

// drain deletes chunks of at most limit bytes, or one larger chunk, and returns them. more is true if others are left.
func (s *store) drain(ctx context.Context, k int64, limit int) (all []numberedChunk, more bool, err error) {
	var last int64
	total := 0
	err = s.db.Each(ctx, func(row sqldb.Row) error {
		var seq int64
		var size int
		err := row.Scan(&seq, &size)
		if total += size; last > 0 && total > limit {
			more = true
		}
		if !more {
			last = seq
		}
		return err
	}, unreadChunks, k)
	s.mu.Lock()
	undelivered := s.undelivered[k]
	delete(s.undelivered, k)
	s.mu.Unlock()
	if err == nil && last > 0 {
		err = s.db.WriteWithReservedSpace(ctx, func(tx *sqldb.Tx) error {
			all = nil
			return tx.Each(func(row sqldb.Row) error {
				var n numberedChunk
				err := row.Scan(&n.seq, &n.chunk)
				all = append(all, n)
				return err
			}, deleteReadChunks, k, last)
		})
	}
	all = append(undelivered, all...)
	slices.SortFunc(all, func(a, b numberedChunk) int { return cmp.Compare(a.seq, b.seq) })
	all = slices.CompactFunc(all, func(a, b numberedChunk) bool { return a.seq == b.seq })
	if err == nil {
		return all, more, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size := sizeOf(all)
	for _, chunks := range s.undelivered {
		size += sizeOf(chunks)
	}
	if len(all) > 0 && size <= maxUndelivered {
		s.undelivered[k] = append(s.undelivered[k], all...) // a concurrent drain may have added chunks
	}
	return nil, more, err
}

// exec runs a statement in its own transaction, and returns the number of rows that it changed.
func (e *Engine) exec(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	err = e.DB.WriteWithReservedSpace(ctx, func(tx *sqldb.Tx) (err error) {
		rows, err = tx.Exec(statement, args...)
		return err
	})
	return rows, err
}

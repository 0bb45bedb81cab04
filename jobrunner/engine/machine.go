package engine

// The state machine. Each row of the table of states and transitions (service
// description) is one statement here, and there are no others that change a
// state. A statement names the states that it leaves; the rows that it answers
// are the verdict: none means that the job was elsewhere, and nothing happened.
//
// What happens to every job, its take and the end of its handler, is read and
// locked first (next, ending), and then written by its key: SQLite makes a table
// for the rows of each RETURNING, which costs as much as a statement.
//
// Statements that change one job end in the condition "one", those of the
// sweeper pick their jobs themselves. Each answers the columns of a change.
const (
	// How long the result is kept. Arguments: end.
	kept = `{least}(expires, ? + keep_ms)`
	// What a terminal state brings with it. Arguments: end, end.
	ends = ` finished = ?, gone = ` + kept + `, lease = 0 `
	// What a return to the queue brings with it. Arguments: now.
	waitsAgain = ` state = 'IN_QUEUE', queued = ?, worker = '', started = 0, deadline = 0, lease = 0 `

	// The job of a client's request. Arguments: endpoint, id, now.
	one = ` endpoint = ? AND id = ? AND gone > ? `
	// The job that a worker reports on, while it is still this worker's.
	// Arguments: endpoint, id, now, worker, attempt, now.
	mine = one + ` AND state = 'IN_PROGRESS' AND worker = ? AND attempt = ? AND deadline > ? `

	// Nobody is still to be told of the job's end.
	notToTell = ` NOT EXISTS (SELECT 1 FROM webhooks WHERE webhooks.k = jobs.k) `

	changed = ` RETURNING k, endpoint, id, low, queued, started, gone, webhook, owner, retries`
)

const (
	// (none) → IN_QUEUE: a submission was accepted.
	submitted = `
		INSERT INTO jobs (endpoint, id, state, low, webhook, owner, exec_ms, keep_ms, submitted, turn, queued, expires, gone)
		VALUES (?, ?, 'IN_QUEUE', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) {returning k}`

	// IN_QUEUE → IN_PROGRESS: a worker is available. Arguments: worker, process,
	// attempt, now, deadline, lease, k.
	taken = `UPDATE jobs SET state = 'IN_PROGRESS', worker = ?, process = ?, attempt = ?, started = ?, deadline = ?, lease = ? WHERE k = ?`
	// The jobs that are next. Arguments: now, default time-out, endpoint, now, how
	// many.
	next = `SELECT jobs.k, id, low, attempt, retries, queued, ? + CASE WHEN exec_ms > 0 THEN exec_ms ELSE ? END, gone, inputs.input, inputs.rest FROM jobs JOIN inputs ON inputs.k = jobs.k
		WHERE endpoint = ? AND state = 'IN_QUEUE' AND gone > ? ORDER BY turn, jobs.k LIMIT ?{lock jobs that are free}`

	// IN_PROGRESS → COMPLETED: the handler answered. Arguments: end, end, k.
	completed = `UPDATE jobs SET state = 'COMPLETED',` + ends + `WHERE k = ?`
	// IN_PROGRESS → FAILED: the handler failed. Arguments: end, end, k.
	failed = `UPDATE jobs SET state = 'FAILED',` + ends + `WHERE k = ?`
	// The job whose handler is through. Arguments: end, then those of mine.
	ending = `SELECT k, endpoint, id, low, queued, started, ` + kept + `, webhook, owner, retries FROM jobs WHERE` + mine + `{lock}`

	// IN_QUEUE → CANCELLED, IN_PROGRESS → CANCELLED: a client asked for it.
	// A running job whose time is up is TIMED_OUT and no longer to be cancelled.
	cancelled = `UPDATE jobs SET state = 'CANCELLED',` + ends + `WHERE` + one +
		`AND (state = 'IN_QUEUE' OR state = 'IN_PROGRESS' AND deadline > ?)` + changed

	// IN_PROGRESS → TIMED_OUT: the execution time-out passed. The end is the
	// deadline, whenever this is found out. Arguments: now (twice for one job).
	timedOut    = `UPDATE jobs SET state = 'TIMED_OUT', finished = deadline, gone = {least}(expires, deadline + keep_ms), lease = 0 WHERE `
	timedOutOne = timedOut + one + `AND state = 'IN_PROGRESS' AND deadline <= ?` + changed
	timedOutAll = timedOut + `k {in unlocked (}SELECT k FROM jobs WHERE state = 'IN_PROGRESS' AND deadline <= ? LIMIT ?{)}` + changed

	// IN_PROGRESS → IN_QUEUE: the worker died, and the job has a retry left.
	// Arguments: now, maxRetries, then those of mine or of died.
	// IN_PROGRESS → FAILED: it has none.
	// Arguments: now, now, maxRetries, then those of mine or of died.
	requeued    = `UPDATE jobs SET retries = retries + 1,` + waitsAgain + `WHERE retries < ? AND `
	requeuedOne = requeued + mine + changed
	requeuedAll = requeued + died + changed
	givenUp     = `UPDATE jobs SET state = 'FAILED',` + ends + `WHERE retries >= ? AND `
	givenUpOne  = givenUp + mine + changed
	givenUpAll  = givenUp + died + changed
	// The jobs whose worker gave no sign of life. Arguments: now, how many.
	died = `k {in unlocked (}SELECT k FROM jobs WHERE state = 'IN_PROGRESS' AND lease > 0 AND lease <= ? LIMIT ?{)}`

	// FAILED → IN_QUEUE, TIMED_OUT → IN_QUEUE: a client asked for it while the
	// result was kept. The job goes to the end of the queue with its retention,
	// its delay and its retries new, its ttl as it was.
	// Arguments: now, now, state, those of one.
	retried = `UPDATE jobs SET turn = ?, retries = 0, finished = 0, gone = expires,` + waitsAgain + `WHERE state = ? AND` + one + changed

	// IN_PROGRESS → IN_QUEUE: the process that handed the job out stops, which is
	// no worker's fault and uses up no retry. Arguments: now, the latest end of a
	// lease, process.
	resumed = `UPDATE jobs SET` + waitsAgain + `WHERE state = 'IN_PROGRESS' AND lease <= ? AND process = ?` + changed
	// IN_PROGRESS → IN_QUEUE, FAILED: the process that handed the job out died,
	// perhaps of the job. Arguments: as of requeuedAll and givenUpAll, with the
	// latest end of a lease.
	requeuedOrphans = requeued + orphaned + changed
	givenUpOrphans  = givenUp + orphaned + changed
	orphaned        = `state = 'IN_PROGRESS' AND lease <= ? AND process NOT IN (SELECT id FROM processes)`

	// IN_PROGRESS → IN_QUEUE: whether a worker was to get the job is not known,
	// for the commit's answer was lost; it did not get it.
	// Arguments: now, those of mine.
	returnedOne = `UPDATE jobs SET` + waitsAgain + `WHERE` + mine + changed

	// any → (none): the ttl or the retention is over. Nobody sees the job any
	// more; one whose webhook is still to be called is deleted after that.
	removed = `DELETE FROM jobs WHERE k {in unlocked (}SELECT k FROM jobs WHERE gone <= ? AND` + notToTell + `LIMIT ?{)} RETURNING endpoint, id, low, state`
	// IN_QUEUE → (none): the endpoint's queue was purged. What a client queues
	// after that comes later in the queue (turn) or is new (k).
	// Arguments: endpoint, now, turn, k, how many.
	purged = `DELETE FROM jobs WHERE state = 'IN_QUEUE' AND k IN (` + purgeable + `ORDER BY turn, k LIMIT ?) RETURNING endpoint, id, low, state`
	// any → (none): the endpoint was deleted.
	dropped = `DELETE FROM jobs WHERE k {in unlocked (}SELECT k FROM jobs WHERE endpoint = ? LIMIT ?{)} RETURNING endpoint, id, low, state`
)

// What belongs to a job beside its state.
const (
	addInput  = `INSERT INTO inputs (k, input, rest) VALUES (?, ?, ?)`
	setOutput = `INSERT INTO outputs (k, output, error) VALUES (?, ?, ?) ON CONFLICT (k) DO UPDATE SET output = excluded.output, error = excluded.error`
	noOutput  = `DELETE FROM outputs WHERE k = ?`
	noChunks  = `DELETE FROM chunks WHERE k = ?`

	// A sign of life of the worker. Arguments: lease, lease, those of mine.
	beaten = `UPDATE jobs SET lease = CASE WHEN CAST(? AS BIGINT) > 0 THEN ? ELSE lease END WHERE` + mine + `RETURNING k`

	// Waits for the end of a transaction that changes the job.
	// Arguments: endpoint, id.
	locked = `SELECT k FROM jobs WHERE endpoint = ? AND id = ?{lock}`

	// How many chunks there were. Arguments: those of mine.
	streamedSoFar = `SELECT streamed FROM jobs WHERE` + mine + `{lock}`
	// So many chunks more. They are numbered from streamed downwards.
	// Arguments: how many, those of mine.
	chunked  = `UPDATE jobs SET streamed = streamed + ? WHERE` + mine + `RETURNING k, streamed`
	addChunk = `INSERT INTO chunks (k, seq, chunk) VALUES (?, ?, ?)`
	// What was read is gone. Arguments: endpoint, id, now, the last number.
	drained = `DELETE FROM chunks WHERE k = (SELECT k FROM jobs WHERE` + one + `) AND seq <= ? RETURNING seq, chunk`

	// The ttl counts from the submission. Arguments: ttl, ttl, ttl, those of one.
	setTTL = `UPDATE jobs SET expires = submitted + ?,
		gone = CASE WHEN finished > 0 THEN {least}(submitted + ?, finished + keep_ms) ELSE submitted + ? END
		WHERE` + one + `RETURNING gone`

	// What a transaction changes of an endpoint's numbers of jobs.
	tally = `INSERT INTO tallies (endpoint, slot, in_queue, waiting, in_progress, completed, failed, retried) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (endpoint, slot) DO UPDATE SET in_queue = tallies.in_queue + excluded.in_queue, waiting = tallies.waiting + excluded.waiting,
			in_progress = tallies.in_progress + excluded.in_progress, completed = tallies.completed + excluded.completed,
			failed = tallies.failed + excluded.failed, retried = tallies.retried + excluded.retried`
	noTallies = `DELETE FROM tallies WHERE endpoint = ?`
)

// What is read.
const (
	// Arguments: most bytes of an output, then those of one.
	oneJob = `SELECT state, queued, started, deadline, finished, worker, retries,
			CASE WHEN LENGTH(output) <= ? THEN output END, COALESCE(LENGTH(output), 0), COALESCE(error, '')
		FROM jobs LEFT JOIN outputs ON outputs.k = jobs.k WHERE` + one

	// An endpoint's newest jobs, without outputs that are too large for a list.
	// Arguments: bytes of output, endpoint, now, how many.
	recent = `SELECT id, state, queued, started, deadline, finished, worker, retries,
			CASE WHEN LENGTH(output) <= ? THEN output END, COALESCE(error, '')
		FROM jobs LEFT JOIN outputs ON outputs.k = jobs.k
		WHERE endpoint = ? AND gone > ? ORDER BY jobs.k DESC LIMIT ?`

	// The newest jobs for an overview. Arguments: characters of an error, the
	// endpoint where it is of one, now, how many. The plus has the newest rows
	// read until there are enough.
	latest   = overview + `WHERE +gone > ? ORDER BY jobs.k DESC LIMIT ?`
	latestOf = overview + `WHERE endpoint = ? AND gone > ? ORDER BY jobs.k DESC LIMIT ?`
	overview = `SELECT endpoint, id, state, queued, started, deadline, finished, worker, retries,
			COALESCE((SELECT SUBSTR(error, 1, ?) FROM outputs WHERE outputs.k = jobs.k AND jobs.state = 'FAILED'), '')
		FROM jobs `

	// The chunks that nobody has read yet, in order. Arguments: endpoint, id, now.
	undrained = `SELECT seq, LENGTH(chunk) FROM chunks WHERE k = (SELECT k FROM jobs WHERE` + one + `) ORDER BY seq`

	// Whether a job is still the worker's. Arguments: those of mine.
	held = `SELECT 1 FROM jobs WHERE` + mine

	// The jobs that a purge is about. Arguments: endpoint, now, turn, k.
	purgeable     = `SELECT k FROM jobs WHERE endpoint = ? AND state = 'IN_QUEUE' AND gone > ? AND turn <= ? AND k <= ? `
	purgeableLeft = purgeable + `LIMIT 1`
	newest        = `SELECT COALESCE(MAX(k), 0) FROM jobs`

	tallied  = `SELECT endpoint, in_queue, waiting, in_progress, completed, failed, retried FROM tallies`
	tallyOne = tallied + ` WHERE endpoint = ?`

	longestWaiting = `SELECT queued FROM jobs WHERE endpoint = ? AND state = 'IN_QUEUE' AND gone > ? AND low = 0 ORDER BY turn, k LIMIT 1`

	// When the sweeper is needed next.
	nextGone     = `SELECT MIN(gone) FROM (SELECT gone FROM jobs WHERE` + notToTell + `ORDER BY gone LIMIT 1) AS earliest`
	nextDeadline = `SELECT MIN(deadline) FROM jobs WHERE state = 'IN_PROGRESS'`
	nextLease    = `SELECT MIN(lease) FROM jobs WHERE state = 'IN_PROGRESS' AND lease > 0`
)

// The processes that share the database; there are none where it is embedded.
const (
	processBeats  = `INSERT INTO processes (id, beats) VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET beats = processes.beats + 1`
	processesElse = `SELECT id, beats FROM processes WHERE id <> ?`
	processGone   = `DELETE FROM processes WHERE id = ? AND beats = ?`
	processLeaves = `DELETE FROM processes WHERE id = ?`

	// How many jobs wait for takers. Arguments: endpoint, now, at most.
	waitingJobs = `SELECT COUNT(*) FROM (SELECT k FROM jobs WHERE endpoint = ? AND state = 'IN_QUEUE' AND gone > ? LIMIT ?) AS taken`
)

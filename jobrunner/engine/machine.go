package engine

// The state machine. Each row of the table of states and transitions (service
// description) is one statement here, and there are no others that change a
// state. A statement names the states that it leaves; the rows that it answers
// are the verdict: none means that the job was elsewhere, and nothing happened.
//
// What happens to every job, its take and the end of its handler, is read and
// locked first (nextJobs, lockHeldJob), and then written by its key: SQLite makes a table
// for the rows of each RETURNING, which costs as much as a statement.
//
// Statements that change one job end in the condition "ofClient", those of the
// sweeper pick their jobs themselves. Each answers the columns of a change.
const (
	// How long the result is kept. Arguments: end.
	retentionEnd = `{least}(expires, ? + keep_ms)`
	// What a terminal state brings with it. Arguments: end, end.
	setFinished = ` finished = ?, gone = ` + retentionEnd + `, lease = 0 `
	// What a return to the queue brings with it. Arguments: now.
	setQueued = ` state = 'IN_QUEUE', queued = ?, worker = '', started = 0, deadline = 0, lease = 0 `

	// The job of a client's request. Arguments: endpoint, id, now.
	ofClient = ` endpoint = ? AND id = ? AND gone > ? `
	// The job that a worker reports on, while it is still this worker's.
	// Arguments: endpoint, id, now, worker, attempt, now.
	heldByWorker = ofClient + ` AND state = 'IN_PROGRESS' AND worker = ? AND attempt = ? AND deadline > ? `

	// Nobody is still to be told of the job's end.
	noWebhookLeft = ` NOT EXISTS (SELECT 1 FROM webhooks WHERE webhooks.k = jobs.k) `

	returningChange = ` RETURNING k, endpoint, id, low, queued, started, gone, webhook, owner, retries`
)

const (
	// (none) → IN_QUEUE: a submission was accepted. The row of one that was taken, or
	// ended, before it was written is in that state (unwritten.go).
	insertJob = `
		INSERT INTO jobs (endpoint, id, state, low, webhook, owner, exec_ms, keep_ms, submitted, turn, queued, expires, gone, worker, process, attempt, started, deadline, lease, finished)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// IN_QUEUE → IN_PROGRESS: a worker is available. Arguments: worker, process,
	// attempt, now, deadline, lease, k.
	startJob = `UPDATE jobs SET state = 'IN_PROGRESS', worker = ?, process = ?, attempt = ?, started = ?, deadline = ?, lease = ? WHERE k = ?`
	// IN_QUEUE → IN_PROGRESS → COMPLETED, FAILED: both in one commit, or the second
	// alone. Arguments: state,
	// worker, process, attempt, start, deadline, end, end of the retention, k.
	endTaken = `UPDATE jobs SET state = ?, worker = ?, process = ?, attempt = ?, started = ?, deadline = ?, lease = 0, finished = ?, gone = ? WHERE k = ?`
	// A job whose end tells nobody, while it is still the worker's. Arguments: those of
	// heldByWorker.
	selectHeldJob = `SELECT k, low, keep_ms, queued, expires, gone, retries, started, deadline FROM jobs WHERE` + heldByWorker + `AND webhook = ''{lock}`
	// The jobs that wait, behind one of them. Arguments: endpoint, now, turn, k, how many.
	waitingJobs = `SELECT jobs.k, id, low, webhook, exec_ms, keep_ms, queued, expires, gone, attempt, retries, turn, ` + itsInput + ` FROM jobs
		WHERE jobs.endpoint = ? AND state = 'IN_QUEUE' AND gone > ? AND (turn, jobs.k) > (?, ?) ORDER BY turn, jobs.k LIMIT ?{lock jobs that are free}`
	// The jobs that are next. Arguments: now, default time-out, endpoint, now, how
	// many.
	nextJobs = selectNextJobs + nextJobsOrder
	// The same for a worker whose process leads the endpoint, and none where it does
	// not any more. Arguments: as before, with endpoint, process and epoch ahead of the
	// last.
	nextJobsOfLead = selectNextJobs + ` AND EXISTS (` + isLead + `)` + nextJobsOrder
	// Arguments: endpoint, process, epoch.
	isLead         = `SELECT 1 FROM leads JOIN processes ON processes.id = leads.process WHERE leads.endpoint = ? AND leads.process = ? AND leads.epoch = ?`
	selectNextJobs = `SELECT jobs.k, id, low, attempt, retries, queued, ? + CASE WHEN exec_ms > 0 THEN exec_ms ELSE ? END, gone, ` + itsInput + ` FROM jobs
		WHERE jobs.endpoint = ? AND state = 'IN_QUEUE' AND gone > ?`
	// Not a join, for which PostgreSQL may read all inputs if the table was empty when it
	// made the plan.
	itsInput      = `(SELECT inputs.input FROM inputs WHERE inputs.k = jobs.k), (SELECT inputs.rest FROM inputs WHERE inputs.k = jobs.k)`
	nextJobsOrder = ` ORDER BY turn, jobs.k LIMIT ?{lock jobs that are free}`

	// IN_PROGRESS → COMPLETED: the handler answered. Arguments: end, end, k.
	completeJob = `UPDATE jobs SET state = 'COMPLETED',` + setFinished + `WHERE k = ?`
	// IN_PROGRESS → FAILED: the handler failed. Arguments: end, end, k.
	failJob = `UPDATE jobs SET state = 'FAILED',` + setFinished + `WHERE k = ?`
	// The job whose handler is through. Arguments: end, then those of heldByWorker.
	lockHeldJob = `SELECT k, endpoint, id, low, queued, started, ` + retentionEnd + `, webhook, owner, retries FROM jobs WHERE` + heldByWorker + `{lock}`

	// IN_QUEUE → CANCELLED, IN_PROGRESS → CANCELLED: a client asked for it.
	// A running job whose time is up is TIMED_OUT and no longer to be cancelled.
	cancelJob = `UPDATE jobs SET state = 'CANCELLED',` + setFinished + `WHERE` + ofClient +
		`AND (state = 'IN_QUEUE' OR state = 'IN_PROGRESS' AND deadline > ?)` + returningChange

	// IN_PROGRESS → TIMED_OUT: the execution time-out passed. The end is the
	// deadline, whenever this is found out. Arguments: now (twice for one job).
	timeOut    = `UPDATE jobs SET state = 'TIMED_OUT', finished = deadline, gone = {least}(expires, deadline + keep_ms), lease = 0 WHERE `
	timeOutJob = timeOut + ofClient + `AND state = 'IN_PROGRESS' AND deadline <= ?` + returningChange
	timeOutDue = timeOut + `k {in unlocked (}SELECT k FROM jobs WHERE state = 'IN_PROGRESS' AND deadline <= ? LIMIT ?{)}` + returningChange

	// IN_PROGRESS → IN_QUEUE: the worker died, and the job has a retry left.
	// Arguments: now, maxRetries, then those of heldByWorker or of leaseExpired.
	// IN_PROGRESS → FAILED: it has none.
	// Arguments: now, now, maxRetries, then those of heldByWorker or of leaseExpired.
	requeueLost    = `UPDATE jobs SET retries = retries + 1,` + setQueued + `WHERE retries < ? AND `
	requeueHeld    = requeueLost + heldByWorker + returningChange
	requeueExpired = requeueLost + leaseExpired + returningChange
	failLost       = `UPDATE jobs SET state = 'FAILED',` + setFinished + `WHERE retries >= ? AND `
	failHeld       = failLost + heldByWorker + returningChange
	failExpired    = failLost + leaseExpired + returningChange
	// The jobs whose worker gave no sign of life. Arguments: now, how many.
	leaseExpired = `k {in unlocked (}SELECT k FROM jobs WHERE state = 'IN_PROGRESS' AND lease > 0 AND lease <= ? LIMIT ?{)}`

	// FAILED → IN_QUEUE, TIMED_OUT → IN_QUEUE: a client asked for it while the
	// result was kept. The job goes to the end of the queue with its retention,
	// its delay and its retries new, its ttl as it was.
	// Arguments: now, now, state, those of ofClient.
	retryJob = `UPDATE jobs SET turn = ?, retries = 0, finished = 0, gone = expires,` + setQueued + `WHERE state = ? AND` + ofClient + returningChange

	// IN_PROGRESS → IN_QUEUE: the process that handed the job out stops, which is
	// no worker's fault and uses up no retry. Arguments: now, the latest end of a
	// lease, process.
	requeueOwn = `UPDATE jobs SET` + setQueued + `WHERE state = 'IN_PROGRESS' AND lease <= ? AND process = ?` + returningChange
	// IN_PROGRESS → IN_QUEUE, FAILED: the process that handed the job out died,
	// perhaps of the job. Arguments: as of requeueExpired and failExpired, with the
	// latest end of a lease.
	requeueOrphans = requeueLost + ofDeadProcess + returningChange
	failOrphans    = failLost + ofDeadProcess + returningChange
	ofDeadProcess  = `state = 'IN_PROGRESS' AND lease <= ? AND process NOT IN (SELECT id FROM processes)`

	// IN_PROGRESS → IN_QUEUE: whether a worker was to get the job is not known,
	// for the commit's answer was lost; it did not get it.
	// Arguments: now, those of heldByWorker.
	returnHeld = `UPDATE jobs SET` + setQueued + `WHERE` + heldByWorker + returningChange

	// any → (none): the ttl or the retention is over. Nobody sees the job any
	// more; one whose webhook is still to be called is deleted after that.
	deleteGone = `DELETE FROM jobs WHERE k {in unlocked (}SELECT k FROM jobs WHERE gone <= ? AND` + noWebhookLeft + `LIMIT ?{)} RETURNING endpoint, id, low, state`
	// IN_QUEUE → (none): the endpoint's queue was purged. What a client queues
	// after that comes later in the queue (turn) or is new (k).
	// Arguments: endpoint, now, turn, k, how many.
	deleteQueued = `DELETE FROM jobs WHERE state = 'IN_QUEUE' AND k IN (` + purgeable + `ORDER BY turn, k LIMIT ?) RETURNING endpoint, id, low, state`
	// any → (none): the endpoint was deleted.
	deleteOfEndpoint = `DELETE FROM jobs WHERE k {in unlocked (}SELECT k FROM jobs WHERE endpoint = ? LIMIT ?{)} RETURNING endpoint, id, low, state`
)

// What belongs to a job beside its state.
const (
	// Arguments: endpoint, id, then what is kept.
	insertInput  = `INSERT INTO inputs (k, input, rest) VALUES ((SELECT k FROM jobs WHERE endpoint = ? AND id = ?), ?, ?)`
	insertOutput = `INSERT INTO outputs (k, output, error) VALUES ((SELECT k FROM jobs WHERE endpoint = ? AND id = ?), ?, ?)`

	upsertOutput = `INSERT INTO outputs (k, output, error) VALUES (?, ?, ?) ON CONFLICT (k) DO UPDATE SET output = excluded.output, error = excluded.error`
	deleteOutput = `DELETE FROM outputs WHERE k = ?`
	deleteChunks = `DELETE FROM chunks WHERE k = ?`

	// A sign of life of the worker. Arguments: lease, lease, those of heldByWorker.
	extendLease = `UPDATE jobs SET lease = CASE WHEN CAST(? AS BIGINT) > 0 THEN ? ELSE lease END WHERE` + heldByWorker + `RETURNING k`

	// Waits for the end of a transaction that changes the job.
	// Arguments: endpoint, id.
	lockJob = `SELECT k FROM jobs WHERE endpoint = ? AND id = ?{lock}`

	// How many chunks there were. Arguments: those of heldByWorker.
	selectStreamed = `SELECT streamed FROM jobs WHERE` + heldByWorker + `{lock}`
	// So many chunks more. They are numbered from streamed downwards; a row has the number
	// of the first of its chunks.
	// Arguments: how many, those of heldByWorker.
	addStreamed = `UPDATE jobs SET streamed = streamed + ? WHERE` + heldByWorker + `RETURNING k, streamed`
	insertChunk = `INSERT INTO chunks (k, seq, chunk) VALUES (?, ?, ?)`
	// What was read is gone. Arguments: endpoint, id, now, the last number.
	deleteReadChunks = `DELETE FROM chunks WHERE k = (SELECT k FROM jobs WHERE` + ofClient + `) AND seq <= ? RETURNING seq, chunk`

	// The ttl counts from the submission. Arguments: ttl, ttl, ttl, those of ofClient.
	updateTTL = `UPDATE jobs SET expires = submitted + ?,
		gone = CASE WHEN finished > 0 THEN {least}(submitted + ?, finished + keep_ms) ELSE submitted + ? END
		WHERE` + ofClient + `RETURNING gone`

	// What a transaction changes of an endpoint's numbers of jobs.
	addTally = `INSERT INTO tallies (endpoint, slot, in_queue, waiting, in_progress, completed, failed, retried) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (endpoint, slot) DO UPDATE SET in_queue = tallies.in_queue + excluded.in_queue, waiting = tallies.waiting + excluded.waiting,
			in_progress = tallies.in_progress + excluded.in_progress, completed = tallies.completed + excluded.completed,
			failed = tallies.failed + excluded.failed, retried = tallies.retried + excluded.retried`
	deleteTallies = `DELETE FROM tallies WHERE endpoint = ?`
)

// What is read.
const (
	// Arguments: most bytes of an output, then those of ofClient.
	selectJob = `SELECT state, queued, started, deadline, finished, worker, retries,
			CASE WHEN LENGTH(output) <= ? THEN output END, COALESCE(LENGTH(output), 0), COALESCE(error, '')
		FROM jobs LEFT JOIN outputs ON outputs.k = jobs.k WHERE` + ofClient

	// An endpoint's newest jobs, without outputs that are too large for a list.
	// Arguments: bytes of output, those of amongNewest, how many.
	recentJobs = `SELECT id, state, queued, started, deadline, finished, worker, retries,
			CASE WHEN LENGTH(output) <= ? THEN output END, COALESCE(error, '')
		FROM jobs LEFT JOIN outputs ON outputs.k = jobs.k
		WHERE` + amongNewest + `ORDER BY jobs.k DESC LIMIT ?`
	// The ids of each kind (NewJob.newID) grow with time, so the index of ids has the
	// newest of both together, and none has to be kept for them. Arguments: endpoint, now
	// and how many, twice.
	amongNewest = ` jobs.k IN (SELECT k FROM (SELECT k FROM jobs WHERE endpoint = ? AND id < 's' AND gone > ? ORDER BY id DESC LIMIT ?) AS queued
			UNION ALL SELECT k FROM (SELECT k FROM jobs WHERE endpoint = ? AND id > 's' AND gone > ? ORDER BY id DESC LIMIT ?) AS awaited) `

	// The newest jobs for an overview, without requests of batches. Arguments: characters of
	// an error, now or those of amongNewest, how many. The plus has the newest rows read until
	// there are enough.
	latestJobs   = overview + `WHERE +gone > ? AND endpoint NOT LIKE '%` + queueTail + `' ORDER BY jobs.k DESC LIMIT ?`
	latestJobsOf = overview + `WHERE` + amongNewest + `ORDER BY jobs.k DESC LIMIT ?`
	overview     = `SELECT endpoint, id, state, queued, started, deadline, finished, worker, retries,
			COALESCE((SELECT SUBSTR(error, 1, ?) FROM outputs WHERE outputs.k = jobs.k AND jobs.state = 'FAILED'), '')
		FROM jobs `

	// The chunks that nobody has read yet, in order. Arguments: endpoint, id, now.
	unreadChunks = `SELECT seq, LENGTH(chunk) FROM chunks WHERE k = (SELECT k FROM jobs WHERE` + ofClient + `) ORDER BY seq`

	countUnread = `SELECT COALESCE(MAX(streamed) + 1 - MIN(seq), 0) FROM jobs JOIN chunks ON chunks.k = jobs.k WHERE` + ofClient

	// Whether a job is still the worker's. Arguments: those of heldByWorker.
	selectHeld = `SELECT 1 FROM jobs WHERE` + heldByWorker

	// The jobs that a purge is about. Arguments: endpoint, now, turn, k.
	purgeable     = `SELECT k FROM jobs WHERE endpoint = ? AND state = 'IN_QUEUE' AND gone > ? AND turn <= ? AND k <= ? `
	purgeableLeft = purgeable + `LIMIT 1`
	// Its last place in the queue, and the newest key of all jobs. Arguments: endpoint.
	selectQueueEnd = `SELECT COALESCE((SELECT turn FROM jobs WHERE endpoint = ? AND state = 'IN_QUEUE' ORDER BY turn DESC, k DESC LIMIT 1), 0),
		COALESCE((SELECT MAX(k) FROM jobs), 0)`

	selectTallies = `SELECT endpoint, in_queue, waiting, in_progress, completed, failed, retried FROM tallies`
	selectTally   = selectTallies + ` WHERE endpoint = ?`

	oldestQueued = `SELECT queued FROM jobs WHERE endpoint = ? AND state = 'IN_QUEUE' AND gone > ? AND low = 0 ORDER BY turn, k LIMIT 1`

	// When the sweeper is needed next.
	nextGone     = `SELECT MIN(gone) FROM (SELECT gone FROM jobs WHERE` + noWebhookLeft + `ORDER BY gone LIMIT 1) AS earliest`
	nextDeadline = `SELECT MIN(deadline) FROM jobs WHERE state = 'IN_PROGRESS'`
	nextLease    = `SELECT MIN(lease) FROM jobs WHERE state = 'IN_PROGRESS' AND lease > 0`
)

// The processes that share the database; there are none where it is embedded.
const (
	insertProcess      = `INSERT INTO processes (id, beats, url, machine) VALUES (?, 1, ?, ?)`
	beatProcess        = `UPDATE processes SET beats = beats + 1 WHERE id = ?`
	otherProcesses     = `SELECT id, beats, url, machine FROM processes WHERE id <> ?`
	deleteStaleProcess = `DELETE FROM processes WHERE id = ? AND beats = ?`
	deleteProcess      = `DELETE FROM processes WHERE id = ?`

	// How many jobs wait, by endpoint.
	sumWaiting = `SELECT endpoint, CAST(SUM(in_queue) AS BIGINT) FROM tallies GROUP BY endpoint HAVING SUM(in_queue) > 0`
)

// Which process leads an endpoint (lead.go).
const (
	// A process that is there takes the lead of an endpoint that no living one has.
	// Arguments: endpoint, process.
	claimLead = `INSERT INTO leads (endpoint, process, epoch) SELECT ?, id, 1 FROM processes WHERE id = ?
		ON CONFLICT (endpoint) DO UPDATE SET process = excluded.process, epoch = leads.epoch + CASE WHEN leads.process = excluded.process THEN 0 ELSE 1 END,
			failure = CASE WHEN leads.process = excluded.process THEN leads.failure ELSE '' END
		WHERE leads.process = excluded.process OR leads.process NOT IN (SELECT id FROM processes)
		RETURNING epoch`
	// Arguments: endpoint, process, epoch.
	releaseLead = `UPDATE leads SET process = '' WHERE endpoint = ? AND process = ? AND epoch = ?`
	// Arguments: failure, endpoint, process, epoch.
	setLeadFailure = `UPDATE leads SET failure = ? WHERE endpoint = ? AND process = ? AND epoch = ?`
	deleteLead     = `DELETE FROM leads WHERE endpoint = ?`
	selectLeads    = `SELECT leads.endpoint, leads.process, leads.epoch, leads.failure, processes.url FROM leads JOIN processes ON processes.id = leads.process`
)

package engine

// The state machine. Each transition of the service description's state table is
// one statement here, and no other statement changes a job's state. A statement
// selects jobs by the states that it leaves and returns the rows that it changed.
// If it returns no row, the job was in another state and is unchanged.
//
// The two transitions of every job, its start and its end, first read and lock the
// row (nextJobs, lockHeldJob) and then update it by its key. A RETURNING clause
// would cost as much as another statement, because SQLite makes a table for its rows.
//
// Times are milliseconds since 1970. Comments list a statement's arguments in order.
const (
	// The end of the retention.
	// Arguments: the end of the job.
	retentionEnd = `{least}(expires, ? + keep_ms)`
	// The columns that every terminal state sets.
	// Arguments: the end of the job, and the time from which the retention counts.
	setFinished = ` finished = ?, gone = ` + retentionEnd + ` `
	// The columns that every return to the queue sets.
	// Arguments: the current time.
	setQueued = ` state = 'IN_QUEUE', queued = ?, worker = '', started = 0, deadline = 0 `

	// The job with an id, unless it has expired.
	// Arguments: the endpoint, the id, and the current time.
	jobByID = ` endpoint = ? AND id = ? AND gone > ? `
	// The job with an id, if the worker still runs it by this attempt.
	// Arguments: the endpoint, the id, the current time, the worker, the attempt, and
	// the current time again.
	heldByWorker = jobByID + ` AND state = 'IN_PROGRESS' AND worker = ? AND attempt = ? AND deadline > ? `

	// The job has no webhook call left to make.
	webhookDone = ` NOT EXISTS (SELECT 1 FROM webhooks WHERE webhooks.k = jobs.k) `

	// The columns of a change, which update scans.
	returningChange = ` RETURNING k, endpoint, id, low, queued, started, gone, webhook, owner, retries`
)

const (
	// insertJob adds a submitted job: (none) → IN_QUEUE. A job that was taken or ended
	// before it was written (unwritten.go) is inserted in its current state.
	insertJob = `
		INSERT INTO jobs (endpoint, id, state, low, webhook, owner, exec_ms, keep_ms, submitted, turn, queued, expires, gone, worker, process, attempt, started, deadline, finished)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// startJob gives a job to a worker: IN_QUEUE → IN_PROGRESS.
	// Arguments: the worker, its process, the attempt, the current time, the deadline,
	// and the job's key.
	startJob = `UPDATE jobs SET state = 'IN_PROGRESS', worker = ?, process = ?, attempt = ?, started = ?, deadline = ? WHERE k = ?`
	// startAndEndJob records a job that started and ended in one commit:
	// IN_QUEUE → IN_PROGRESS → COMPLETED, FAILED. It also ends a job that has started.
	// Arguments: the final state, the worker, its process, the attempt, the start, the
	// deadline, the end, the end of the retention, and the job's key.
	startAndEndJob = `UPDATE jobs SET state = ?, worker = ?, process = ?, attempt = ?, started = ?, deadline = ?, finished = ?, gone = ? WHERE k = ?`
	// endRunningJob ends a job, if the worker still runs it: IN_PROGRESS → COMPLETED, FAILED.
	// Arguments: the final state, and the arguments of setFinished and heldByWorker.
	endRunningJob = `UPDATE jobs SET state = ?,` + setFinished + `WHERE` + heldByWorker
	// selectHeldJob locks a job without a webhook, if the worker still runs it.
	// Arguments: the arguments of heldByWorker.
	selectHeldJob = `SELECT k, low, keep_ms, queued, expires, gone, retries, started, deadline FROM jobs WHERE` + heldByWorker + `AND webhook = ''{lock}`
	// waitingJobs reads and locks the queued jobs that follow a place in the queue.
	// Arguments: the endpoint, the current time, the turn and key of that place, and the
	// number of jobs.
	waitingJobs = selectWaitingJobs + nextJobsOrder
	// waitingJobsOfLead is waitingJobs, but returns no job if the process no longer leads the
	// endpoint.
	// Arguments: the arguments of waitingJobs, with selectLead's before the last.
	waitingJobsOfLead = selectWaitingJobs + ` AND EXISTS (` + selectLead + `)` + nextJobsOrder
	selectWaitingJobs = `SELECT jobs.k, id, low, webhook, exec_ms, keep_ms, queued, expires, gone, attempt, retries, turn, ` + inputColumns + ` FROM jobs
		WHERE jobs.endpoint = ? AND state = 'IN_QUEUE' AND gone > ? AND (turn, jobs.k) > (?, ?)`
	// nextJobs reads and locks the first jobs of a queue.
	// Arguments: the current time, the default timeout in milliseconds, the endpoint,
	// the current time, and the number of jobs.
	nextJobs = selectNextJobs + nextJobsOrder
	// nextJobsOfLead is nextJobs, but returns no job if the process no longer leads the
	// endpoint.
	// Arguments: the arguments of nextJobs, with selectLead's before the last.
	nextJobsOfLead = selectNextJobs + ` AND EXISTS (` + selectLead + `)` + nextJobsOrder
	// selectLead checks that a process leads an endpoint.
	// Arguments: the endpoint, the process, and the epoch.
	selectLead     = `SELECT 1 FROM leads JOIN processes ON processes.id = leads.process WHERE leads.endpoint = ? AND leads.process = ? AND leads.epoch = ?`
	selectNextJobs = `SELECT jobs.k, id, low, attempt, retries, queued, ? + CASE WHEN exec_ms > 0 THEN exec_ms ELSE ? END, gone, ` + inputColumns + ` FROM jobs
		WHERE jobs.endpoint = ? AND state = 'IN_QUEUE' AND gone > ?`
	// Subqueries, because PostgreSQL may plan a join as a scan of all inputs if the table
	// was empty when it made the plan.
	inputColumns  = `(SELECT inputs.input FROM inputs WHERE inputs.k = jobs.k), (SELECT inputs.rest FROM inputs WHERE inputs.k = jobs.k)`
	nextJobsOrder = ` ORDER BY turn, jobs.k LIMIT ?{lock jobs that are free}`

	// completeJob records that the handler returned: IN_PROGRESS → COMPLETED.
	// Arguments: the arguments of setFinished, and the job's key.
	completeJob = `UPDATE jobs SET state = 'COMPLETED',` + setFinished + `WHERE k = ?`
	// failJob records that the handler failed: IN_PROGRESS → FAILED.
	// Arguments: the arguments of setFinished, and the job's key.
	failJob = `UPDATE jobs SET state = 'FAILED',` + setFinished + `WHERE k = ?`
	// lockHeldJob locks the job of completeJob or failJob, if the worker still runs it.
	// Arguments: the argument of retentionEnd, then the arguments of heldByWorker.
	lockHeldJob = `SELECT k, endpoint, id, low, queued, started, ` + retentionEnd + `, webhook, owner, retries FROM jobs WHERE` + heldByWorker + `{lock}`

	// cancelJob cancels a job: IN_QUEUE, IN_PROGRESS → CANCELLED. A running job whose
	// deadline has passed counts as TIMED_OUT and can't be cancelled.
	// Arguments: the arguments of setFinished and jobByID, and the current time.
	cancelJob = `UPDATE jobs SET state = 'CANCELLED',` + setFinished + `WHERE` + jobByID +
		`AND (state = 'IN_QUEUE' OR state = 'IN_PROGRESS' AND deadline > ?)` + returningChange

	// timeOutJob and timeOutDue end jobs whose deadline has passed: IN_PROGRESS → TIMED_OUT.
	// The deadline is the end of the job, even if the statement runs much later.
	// Arguments of timeOutJob: the arguments of jobByID, and the current time.
	// Arguments of timeOutDue: the current time, and the maximum number of jobs.
	timeOut    = `UPDATE jobs SET state = 'TIMED_OUT', finished = deadline, gone = {least}(expires, deadline + keep_ms) WHERE `
	timeOutJob = timeOut + jobByID + `AND state = 'IN_PROGRESS' AND deadline <= ?` + returningChange
	timeOutDue = timeOut + `k {in unlocked (}SELECT k FROM jobs WHERE state = 'IN_PROGRESS' AND deadline <= ? LIMIT ?{)}` + returningChange

	// requeueLost requeues a job whose worker died, if it has a retry left:
	// IN_PROGRESS → IN_QUEUE.
	// Arguments: the current time, maxRetries, then heldByWorker's.
	//
	// failLost fails the job if it has no retry left: IN_PROGRESS → FAILED.
	// Arguments: setFinished's, maxRetries, then heldByWorker's.
	requeueLost = `UPDATE jobs SET retries = retries + 1,` + setQueued + `WHERE retries < ? AND `
	requeueHeld = requeueLost + heldByWorker + returningChange
	failLost    = `UPDATE jobs SET state = 'FAILED',` + setFinished + `WHERE retries >= ? AND `
	failHeld    = failLost + heldByWorker + returningChange

	// retryJob requeues a job for a client: FAILED, TIMED_OUT → IN_QUEUE. The job goes to
	// the end of the queue. Its retries, delay and retention start again; its ttl goes on.
	// Arguments: the current time twice, the state that the job leaves, and the arguments
	// of jobByID.
	retryJob = `UPDATE jobs SET turn = ?, retries = 0, finished = 0, gone = expires,` + setQueued + `WHERE state = ? AND` + jobByID + returningChange

	// requeueOwn requeues the jobs of a process that stops: IN_PROGRESS → IN_QUEUE. It
	// counts no retry, because no worker failed.
	// Arguments: the current time, and the process.
	requeueOwn = `UPDATE jobs SET` + setQueued + `WHERE state = 'IN_PROGRESS' AND process = ?` + returningChange
	// requeueOrphans and failOrphans settle the jobs of processes that died:
	// IN_PROGRESS → IN_QUEUE, FAILED. They count a retry, because a job may have killed
	// its process.
	// Arguments: the arguments of requeueLost or failLost.
	requeueOrphans    = requeueLost + heldByDeadProcess + returningChange
	failOrphans       = failLost + heldByDeadProcess + returningChange
	heldByDeadProcess = `state = 'IN_PROGRESS' AND process NOT IN (SELECT id FROM processes)`

	// returnHeld requeues a job that never reached its worker, because the reply to the
	// commit was lost: IN_PROGRESS → IN_QUEUE.
	// Arguments: the current time, and the arguments of heldByWorker.
	returnHeld = `UPDATE jobs SET` + setQueued + `WHERE` + heldByWorker + returningChange

	// deleteGone deletes jobs whose ttl or retention is over: any → (none). Expired jobs
	// are invisible to clients, but a job stays until its webhook call has been made.
	// Arguments: the current time, and the maximum number of jobs.
	deleteGone = `DELETE FROM jobs WHERE k {in unlocked (}SELECT k FROM jobs WHERE gone <= ? AND` + webhookDone + `LIMIT ?{)} RETURNING endpoint, id, low, state`
	// deleteQueued purges an endpoint's queue: IN_QUEUE → (none).
	// Arguments: the arguments of purgeable, and the maximum number of jobs.
	deleteQueued = `DELETE FROM jobs WHERE state = 'IN_QUEUE' AND k IN (` + purgeable + `ORDER BY turn, k LIMIT ?) RETURNING endpoint, id, low, state`
	// deleteOfEndpoint deletes the jobs of a deleted endpoint: any → (none).
	// Arguments: the endpoint, and the maximum number of jobs.
	deleteOfEndpoint = `DELETE FROM jobs WHERE k {in unlocked (}SELECT k FROM jobs WHERE endpoint = ? LIMIT ?{)} RETURNING endpoint, id, low, state`
)

// Statements about a job's input, output and chunks, its ttl, and the
// tallies of its endpoint.
const (
	// Arguments: the endpoint, the id, and the values of the two columns.
	insertInput  = `INSERT INTO inputs (k, input, rest) VALUES ((SELECT k FROM jobs WHERE endpoint = ? AND id = ?), ?, ?)`
	insertOutput = `INSERT INTO outputs (k, output, error) VALUES ((SELECT k FROM jobs WHERE endpoint = ? AND id = ?), ?, ?)` + orReplaceOutput

	upsertOutput    = `INSERT INTO outputs (k, output, error) VALUES (?, ?, ?)` + orReplaceOutput
	orReplaceOutput = ` ON CONFLICT (k) DO UPDATE SET output = excluded.output, error = excluded.error`
	deleteOutput    = `DELETE FROM outputs WHERE k = ?`
	deleteChunks    = `DELETE FROM chunks WHERE k = ?`

	// lockHeldKey locks a job that a worker still runs.
	// Arguments: the arguments of heldByWorker.
	lockHeldKey = `SELECT k FROM jobs WHERE` + heldByWorker + `{lock}`

	// lockJob waits until no other transaction changes the job.
	// Arguments: the endpoint, and the id.
	lockJob = `SELECT k FROM jobs WHERE endpoint = ? AND id = ?{lock}`

	// selectStreamed returns how many chunks a job has streamed.
	// Arguments: the arguments of heldByWorker.
	selectStreamed = `SELECT streamed FROM jobs WHERE` + heldByWorker + `{lock}`
	// addStreamed counts new chunks. The last of them has the number streamed; a row of
	// chunks has the number of its first chunk.
	// Arguments: the number of new chunks, and the arguments of heldByWorker.
	addStreamed = `UPDATE jobs SET streamed = streamed + ? WHERE` + heldByWorker + `RETURNING k, streamed`
	insertChunk = `INSERT INTO chunks (k, seq, chunk) VALUES (?, ?, ?)`
	// deleteReadChunks deletes the chunks that a client has read.
	// Arguments: the arguments of jobByID, and the number of the last chunk.
	deleteReadChunks = `DELETE FROM chunks WHERE k = (SELECT k FROM jobs WHERE` + jobByID + `) AND seq <= ? RETURNING seq, chunk`

	// updateTTL sets a job's time to live, which counts from the submission.
	// Arguments: the ttl three times, and the arguments of jobByID.
	updateTTL = `UPDATE jobs SET expires = submitted + ?,
		gone = CASE WHEN finished > 0 THEN {least}(submitted + ?, finished + keep_ms) ELSE submitted + ? END
		WHERE` + jobByID + `RETURNING gone`

	// addTally adds a transaction's changes to an endpoint's job counts.
	addTally = `INSERT INTO tallies (endpoint, slot, in_queue, waiting, in_progress, completed, failed, retried) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (endpoint, slot) DO UPDATE SET in_queue = tallies.in_queue + excluded.in_queue, waiting = tallies.waiting + excluded.waiting,
			in_progress = tallies.in_progress + excluded.in_progress, completed = tallies.completed + excluded.completed,
			failed = tallies.failed + excluded.failed, retried = tallies.retried + excluded.retried`
	deleteTallies = `DELETE FROM tallies WHERE endpoint = ?`
)

// Queries.
const (
	// selectJob reads a job, without an output above a size.
	// Arguments: the maximum size of the output in bytes, and the arguments of jobByID.
	selectJob = `SELECT state, queued, started, deadline, finished, worker, retries,
			CASE WHEN LENGTH(output) <= ? THEN output END, COALESCE(LENGTH(output), 0), COALESCE(error, '')
		FROM jobs LEFT JOIN outputs ON outputs.k = jobs.k WHERE` + jobByID

	// recentJobs lists an endpoint's newest jobs, without outputs above a size.
	// Arguments: the maximum size of an output in bytes, the arguments of newestOfEndpoint,
	// and the maximum number of jobs.
	recentJobs = `SELECT ` + listedColumns + `,
			CASE WHEN LENGTH(output) <= ? THEN output END, COALESCE(error, '')
		FROM jobs LEFT JOIN outputs ON outputs.k = jobs.k
		WHERE` + newestOfEndpoint + `ORDER BY jobs.k DESC LIMIT ?`
	// An endpoint's newest asynchronous and synchronous jobs. The ids of each kind grow
	// with time (NewJob.newID), so the index of the ids suffices.
	// Arguments: twice the endpoint, the current time, and the number of jobs.
	newestOfEndpoint = ` jobs.k IN (SELECT k FROM (SELECT k FROM jobs WHERE endpoint = ? AND id < 's' AND gone > ? ORDER BY id DESC LIMIT ?) AS queued
			UNION ALL SELECT k FROM (SELECT k FROM jobs WHERE endpoint = ? AND id > 's' AND gone > ? ORDER BY id DESC LIMIT ?) AS awaited) `

	// latestJobs lists the newest jobs of all endpoints, without requests of batches, and
	// latestJobsOf lists the jobs of one endpoint. The plus sign keeps SQLite from using the index
	// of gone: it reads the newest rows until it has enough.
	// Arguments: the maximum length of an error in characters, the current time or the
	// arguments of newestOfEndpoint, and the number of jobs.
	latestJobs   = selectOverview + `WHERE +gone > ? AND endpoint NOT LIKE '%` + queueSuffix + `' ORDER BY jobs.k DESC LIMIT ?`
	latestJobsOf = selectOverview + `WHERE` + newestOfEndpoint + `ORDER BY jobs.k DESC LIMIT ?`

	selectOverview = `SELECT ` + listedColumns + `,
			COALESCE((SELECT SUBSTR(error, 1, ?) FROM outputs WHERE outputs.k = jobs.k AND jobs.state = 'FAILED'), '')
		FROM jobs `

	listedColumns = `endpoint, id, state, queued, started, deadline, finished, worker, retries`

	// unreadChunks lists a job's unread chunks in order.
	// Arguments: the arguments of jobByID.
	unreadChunks = `SELECT seq, LENGTH(chunk) FROM chunks WHERE k = (SELECT k FROM jobs WHERE` + jobByID + `) ORDER BY seq`

	countUnread = `SELECT COALESCE(MAX(streamed) + 1 - MIN(seq), 0) FROM jobs JOIN chunks ON chunks.k = jobs.k WHERE` + jobByID

	// selectHeld checks that a worker still runs a job.
	// Arguments: the arguments of heldByWorker.
	selectHeld = `SELECT 1 FROM jobs WHERE` + heldByWorker

	// The queued jobs up to a place in the queue and a key. Jobs that are queued later
	// have a later turn or a greater key.
	// Arguments: the endpoint, the current time, and the last turn and key.
	purgeable     = `SELECT k FROM jobs WHERE endpoint = ? AND state = 'IN_QUEUE' AND gone > ? AND turn <= ? AND k <= ? `
	purgeableLeft = purgeable + `LIMIT 1`
	// selectQueueEnd returns the last turn in an endpoint's queue, and the greatest key
	// of all jobs.
	// Arguments: the endpoint.
	selectQueueEnd = `SELECT COALESCE((SELECT turn FROM jobs WHERE endpoint = ? AND state = 'IN_QUEUE' ORDER BY turn DESC, k DESC LIMIT 1), 0),
		COALESCE((SELECT MAX(k) FROM jobs), 0)`

	selectTallies = `SELECT endpoint, in_queue, waiting, in_progress, completed, failed, retried FROM tallies`
	selectTally   = selectTallies + ` WHERE endpoint = ?`

	oldestQueued = `SELECT queued FROM jobs WHERE endpoint = ? AND state = 'IN_QUEUE' AND gone > ? AND low = 0 ORDER BY turn, k LIMIT 1`

	// The times at which the sweeper is needed next.
	nextGone     = `SELECT MIN(gone) FROM (SELECT gone FROM jobs WHERE` + webhookDone + `ORDER BY gone LIMIT 1) AS earliest`
	nextDeadline = `SELECT MIN(deadline) FROM jobs WHERE state = 'IN_PROGRESS'`
)

// The processes that share the database. The table is empty if the database is embedded.
const (
	insertProcess      = `INSERT INTO processes (id, beats, url, machine) VALUES (?, 1, ?, ?)`
	beatProcess        = `UPDATE processes SET beats = beats + 1 WHERE id = ?`
	otherProcesses     = `SELECT id, beats, url, machine FROM processes WHERE id <> ?`
	deleteStaleProcess = `DELETE FROM processes WHERE id = ? AND beats = ?`
	deleteProcess      = `DELETE FROM processes WHERE id = ?`

	// sumWaiting counts the queued jobs by endpoint.
	sumWaiting = `SELECT endpoint, CAST(SUM(in_queue) AS BIGINT) FROM tallies GROUP BY endpoint HAVING SUM(in_queue) > 0`
)

// Which process leads an endpoint (lead.go).
const (
	// claimLead makes a live process the leader of an endpoint, unless another live
	// process leads it.
	// Arguments: the endpoint, and the process.
	claimLead = `INSERT INTO leads (endpoint, process, epoch) SELECT ?, id, 1 FROM processes WHERE id = ?
		ON CONFLICT (endpoint) DO UPDATE SET process = excluded.process, epoch = leads.epoch + CASE WHEN leads.process = excluded.process THEN 0 ELSE 1 END,
			failure = CASE WHEN leads.process = excluded.process THEN leads.failure ELSE '' END
		WHERE leads.process = excluded.process OR leads.process NOT IN (SELECT id FROM processes)
		RETURNING epoch`
	// Arguments: the endpoint, the process, and the epoch.
	releaseLead = `UPDATE leads SET process = '' WHERE endpoint = ? AND process = ? AND epoch = ?`
	// Arguments: the failure, the endpoint, the process, and the epoch.
	setLeadFailure = `UPDATE leads SET failure = ? WHERE endpoint = ? AND process = ? AND epoch = ?`
	deleteLead     = `DELETE FROM leads WHERE endpoint = ?`
	selectLeads    = `SELECT leads.endpoint, leads.process, leads.epoch, leads.failure, processes.url FROM leads JOIN processes ON processes.id = leads.process`
)

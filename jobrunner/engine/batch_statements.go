package engine

// Statements about batches and their requests. All times are milliseconds since 1970.
const (
	// The requests of a batch. The condition batch > 0 lets statements use the partial index.
	fromJobsOfBatch = ` FROM jobs WHERE jobs.batch = batches.k AND jobs.batch > 0 `
	notEnded        = `AND jobs.state IN ('DRAFT', 'IN_QUEUE', 'IN_PROGRESS')`
	countUnfinished = `(SELECT COUNT(*)` + fromJobsOfBatch + notEnded + `)`

	// Arguments: the endpoint, the id, the current time, the end of the retention, and the
	// time at which the batch is due.
	insertBatch = `INSERT INTO batches (endpoint, id, name, state, verdict, created, ends, gone, due) VALUES (?, ?, '', 'DRAFT', '', ?, 0, ?, ?) {returning k}`
	// Arguments: the queue, the id, the retention, the current time three times, the end of
	// the batch's retention twice, and the batch's key.
	insertRequest = `INSERT INTO jobs (endpoint, id, state, low, webhook, exec_ms, keep_ms, submitted, turn, queued, expires, gone, batch)
		VALUES (?, ?, 'DRAFT', 0, '', 0, ?, ?, ?, ?, ?, ?, ?)`
	deleteRequest = `DELETE FROM jobs WHERE endpoint = ? AND id = ? AND batch = ? AND state = 'DRAFT'`

	renameBatch = `UPDATE batches SET name = ? WHERE k = ?`
	// finalizeBatch finalizes a batch: DRAFT → FINALIZED.
	finalizeBatch = `UPDATE batches SET state = 'FINALIZED', ends = ?, gone = ?, due = ? WHERE k = ?`
	// endBatch sets the state that the batch has once no request runs:
	// DRAFT, FINALIZED → FAILED, CANCELLED.
	endBatch        = `UPDATE batches SET verdict = ?, due = ? WHERE k = ?`
	setBatchDue     = `UPDATE batches SET due = ? WHERE k = ?`
	deleteBatch     = `DELETE FROM batches WHERE k = ?`
	deleteBatchesOf = `DELETE FROM batches WHERE endpoint = ?`

	// releaseRequests queues requests: DRAFT → IN_QUEUE.
	// Arguments: the current time three times, the end of the batch's retention twice, the
	// batch's key, and the maximum number of requests.
	releaseRequests = `UPDATE jobs SET state = 'IN_QUEUE', submitted = ?, turn = ?, queued = ?, expires = ?, gone = ?
		WHERE k {in unlocked (}SELECT k FROM jobs WHERE batch = ? AND batch > 0 AND state = 'DRAFT' ORDER BY k LIMIT ?{)}` + returningChange
	// cancelRequests cancels requests: DRAFT, IN_QUEUE → CANCELLED.
	// Arguments: the arguments of setFinished, the batch's key, the state that the requests
	// leave, and the maximum number of requests.
	cancelRequests = `UPDATE jobs SET state = 'CANCELLED',` + setFinished +
		`WHERE k {in unlocked (}SELECT k FROM jobs WHERE batch = ? AND batch > 0 AND state = ? LIMIT ?{)}` + returningChange
)

// Queries of batches.
const (
	lockBatchRow   = `SELECT k FROM batches WHERE `
	selectBatchRow = `SELECT k, state, verdict, ends, gone, (SELECT COUNT(*)` + fromJobsOfBatch + `), ` + countUnfinished + ` FROM batches WHERE `
	batchByID      = `endpoint = ? AND id = ? AND gone > ?`
	dueBatch       = `k = ? AND due <= ?`

	selectDueBatches = `SELECT k FROM batches WHERE due <= ? ORDER BY due LIMIT 100`
	nextBatch        = `SELECT MIN(due) FROM batches`

	countBatches = `SELECT COUNT(*) FROM batches WHERE endpoint = ? AND gone > ?`
	countActive  = countBatches + ` AND (state = 'DRAFT' AND verdict = '' OR EXISTS (SELECT 1` + fromJobsOfBatch + notEnded + `))`
	// lockLead serializes the creation of an endpoint's batches.
	lockLead = `SELECT epoch FROM leads WHERE endpoint = ?{lock}`

	batchColumns = `SELECT endpoint, id, name, state, verdict, created, (SELECT COUNT(*)` + fromJobsOfBatch + `), (SELECT COUNT(*)` + fromJobsOfBatch + `AND jobs.state = 'IN_PROGRESS'),
		(SELECT COUNT(*)` + fromJobsOfBatch + `AND jobs.state = 'COMPLETED'), (SELECT COUNT(*)` + fromJobsOfBatch + `AND jobs.state IN ('FAILED', 'TIMED_OUT')), ` + countUnfinished + ` FROM batches WHERE endpoint = ? AND `
	selectBatch   = batchColumns + `id = ? AND gone > ?`
	selectBatches = batchColumns + `gone > ? ORDER BY id DESC LIMIT ? OFFSET ?`
	// Arguments: the maximum size of an output in bytes, the endpoint, the batch's id, and
	// the limit and offset of the page.
	selectRequests = `SELECT id, state, started, finished, CASE WHEN LENGTH(output) <= ? THEN output END, COALESCE(LENGTH(output), 0), COALESCE(error, '')
		FROM jobs LEFT JOIN outputs ON outputs.k = jobs.k
		WHERE jobs.k IN (SELECT k FROM jobs WHERE batch = (SELECT k FROM batches WHERE endpoint = ? AND id = ?) AND batch > 0 ORDER BY k LIMIT ? OFFSET ?) ORDER BY jobs.k`
)

package engine

// Statements about batches and their requests. All times are milliseconds since 1970.
const (
	// The requests of a batch. Statements name batch > 0 for the index.
	ofBatch  = ` FROM jobs WHERE jobs.batch = batches.k AND jobs.batch > 0 `
	notEnded = `AND jobs.state IN ('DRAFT', 'IN_QUEUE', 'IN_PROGRESS')`
	left     = `(SELECT COUNT(*)` + ofBatch + notEnded + `)`

	// Arguments: endpoint, id, now, gone, due.
	insertBatch = `INSERT INTO batches (endpoint, id, name, state, verdict, created, ends, gone, due) VALUES (?, ?, '', 'DRAFT', '', ?, 0, ?, ?) {returning k}`
	// Arguments: queue, id, retention, now, now, now, gone, gone, batch.
	insertRequest = `INSERT INTO jobs (endpoint, id, state, low, webhook, exec_ms, keep_ms, submitted, turn, queued, expires, gone, batch)
		VALUES (?, ?, 'DRAFT', 0, '', 0, ?, ?, ?, ?, ?, ?, ?)`
	// Arguments: queue, id, batch.
	deleteRequest = `DELETE FROM jobs WHERE endpoint = ? AND id = ? AND batch = ? AND state = 'DRAFT'`

	// Arguments: name, k.
	renameBatch = `UPDATE batches SET name = ? WHERE k = ?`
	// DRAFT → FINALIZED. Arguments: ends, gone, due, k.
	finalizeBatch = `UPDATE batches SET state = 'FINALIZED', ends = ?, gone = ?, due = ? WHERE k = ?`
	// DRAFT, FINALIZED → FAILED, CANCELLED, once no request runs. Arguments: verdict, due, k.
	endBatch = `UPDATE batches SET verdict = ?, due = ? WHERE k = ?`
	// Arguments: due, k.
	setBatchDue = `UPDATE batches SET due = ? WHERE k = ?`
	deleteBatch = `DELETE FROM batches WHERE k = ?`
	// Arguments: endpoint.
	deleteBatchesOf = `DELETE FROM batches WHERE endpoint = ?`

	// DRAFT → IN_QUEUE, of requests. Arguments: now, now, now, expires, gone, batch, how many.
	releaseRequests = `UPDATE jobs SET state = 'IN_QUEUE', submitted = ?, turn = ?, queued = ?, expires = ?, gone = ?
		WHERE k {in unlocked (}SELECT k FROM jobs WHERE batch = ? AND batch > 0 AND state = 'DRAFT' ORDER BY k LIMIT ?{)}` + returningChange
	// DRAFT, IN_QUEUE → CANCELLED, of requests. Arguments: now, now, batch, state, how many.
	dropRequests = `UPDATE jobs SET state = 'CANCELLED',` + setFinished +
		`WHERE k {in unlocked (}SELECT k FROM jobs WHERE batch = ? AND batch > 0 AND state = ? LIMIT ?{)}` + returningChange
)

// What is read of batches.
const (
	lockBatchRow   = `SELECT k FROM batches WHERE `
	selectBatchRow = `SELECT k, state, verdict, ends, gone, (SELECT COUNT(*)` + ofBatch + `), ` + left + ` FROM batches WHERE `
	// Arguments: endpoint, id, now.
	batchByID = `endpoint = ? AND id = ? AND gone > ?`
	// Arguments: k, now.
	dueBatch = `k = ? AND due <= ?`
	// Arguments: now.
	selectDueBatches = `SELECT k FROM batches WHERE due <= ? ORDER BY due LIMIT 100`
	nextBatch        = `SELECT MIN(due) FROM batches`

	// Arguments: endpoint, now.
	countBatches = `SELECT COUNT(*) FROM batches WHERE endpoint = ? AND gone > ?`
	countActive  = countBatches + ` AND (state = 'DRAFT' AND verdict = '' OR EXISTS (SELECT 1` + ofBatch + notEnded + `))`
	// Creates of one endpoint follow each other. Arguments: endpoint.
	lockLead = `SELECT epoch FROM leads WHERE endpoint = ?{lock}`

	batchColumns = `SELECT endpoint, id, name, state, verdict, created, (SELECT COUNT(*)` + ofBatch + `), (SELECT COUNT(*)` + ofBatch + `AND jobs.state = 'IN_PROGRESS'),
		(SELECT COUNT(*)` + ofBatch + `AND jobs.state = 'COMPLETED'), (SELECT COUNT(*)` + ofBatch + `AND jobs.state IN ('FAILED', 'TIMED_OUT')), ` + left + ` FROM batches WHERE endpoint = ? AND `
	// Arguments: endpoint, id, now.
	selectBatch = batchColumns + `id = ? AND gone > ?`
	// Arguments: endpoint, now, how many, offset.
	selectBatches = batchColumns + `gone > ? ORDER BY id DESC LIMIT ? OFFSET ?`
	// Arguments: bytes of an output, endpoint, id, how many, offset.
	selectRequests = `SELECT id, state, started, finished, CASE WHEN LENGTH(output) <= ? THEN output END, COALESCE(LENGTH(output), 0), COALESCE(error, '')
		FROM jobs LEFT JOIN outputs ON outputs.k = jobs.k
		WHERE jobs.k IN (SELECT k FROM jobs WHERE batch = (SELECT k FROM batches WHERE endpoint = ? AND id = ?) AND batch > 0 ORDER BY k LIMIT ? OFFSET ?) ORDER BY jobs.k`
)

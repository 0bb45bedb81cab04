package contract

const documentOfBatches = "changes of November 2026: batch jobs"

var batch = rows(Jobs, "batch", documentOfBatches,
	f("id", "string", Read, required(Read)),
	f("endpointId", "string", Read),
	f("name", "string", Read, note("chosen by this project; only if set")),
	f("status", "string", Read, required(Read), oneOf("DRAFT", "FINALIZED", "FAILED", "CANCELLED"), note("FINALIZED is finished if requestCompleted + requestFailed = requestTotal; FAILED and CANCELLED always are")),
	f("requestTotal", "integer", Read, atLeast(0)),
	f("requestInProgress", "integer", Read, atLeast(0)),
	f("requestCompleted", "integer", Read, atLeast(0)),
	f("requestFailed", "integer", Read, atLeast(0)),
	f("createdAt", "integer", Read, unit("ms since 1970")),
	f("requestIds", "[]string", Read, note("chosen by this project; the requests just added")),
)

func batchPage(list, text string) []Field {
	return []Field{
		f(list, "[]object", Read, required(Read), note(text)),
		f("total", "integer", Read, required(Read), atLeast(0)),
		f("offset", "integer", Read, required(Read), atLeast(0)),
		f("limit", "integer", Read, required(Read), between(1, 1000)),
		f("hasMore", "boolean", Read, required(Read)),
	}
}

var (
	batchList    = rows(Jobs, "batchList", documentOfBatches, batchPage("batches", "chosen by this project; summaries, newest first")...)
	batchResults = rows(Jobs, "batchResults", documentOfBatches, batchPage("requests", "id, status, output or error, startedAt, completedAt (RFC 3339)")...)
)

var operationsBatch = []Operation{
	op("POST", "/batch", "batch", 200, documentOfBatches, fails(400, 413), opNote("a JSON array of requests, possibly empty; returns id and status DRAFT")),
	op("GET", "/batch", "batchList", 200, documentOfBatches, query("offset", "limit"), fails(400)),
	op("GET", "/batch/{id}", "batch", 200, documentOfBatches),
	op("PUT", "/batch/{id}", "batch", 200, documentOfBatches, fails(400, 413), opNote("the name, a string of at most 255 characters")),
	op("POST", "/batch/{id}/requests", "batch", 200, documentOfBatches, fails(400, 413), opNote("`{\"requests\": [{\"input\": {…}}]}`, only to a DRAFT; body up to 10 MiB")),
	op("GET", "/batch/{id}/requests", "batchResults", 200, documentOfBatches, query("offset", "limit"), fails(400)),
	op("DELETE", "/batch/{id}/requests/{requestId}", "batch", 200, documentOfBatches, fails(400), opNote("only of a DRAFT")),
	op("POST", "/batch/{id}/finalize", "batch", 200, documentOfBatches, fails(400), opNote("DRAFT → FINALIZED")),
	op("POST", "/batch/{id}/cancel", "batch", 200, documentOfBatches, opNote("drops waiting requests; CANCELLED when nothing runs")),
}

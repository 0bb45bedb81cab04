package contract

const pageOfBatches = "changes of November 2026: batch jobs"

// batch is the summary of a batch.
var batch = rows(Jobs, "batch", pageOfBatches,
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

// batchPage returns the members of a page.
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
	batchList    = rows(Jobs, "batchList", pageOfBatches, batchPage("batches", "chosen by us; summaries, newest first")...)
	batchResults = rows(Jobs, "batchResults", pageOfBatches, batchPage("requests", "id, status, output or error, startedAt, completedAt (RFC 3339)")...)
)

var operationsBatch = []Operation{
	op("POST", "/batch", "batch", 200, pageOfBatches, fails(400, 413), opNote("a JSON array of requests, possibly empty; returns id and status DRAFT")),
	op("GET", "/batch", "batchList", 200, pageOfBatches, query("offset", "limit"), fails(400)),
	op("GET", "/batch/{id}", "batch", 200, pageOfBatches),
	op("PUT", "/batch/{id}", "batch", 200, pageOfBatches, fails(400, 413), opNote("the name, a string of at most 255 characters")),
	op("POST", "/batch/{id}/requests", "batch", 200, pageOfBatches, fails(400, 413), opNote("`{\"requests\": [{\"input\": {…}}]}`, only to a DRAFT; body up to 10 MiB")),
	op("GET", "/batch/{id}/requests", "batchResults", 200, pageOfBatches, query("offset", "limit"), fails(400)),
	op("DELETE", "/batch/{id}/requests/{requestId}", "batch", 200, pageOfBatches, fails(400), opNote("only of a DRAFT")),
	op("POST", "/batch/{id}/finalize", "batch", 200, pageOfBatches, fails(400), opNote("DRAFT → FINALIZED")),
	op("POST", "/batch/{id}/cancel", "batch", 200, pageOfBatches, opNote("drops waiting requests; CANCELLED when nothing runs")),
}

var choicesOnBatches = []Choice{
	{"Batches", "The page prints the responses of create, summary and results alone.", "All other operations return the summary. PUT `{\"name\": \"…\"}` sets its `name`. Lists have `offset` and `limit` (1 to 1000, default 50), as results do; invalid values are 400."},
	{"Errors of a batch", "The page prints none.", "404 for an unknown batch or request; 400, without any change, if its state or the limit of 5,000 requests forbids it; 429 for the 11th active batch. Drafts and batches with unfinished requests are active. Finalize and cancel are idempotent; a finished batch stays FINALIZED."},
	{"Requests of a batch", "The page shows an `input` alone.", "A request with a webhook, policy or s3Config is 400. It is IN_QUEUE until it runs, also in a draft. Dropped requests are CANCELLED; timed-out ones count as failed. `/status`, `/health`, `/requests` and `/purge-queue` exclude batches."},
	{"Times of a batch", "The page prints none.", "Drafts are deleted after 7 days. Requests may start for 7 days after finalize; then waiting ones are dropped, and the batch is FAILED when nothing runs. It is deleted with its results 8 days after finalize."},
	{"Workers of a batch", "The page: separate workers, start not guaranteed.", "Up to `workersMax` in addition to the endpoint's own, only while there are requests; health excludes them. They use GPUs that no other worker waits for. If one does, a batch worker is killed and its requests are queued again."},
}

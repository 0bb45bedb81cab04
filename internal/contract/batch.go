package contract

const pageOfBatches = "changes of November 2026: batch jobs"

// batch is the summary of a batch.
var batch = rows(Jobs, "batch", pageOfBatches,
	f("id", "string", Read, must(Read)),
	f("endpointId", "string", Read),
	f("name", "string", Read, note("chosen by us; only if one was set")),
	f("status", "string", Read, must(Read), oneOf("DRAFT", "FINALIZED", "FAILED", "CANCELLED"), note("done: requestCompleted + requestFailed = requestTotal")),
	f("requestTotal", "integer", Read, atLeast(0)),
	f("requestInProgress", "integer", Read, atLeast(0)),
	f("requestCompleted", "integer", Read, atLeast(0)),
	f("requestFailed", "integer", Read, atLeast(0)),
	f("createdAt", "integer", Read, unit("ms since 1970")),
	f("requestIds", "[]string", Read, note("chosen by us; of the requests just added")),
)

// batchPage are the members of a page.
func batchPage(list, text string) []Field {
	return []Field{
		f(list, "[]object", Read, must(Read), note(text)),
		f("total", "integer", Read, must(Read), atLeast(0)),
		f("offset", "integer", Read, must(Read), atLeast(0)),
		f("limit", "integer", Read, must(Read), between(1, 1000)),
		f("hasMore", "boolean", Read, must(Read)),
	}
}

var (
	batchList    = rows(Jobs, "batchList", pageOfBatches, batchPage("batches", "chosen by us; summaries, newest first")...)
	batchResults = rows(Jobs, "batchResults", pageOfBatches, batchPage("requests", "id, status, output or error, startedAt, completedAt (RFC 3339)")...)
)

var operationsBatch = []Operation{
	op("POST", "/batch", "batch", 200, pageOfBatches, fails(400, 413), says("a JSON array of requests, which may be empty; answers id and status DRAFT")),
	op("GET", "/batch", "batchList", 200, pageOfBatches, query("offset", "limit"), fails(400)),
	op("GET", "/batch/{id}", "batch", 200, pageOfBatches),
	op("PUT", "/batch/{id}", "batch", 200, pageOfBatches, fails(400, 413), says("the name, a string of at most 255 characters")),
	op("POST", "/batch/{id}/requests", "batch", 200, pageOfBatches, fails(400, 413), says("`{\"requests\": [{\"input\": {…}}]}`, to a DRAFT alone; body up to 10 MiB")),
	op("GET", "/batch/{id}/requests", "batchResults", 200, pageOfBatches, query("offset", "limit"), fails(400)),
	op("DELETE", "/batch/{id}/requests/{requestId}", "batch", 200, pageOfBatches, fails(400), says("a DRAFT alone")),
	op("POST", "/batch/{id}/finalize", "batch", 200, pageOfBatches, fails(400), says("DRAFT → FINALIZED")),
	op("POST", "/batch/{id}/cancel", "batch", 200, pageOfBatches, says("drops what waits; CANCELLED once nothing runs")),
}

var choicesOnBatches = []Choice{
	{"Batches", "The page prints the answers of create, summary and results alone.", "Every other operation answers the summary, which has a `name` if one was set by PUT `{\"name\": \"…\"}`. Lists of batches have the paging of results: `offset`, `limit` (1 to 1000, default 50), else 400."},
	{"Errors of a batch", "The page prints none.", "404 for an unknown batch or request; 400 for what its state or 5,000 requests forbid, and then nothing is changed; 429 for the 11th active batch: drafts, and batches with requests that have not ended, are active. Finalize and cancel may be repeated; a batch that is done stays FINALIZED."},
	{"Requests of a batch", "The page shows an `input` alone.", "A request with a webhook, policy or s3Config is 400. It is IN_QUEUE until it runs, also in a draft; dropped ones are CANCELLED, and those that timed out count as failed. `/status`, `/health`, `/requests` and `/purge-queue` are about the jobs of `/run` and `/runsync`."},
	{"Times of a batch", "The page prints none.", "Drafts are deleted after 7 days. Requests may run for 7 days from finalize; what waits then is dropped, and the batch is FAILED once nothing runs. It is deleted with its results 8 days after finalize."},
	{"Workers of a batch", "The page: separate workers, start not guaranteed.", "As many as `workersMax` beside the endpoint's own, none without requests, and no part of its health. They take GPUs that nobody waits for; if a worker of any endpoint waits for one, a batch's worker is killed for it, and its requests are queued again."},
}

package contract

// The failures that any operation may answer are the description's (Errors):
// 404 for an unknown endpoint id, and for a job that is gone.
var operationsJobs = operations(Jobs, []int{401, 403, 404, 429, 500}, append([]Operation{
	op("POST", "/run", "jobSubmission", 200, "description: Endpoints B", fails(400, 413), says("answers id and status IN_QUEUE; body up to 10 MB")),
	op("POST", "/runsync", "jobSubmission", 200, "description: Endpoints B", query("wait"), fails(400, 413), says("answers the job; body up to 20 MB; wait is 1000 to 300000 ms, default 90000; when it elapses: the unfinished job")),
	op("GET", "/status/{job_id}", "job", 200, "description: Endpoints B", query("ttl"), fails(400), says("ttl, in ms, sets the job's")),
	op("GET", "/stream/{job_id}", "streamChunk", 200, "description: Endpoints B", query("wait"), fails(400), says("an array of the chunks not read yet; held up to wait ms when there are none; under /live a liveStream object")),
	op("POST", "/cancel/{job_id}", "job", 200, "description: Endpoints B", says("answers id and status CANCELLED; a finished job's status is unchanged")),
	op("POST", "/retry/{job_id}", "job", 200, "description: Endpoints B", fails(400), says("answers id and status IN_QUEUE; 400 unless FAILED or TIMED_OUT")),
	op("POST", "/purge-queue", "purge", 200, "description: Endpoints B"),
	op("GET", "/health", "health", 200, "description: Endpoints B"),
	op("GET", "/requests", "jobList", 200, "description: Endpoints B, rule 5"),
	op("POST", "/openai/{route}", "", 200, "description: Endpoints B, rule 5", fails(400, 413), says("the body becomes the job's input as openai_input, the path as openai_route; answers what the handler gave")),
	op("GET", "/openai/v1/models", "", 200, "field notes: Job API", says("a job with openai_route /v1/models alone")),

	op("GET", "/status-sync/{job_id}", "job", 200, "field notes: Job API", query("wait"), fails(400), says("under /live alone: status, held until the job ends or wait is over")),
	op("POST", "/status-sync/{job_id}", "job", 200, "field notes: Job API", query("wait"), fails(400), says("under /live alone")),
	op("POST", "/status/{job_id}", "job", 200, "field notes: Job API", query("ttl"), fails(400), says("under /live alone")),
	op("POST", "/stream/{job_id}", "liveStream", 200, "field notes: Job API", query("wait"), fails(400), says("under /live alone")),
}, operationsBatch...)...)

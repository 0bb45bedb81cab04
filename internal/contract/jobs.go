package contract

var jobSubmission = rows(Jobs, "jobSubmission", "service description: Job submission body",
	f("input", "object", Create, required(Create), note("for the worker's handler; may be empty")),
	f("webhook", "string", Create, note("URL, called when the job is COMPLETED or FAILED")),
	f("policy", "object", Create),
	f("policy.executionTimeout", "integer", Create, defaultTo(`600000`), between(5000, 604800000), unit("ms"), note("counts only while the job runs; an endpoint's timeout overrides the default")),
	f("policy.lowPriority", "boolean", Create, defaultTo(`false`), note("true: the job triggers no scaling")),
	f("policy.ttl", "integer", Create, defaultTo(`86400000`), between(10000, 604800000), unit("ms"), note("counted from the submission; at its end the job is deleted in any state")),
	f("s3Config", "object", Create, note("passed to the worker, never returned")),
	f("s3Config.accessId", "string", Create),
	f("s3Config.accessSecret", "string", Create),
	f("s3Config.bucketName", "string", Create),
	f("s3Config.endpointUrl", "string", Create),
)

var job = rows(Jobs, "job", "service description: Job",
	f("id", "string", Read, required(Read)),
	f("status", "string", Read, required(Read), oneOf("IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT")),
	f("delayTime", "integer", Read, unit("ms"), note("once the job is IN_PROGRESS; time from the last queueing to the last start")),
	f("executionTime", "integer", Read, unit("ms"), note("once a job that was IN_PROGRESS has ended")),
	f("output", "any", Read, note("after a progress report or a result")),
	f("error", "string", Read, from("field notes: Job API"), note("FAILED only")),
	f("workerId", "string", Read, from("field notes: Job API"), note("once the job is IN_PROGRESS")),
	f("retries", "integer", Read, atLeast(1), from("field notes: Job API"), note("absent if 0; how often a lost job was dispatched again")),
)

var streamChunk = rows(Jobs, "streamChunk", "service description: Stream chunk",
	f("output", "any", Read, required(Read), note("at most 1 MB; the service description says object, handlers also yield text")),
	f("metrics", "object", Read, note("defined by the handler; the listed members were observed")),
	f("metrics.avg_gen_throughput", "number", Read),
	f("metrics.avg_prompt_throughput", "number", Read),
	f("metrics.cpu_kv_cache_usage", "number", Read),
	f("metrics.gpu_kv_cache_usage", "number", Read),
	f("metrics.input_tokens", "number", Read),
	f("metrics.output_tokens", "number", Read),
	f("metrics.pending", "number", Read),
	f("metrics.running", "number", Read),
	f("metrics.scenario", "string", Read),
	f("metrics.stream_index", "number", Read),
	f("metrics.swapped", "number", Read),
)

// liveStream is the response of /stream under /live, which the public SDKs read.
var liveStream = rows(Jobs, "liveStream", "field notes: Job API",
	f("status", "string", Read, required(Read), note("status of the job")),
	f("stream", "[]object", Read, required(Read), note("unread stream chunks")),
)

var health = rows(Jobs, "health", "service description: Health response",
	f("jobs", "object", Read, required(Read)),
	f("jobs.completed", "integer", Read, required(Read), atLeast(0)),
	f("jobs.failed", "integer", Read, required(Read), atLeast(0)),
	f("jobs.inProgress", "integer", Read, required(Read), atLeast(0)),
	f("jobs.inQueue", "integer", Read, required(Read), atLeast(0)),
	f("jobs.retried", "integer", Read, required(Read), atLeast(0)),
	f("workers", "object", Read, required(Read)),
	f("workers.idle", "integer", Read, required(Read), atLeast(0)),
	f("workers.running", "integer", Read, required(Read), atLeast(0)),
	f("workers.initializing", "integer", Read, atLeast(0), from("field notes: Job API")),
	f("workers.ready", "integer", Read, atLeast(0), from("field notes: Job API"), note("includes idle workers")),
	f("workers.throttled", "integer", Read, atLeast(0), from("field notes: Job API")),
	f("workers.unhealthy", "integer", Read, atLeast(0), from("field notes: Job API")),
)

var purge = rows(Jobs, "purge", "service description: Purge response",
	f("removed", "integer", Read, required(Read), atLeast(0), note("number of removed jobs")),
	f("status", "string", Read, required(Read), oneOf("completed")),
)

var jobList = rows(Jobs, "jobList", "field notes: Job API",
	f("requests", "[]object", Read, required(Read), note("jobs, newest first, at most 100")),
)

package engine

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"

// schema is the history of the engine's tables. Versions before 12 were never released. All times are
// milliseconds since 1970, 0 for never. Inputs, outputs and chunks have tables of their own, because a
// change of a job's state rewrites the job's row. They are deleted with that row.
var schema = append(make([]string, 11), sqldb.Breaking+`
CREATE TABLE jobs (
	k          {same key}, -- see newKey
	endpoint   TEXT   NOT NULL, -- name of the queue: the endpoint's id, with queueSuffix for batches
	id         TEXT   NOT NULL,
	low        BIGINT NOT NULL, -- 1: starts no worker
	webhook    TEXT   NOT NULL, -- URL, or empty
	owner      TEXT   NOT NULL, -- of the key that submitted the webhook
	exec_ms    BIGINT NOT NULL, -- execution timeout, 0: the endpoint's
	keep_ms    BIGINT NOT NULL, -- retention of the result
	batch      BIGINT NOT NULL, -- key of the request's batch, or 0

	state      TEXT   NOT NULL,
	turn       BIGINT NOT NULL, -- place in the queue, which a job keeps when its worker dies
	queued     BIGINT NOT NULL, -- the last (re)queueing
	worker     TEXT   NOT NULL,
	attempt    BIGINT NOT NULL, -- counts the takes: the fence against reports of earlier takes
	retries    BIGINT NOT NULL, -- takes whose worker died, since the submission or the last retry
	started    BIGINT NOT NULL, -- of the last take
	deadline   BIGINT NOT NULL, -- end of the execution timeout
	streamed   BIGINT NOT NULL, -- chunks so far, of all takes

	submitted  BIGINT NOT NULL,
	expires    BIGINT NOT NULL, -- end of the ttl
	gone       BIGINT NOT NULL, -- when the job ceases to exist: end of the ttl or of the retention
	finished   BIGINT NOT NULL,
	call_at    BIGINT NOT NULL, -- time of the next webhook call, or 0
	call_tries BIGINT NOT NULL,
	done       BIGINT NOT NULL -- 1: ended, without a call to make
);
CREATE INDEX jobs_endpoint ON jobs (endpoint, k);
CREATE INDEX jobs_active ON jobs (endpoint) WHERE done = 0;
CREATE INDEX jobs_gone ON jobs (gone) WHERE done = 1;
CREATE INDEX jobs_batch ON jobs (batch, k) WHERE batch > 0;

CREATE TABLE inputs (
	k     {same key},
	input {blob} NOT NULL,
	rest  {blob}
);
CREATE TABLE outputs (
	k      {same key},
	output {blob},
	error  TEXT NOT NULL
);
CREATE TABLE chunks (
	k     BIGINT NOT NULL,
	seq   BIGINT NOT NULL,
	chunk {blob} NOT NULL,
	PRIMARY KEY (k, seq)
);

CREATE TABLE batches ( -- see batch.go
	k        {same key},
	endpoint TEXT   NOT NULL,
	id       TEXT   NOT NULL,
	name     TEXT   NOT NULL,
	state    TEXT   NOT NULL, -- DRAFT or FINALIZED
	verdict  TEXT   NOT NULL, -- FAILED or CANCELLED: the state once the running requests have ended
	created  BIGINT NOT NULL,
	ends     BIGINT NOT NULL, -- when it fails unless all requests have ended; 0 for a draft, and once the requests of an ended batch are cancelled
	gone     BIGINT NOT NULL -- when it is deleted with its requests
);
CREATE UNIQUE INDEX batches_id ON batches (endpoint, id);

CREATE TABLE counts (
	endpoint    TEXT   PRIMARY KEY, -- name of the queue
	in_queue    BIGINT NOT NULL,
	waiting     BIGINT NOT NULL, -- queued jobs that start workers
	in_progress BIGINT NOT NULL,
	completed   BIGINT NOT NULL, -- this column and the next two: totals since the endpoint was created
	failed      BIGINT NOT NULL,
	retried     BIGINT NOT NULL
);

CREATE TABLE processes ( -- processes that share the database; see shared.go
	id      TEXT PRIMARY KEY,
	beats   BIGINT NOT NULL,
	url     TEXT   NOT NULL, -- where the other processes reach it
	machine TEXT   NOT NULL, -- id of the data folder
	number  BIGINT NOT NULL, -- in the keys of its jobs
	tries   BIGINT NOT NULL DEFAULT 0 -- number of the latest try of a commit
);
CREATE TABLE leads ( -- see lead.go
	endpoint TEXT PRIMARY KEY,
	process  TEXT   NOT NULL, -- empty: given up
	epoch    BIGINT NOT NULL -- grows by one for each new leader
);
`)

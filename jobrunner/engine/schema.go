package engine

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"

// schema is the history of the engine's tables. Versions before 9 were never released.
var schema = append(make([]string, 8), `-- the first released version`, `
ALTER TABLE jobs ADD COLUMN batch BIGINT NOT NULL DEFAULT 0;
CREATE TABLE batches (k BIGINT, endpoint TEXT, id TEXT, name TEXT, state TEXT, verdict TEXT, created BIGINT, ends BIGINT, gone BIGINT);
`, sqldb.Breaking+`
ALTER TABLE inputs RENAME TO old_inputs; -- the new tables have no foreign keys: checking them took much of the time per job
ALTER TABLE outputs RENAME TO old_outputs;
ALTER TABLE chunks RENAME TO old_chunks;
ALTER TABLE jobs RENAME TO old_jobs;
DROP INDEX jobs_gone;
DROP INDEX IF EXISTS jobs_batch;
ALTER TABLE batches RENAME TO old_batches;
DROP INDEX IF EXISTS batches_id;
DROP TABLE processes; -- all have ended
DROP TABLE leads;
`+sqldb.Whole+tables+sqldb.Whole+`
INSERT INTO inputs SELECT k, input, rest FROM old_inputs;
INSERT INTO outputs SELECT k, output, error FROM old_outputs;
INSERT INTO chunks SELECT k, seq, chunk FROM old_chunks;
INSERT INTO jobs SELECT old_jobs.k, old_jobs.endpoint, id, low, webhook, old_jobs.owner, exec_ms, keep_ms, batch,
	state, turn, queued, worker, old_jobs.attempt, retries, started, deadline, streamed,
	submitted, expires, gone, finished, COALESCE(next_at, 0), COALESCE(webhooks.attempt, 0),
	CASE WHEN state IN ('DRAFT', 'IN_QUEUE', 'IN_PROGRESS') OR next_at > 0 THEN 0 ELSE 1 END
	FROM old_jobs LEFT JOIN webhooks ON webhooks.k = old_jobs.k;
INSERT INTO batches SELECT k, endpoint, id, name, state, verdict, created, ends, gone FROM old_batches;
INSERT INTO counts SELECT endpoint, SUM(in_queue), SUM(waiting), SUM(in_progress), SUM(completed), SUM(failed), SUM(retried) FROM tallies GROUP BY endpoint;
DROP TABLE old_inputs;
DROP TABLE old_outputs;
DROP TABLE old_chunks;
DROP TABLE webhooks;
DROP TABLE old_jobs;
DROP TABLE old_batches;
DROP TABLE tallies;
DROP TABLE IF EXISTS admitted; -- limits were shared
DROP TABLE IF EXISTS open_requests;
DELETE FROM meta WHERE component = 'limits';
DELETE FROM compatible WHERE component = 'limits';
`, `
ALTER TABLE processes ADD COLUMN tries BIGINT NOT NULL DEFAULT 0; -- number of the latest try of a commit
`)

// tables are the tables of version 11. All times are milliseconds since 1970, 0 for never. Inputs,
// outputs and chunks have tables of their own, because a change of a job's state rewrites the job's
// row. They are deleted with that row.
const tables = `
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
	number  BIGINT NOT NULL -- in the keys of its jobs
);
CREATE TABLE leads ( -- see lead.go
	endpoint TEXT PRIMARY KEY,
	process  TEXT   NOT NULL, -- empty: given up
	epoch    BIGINT NOT NULL -- grows by one for each new leader
);
`

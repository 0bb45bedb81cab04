INSERT INTO meta VALUES('store',2);
INSERT INTO meta VALUES('engine',9);
CREATE TABLE objects (
	seq  INTEGER PRIMARY KEY AUTOINCREMENT,
	id   TEXT NOT NULL UNIQUE,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	doc  TEXT NOT NULL
);
INSERT INTO objects VALUES(1,'d6cookjgg7s6','registryAuth','registry','{"id":"d6cookjgg7s6","name":"registry","created":"2026-11-22T19:16:50.154Z","username":"u","password":"p"}');
INSERT INTO objects VALUES(2,'dvuna3kc1lv4','template','template','{"id":"dvuna3kc1lv4","name":"template","created":"2026-11-22T19:16:50.203Z","image":"builtin/echo","entrypoint":["/e"],"args":"a b","disk":20,"env":{"A":"1"},"volume":{"size":0,"path":"/workspace"},"category":"NVIDIA","startSsh":true,"startJupyter":true}');
INSERT INTO objects VALUES(3,'srjz6z82ty3o','networkVolume','volume','{"id":"srjz6z82ty3o","name":"volume","created":"2026-11-22T19:16:50.238Z","size":20,"dataCenter":"EU-RO-1","type":"STANDARD"}');
INSERT INTO objects VALUES(4,'053b5d64r844','endpoint','endpoint','{"id":"053b5d64r844","name":"endpoint","created":"2026-11-22T19:16:50.298Z","type":"QUEUE","image":"builtin/echo","disk":50,"cpu":[{"id":"cpu3c","vcpuCount":2}],"workersMin":0,"workersMax":2,"idleTimeout":10,"scaling":{"type":"QUEUE_DELAY","value":4},"timeout":0,"flashboot":"OFF","version":0}');
INSERT INTO objects VALUES(5,'lsan9xkf6qmz','endpoint','stopped','{"id":"lsan9xkf6qmz","name":"stopped","created":"2026-11-22T19:16:50.709Z","type":"QUEUE","image":"builtin/echo","disk":50,"cpu":[{"id":"cpu3c","vcpuCount":2}],"workersMin":0,"workersMax":0,"idleTimeout":10,"scaling":{"type":"QUEUE_DELAY","value":4},"timeout":0,"flashboot":"OFF","version":0}');
CREATE TABLE refs (
	target TEXT NOT NULL,
	owner  TEXT NOT NULL REFERENCES objects (id) ON DELETE CASCADE,
	PRIMARY KEY (target, owner)
);
CREATE TABLE releases (
	endpoint TEXT   NOT NULL REFERENCES objects (id) ON DELETE CASCADE,
	version  BIGINT NOT NULL,
	doc      TEXT   NOT NULL,
	PRIMARY KEY (endpoint, version)
);
INSERT INTO releases VALUES('053b5d64r844',0,'{"version":0,"created":"2026-11-22T19:16:50.298Z","changes":null}');
INSERT INTO releases VALUES('lsan9xkf6qmz',0,'{"version":0,"created":"2026-11-22T19:16:50.709Z","changes":null}');
CREATE TABLE jobs (
	k         INTEGER PRIMARY KEY AUTOINCREMENT,
	endpoint  TEXT   NOT NULL,
	id        TEXT   NOT NULL,
	state     TEXT   NOT NULL,
	low       BIGINT NOT NULL, -- 1: starts no worker
	webhook   TEXT   NOT NULL, -- URL, or empty
	exec_ms   BIGINT NOT NULL, -- execution time-out, 0: the endpoint's
	keep_ms   BIGINT NOT NULL, -- retention of the result

	submitted BIGINT NOT NULL,
	turn      BIGINT NOT NULL, -- place in the queue, which a job keeps when its worker dies
	queued    BIGINT NOT NULL, -- the last (re)queueing
	expires   BIGINT NOT NULL, -- end of the ttl
	gone      BIGINT NOT NULL, -- when the job ceases to exist: end of the ttl or of the retention

	worker    TEXT   NOT NULL DEFAULT '',
	attempt   BIGINT NOT NULL DEFAULT 0, -- counts the takes: the fence against reports of former ones
	retries   BIGINT NOT NULL DEFAULT 0, -- takes that ended with the worker's death, since the last submission or retry
	started   BIGINT NOT NULL DEFAULT 0, -- of the last take
	deadline  BIGINT NOT NULL DEFAULT 0, -- end of the execution time-out
	lease     BIGINT NOT NULL DEFAULT 0, -- the worker counts as dead from then on; 0: it is watched by other means
	finished  BIGINT NOT NULL DEFAULT 0,

	streamed  BIGINT NOT NULL DEFAULT 0  -- chunks so far, of all takes
, process TEXT NOT NULL DEFAULT '', owner TEXT NOT NULL DEFAULT '');
INSERT INTO jobs VALUES(1,'053b5d64r844','sync-01a204b0-955e-7458-a387-daccd7281c2a-q1','COMPLETED',0,'',0,60000,1795375011166,1795375011166,1795375011166,1795461411166,1795375071180,'3acd439c-4d2a',1,0,1795375011172,1795375611172,0,1795375011180,0,'','');
INSERT INTO jobs VALUES(2,'lsan9xkf6qmz','01a204b0-9599-73b2-b420-b6aaa10f98d0-q1','IN_QUEUE',0,'',0,1800000,1795375011225,1795375011225,1795375011225,1795461411225,1795461411225,'',0,0,0,0,0,0,0,'','');
INSERT INTO jobs VALUES(3,'lsan9xkf6qmz','01a204b0-95bf-7bbc-a83d-308c8db948f4-q1','CANCELLED',0,'',0,1800000,1795375011263,1795375011263,1795375011263,1795461411263,1795376811860,'',0,0,0,0,0,1795375011860,0,'','');
CREATE TABLE inputs (
	k     INTEGER PRIMARY KEY REFERENCES jobs (k) ON DELETE CASCADE,
	input BLOB NOT NULL,
	rest  BLOB
);
INSERT INTO inputs VALUES(1,X'7b226e223a317d',NULL);
INSERT INTO inputs VALUES(2,X'7b226e223a327d',NULL);
INSERT INTO inputs VALUES(3,X'7b226e223a337d',NULL);
CREATE TABLE outputs (
	k      INTEGER PRIMARY KEY REFERENCES jobs (k) ON DELETE CASCADE,
	output BLOB,
	error  TEXT NOT NULL
);
INSERT INTO outputs VALUES(1,X'7b226e223a317d','');
CREATE TABLE chunks (
	k     BIGINT NOT NULL REFERENCES jobs (k) ON DELETE CASCADE,
	seq   BIGINT NOT NULL,
	chunk BLOB NOT NULL,
	PRIMARY KEY (k, seq)
);
CREATE TABLE webhooks ( -- calls still to be made
	k       INTEGER PRIMARY KEY REFERENCES jobs (k) ON DELETE CASCADE,
	url     TEXT   NOT NULL,
	attempt BIGINT NOT NULL,
	next_at BIGINT NOT NULL
, host TEXT NOT NULL DEFAULT '', owner TEXT NOT NULL DEFAULT '', endpoint TEXT NOT NULL DEFAULT '');
CREATE TABLE processes ( -- that share the database; see shared.go
	id    TEXT PRIMARY KEY,
	beats BIGINT NOT NULL
, url TEXT NOT NULL DEFAULT '', machine TEXT NOT NULL DEFAULT '');
CREATE TABLE leads ( -- see lead.go
	endpoint TEXT PRIMARY KEY,
	process  TEXT   NOT NULL, -- empty: given up
	epoch    BIGINT NOT NULL  -- counts those that led
, failure TEXT NOT NULL DEFAULT '');
CREATE TABLE tallies ( -- of an endpoint's jobs: the sum of its rows
	endpoint    TEXT   NOT NULL,
	slot        BIGINT NOT NULL, -- transactions beside each other use different ones
	in_queue    BIGINT NOT NULL,
	waiting     BIGINT NOT NULL, -- those in the queue that start workers
	in_progress BIGINT NOT NULL,
	completed   BIGINT NOT NULL, -- these and the next through the endpoint's whole life
	failed      BIGINT NOT NULL,
	retried     BIGINT NOT NULL,
	PRIMARY KEY (endpoint, slot)
);
INSERT INTO tallies VALUES('053b5d64r844',0,0,0,0,1,0,0);
INSERT INTO tallies VALUES('lsan9xkf6qmz',0,1,1,0,0,0,0);
CREATE INDEX objects_kind ON objects (kind, seq);
CREATE UNIQUE INDEX objects_name ON objects (kind, name) WHERE kind IN ('template', 'registryAuth');
CREATE INDEX refs_owner ON refs (owner);
CREATE UNIQUE INDEX jobs_id ON jobs (endpoint, id);
CREATE INDEX jobs_queue ON jobs (endpoint, turn, k) WHERE state = 'IN_QUEUE';
CREATE INDEX jobs_deadline ON jobs (deadline) WHERE state = 'IN_PROGRESS';
CREATE INDEX jobs_lease ON jobs (lease) WHERE state = 'IN_PROGRESS' AND lease > 0;
CREATE INDEX jobs_gone ON jobs (gone);
CREATE INDEX webhooks_queues ON webhooks (owner, endpoint, next_at, host);

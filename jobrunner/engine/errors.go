package engine

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"

// RetryAfter is how many seconds a client waits before it asks again while the
// database does not answer.
const RetryAfter = sqldb.RetryAfter

// Temporary tells that the same call of an engine or a store may succeed later:
// its database does not answer, or has no room.
func Temporary(err error) bool { return sqldb.Temporary(err) }

// Outage is why the database could not serve a call of an engine or a store.
type Outage struct {
	Public string // what a client may read of it
	Full   bool   // what frees room may succeed
}

// OutageOf is the outage that caused an error; nil: none did.
func OutageOf(err error) *Outage {
	class := sqldb.Classify(err)
	if class == sqldb.Fault {
		return nil
	}
	return &Outage{Public: sqldb.Public(err), Full: class == sqldb.Full}
}

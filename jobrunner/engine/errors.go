package engine

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"

// RetryAfter is the number of seconds after which a client should retry while the database
// is unavailable.
const RetryAfter = sqldb.RetryAfter

// Temporary reports whether the same call of an engine or a store may succeed later,
// because the database is unavailable or full.
func Temporary(err error) bool { return sqldb.Temporary(err) }

// Outage explains why the database could not serve a call of an engine or a store.
type Outage struct {
	Public string // text for clients
	Full   bool   // the disk is full: calls that free space may succeed
}

// OutageOf returns the outage that caused an error, or nil.
func OutageOf(err error) *Outage {
	class := sqldb.Classify(err)
	if class == sqldb.Fault {
		return nil
	}
	return &Outage{Public: sqldb.Public(err), Full: class == sqldb.Full}
}

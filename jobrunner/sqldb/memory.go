package sqldb

import "fmt"

// MaxMemory is the default and maximum size of a database in memory, in bytes.
const MaxMemory = 1 << 30

// Use is the purpose of memory in a database in memory. Jobs and results have different
// limits, so that a full deployment rejects jobs first, and results next, while it can
// still change the states of jobs.
type Use int

const (
	ForJobs    Use = iota // up to half
	ForResults            // up to 15/16
)

func (u Use) share(limit int64) int64 {
	if u == ForJobs {
		return limit / 2
	}
	return limit - limit/16
}

// MemoryFullError means that a database in memory has reached its limit. It is also an
// ErrFull.
type MemoryFullError struct{ Limit int64 }

func (e *MemoryFullError) Error() string {
	return fmt.Sprintf("the memory for this deployment's state is full (--ephemeral-memory %d MiB; half of it is for jobs, the rest for their results): "+
		"wait until results are past their retention, or keep the state on disk with --data", e.Limit>>20)
}

// Is implements errors.Is for ErrFull.
func (e *MemoryFullError) Is(target error) bool { return target == ErrFull }

// Room returns a *MemoryFullError if a database in memory can't take bytes more for a use.
// For other databases it returns nil: they report a full disk when they write.
func (tx *Tx) Room(bytes int, use Use) error { return tx.conn.room(int64(bytes), use) }

func (c *conn) room(bytes int64, use Use) error {
	if c.hasRoom(bytes, use) {
		return nil
	}
	// The estimate doesn't know of deleted rows, so measure.
	var pages, free int64
	for query, into := range map[string]*int64{"PRAGMA page_count": &pages, "PRAGMA freelist_count": &free} {
		rows, err := c.query(query)
		if err := (Row{rows, err}).Scan(into); err != nil {
			return err
		}
	}
	if c.used = (pages - free) * pageSize; !c.hasRoom(bytes, use) {
		return &MemoryFullError{c.memory}
	}
	return nil
}

// hasRoom adds bytes to the estimate of the used memory, and reports whether it is below the
// limit of the use.
func (c *conn) hasRoom(bytes int64, use Use) bool {
	if c.memory == 0 {
		return true
	}
	c.used += bytes + pageSize // for the row and its indexes
	return c.used <= use.share(c.memory)
}

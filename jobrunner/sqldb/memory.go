package sqldb

import "fmt"

// MaxMemory is the greatest size of a database in memory, in bytes, and that of
// one for which nobody sets another.
const MaxMemory = 1 << 30

// Use is what a part of a database in memory is for. Each leaves something to
// those after it, so that a deployment that takes too many jobs refuses new ones
// before it loses results, and these before it can't change a job's state.
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

// MemoryFullError says that a database in memory has reached its size. It is
// an ErrFull, too.
type MemoryFullError struct{ Limit int64 }

func (e *MemoryFullError) Error() string {
	return fmt.Sprintf("the memory for this deployment's state is full (--ephemeral-memory %d MiB; half of it is for jobs, the rest for their results): "+
		"wait until results are past their retention, or keep the state on disk with --data", e.Limit>>20)
}

// Is makes it an ErrFull.
func (e *MemoryFullError) Is(target error) bool { return target == ErrFull }

// Room returns a *MemoryFullError where a database in memory has no room left
// for so many bytes of a use. One that is kept elsewhere has room until it has
// none.
func (tx *Tx) Room(bytes int, use Use) error { return tx.conn.room(int64(bytes), use) }

func (c *conn) room(bytes int64, use Use) error {
	if c.hasRoom(bytes, use) {
		return nil
	}
	// By then much may be free again.
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

// hasRoom tells whether there is room as far as that is known without a look, and
// counts it as used.
func (c *conn) hasRoom(bytes int64, use Use) bool {
	if c.memory == 0 {
		return true
	}
	c.used += bytes + pageSize // for the row and its indexes
	return c.used <= use.share(c.memory)
}

package sqldb

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

var (
	// ErrClosed answers calls after Close.
	ErrClosed = errors.New("the database is closed")
	// ErrFull says that the disk is full. Nothing was changed.
	ErrFull = errors.New("the disk that holds the database is full: free some space")
	// ErrUnavailable says that the database can't serve at the moment: its server
	// can't be reached, is starting or has no free connection, or the file can't
	// be read or written. A Write that got it from its commit may have been done.
	ErrUnavailable = errors.New("the database does not answer: see that it runs and can be reached from here")
	// ErrInUse says that another process has the data folder.
	ErrInUse = errors.New("another jobrunner uses this data folder: stop it, or name another folder")
	// ErrNewer says that the database was written by a newer program.
	ErrNewer = errors.New("the database was written by a newer version of this program: use that one, or another database or data folder")
)

// Class says whose fault an error of the database is.
type Class int

// The classes of errors. What is Outage or Full may succeed later, unchanged.
const (
	Fault  Class = iota // of the request or of the program
	Outage              // the database can't serve at the moment
	Full                // its disk has no room; what frees room may succeed
	Closed              // this process closes it
)

// Classify tells of any error, nil too, whether the database's absence caused
// it. This is the one place that decides that.
func Classify(err error) Class {
	switch {
	case err == nil:
		return Fault
	case errors.Is(err, ErrFull):
		return Full
	case errors.Is(err, ErrUnavailable):
		return Outage
	case errors.Is(err, ErrClosed):
		return Closed
	}
	return Fault
}

// Temporary tells that the same call may succeed later.
func Temporary(err error) bool {
	if err == nil {
		return false
	}
	if memory := new(MemoryFullError); errors.As(err, &memory) {
		return false // what would be kept until then is in memory too
	}
	c := Classify(err)
	return c == Outage || c == Full
}

// Public is what a client may read of an error that is not a Fault: what the
// database itself said names hosts, users and files.
func Public(err error) string {
	if memory := new(MemoryFullError); errors.As(err, &memory) {
		return memory.Error()
	}
	switch Classify(err) {
	case Full:
		return ErrFull.Error()
	case Closed:
		return "the deployment is shutting down"
	}
	return "the deployment's database is not available at the moment: try again in a few seconds"
}

// RetryAfter is how many seconds a client waits before it asks a database again
// that was not available.
const RetryAfter = "2"

// The codes of SQLite that mean that the file can't be used at the moment.
var sqliteOutages = map[int]bool{
	sqlite3.SQLITE_BUSY: true, sqlite3.SQLITE_LOCKED: true, sqlite3.SQLITE_NOMEM: true, sqlite3.SQLITE_READONLY: true,
	sqlite3.SQLITE_IOERR: true, sqlite3.SQLITE_CANTOPEN: true, sqlite3.SQLITE_PROTOCOL: true,
}

// classifySQLite gives the errors that a caller can act on their names.
func classifySQLite(err error) error {
	var e *lite.Error
	switch {
	case err == nil || Temporary(err) || !errors.As(err, &e):
	case e.Primary() == sqlite3.SQLITE_FULL || e.Code == sqlite3.SQLITE_IOERR_SHMSIZE: // the latter: no room for the index of the log
		return fmt.Errorf("%w (%w)", ErrFull, err)
	case sqliteOutages[e.Primary()]:
		return fmt.Errorf("%w (%w)", ErrUnavailable, err)
	}
	return err
}

// IsUnique reports whether err is the refusal of a row that a unique index
// holds already.
func IsUnique(err error) bool {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code == uniqueViolation
	}
	var e *lite.Error
	return errors.As(err, &e) && (e.Code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

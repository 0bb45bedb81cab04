package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

var (
	ErrClosed = errors.New("the database is closed")
	// ErrFull means that the disk is full and nothing was changed.
	ErrFull = errors.New("the disk that holds the database is full: free some space")
	// ErrUnavailable means that the server can't be reached, is starting or has no free
	// connection, or that the file can't be read or written. If the commit of a Write
	// returned it, the changes may have been committed.
	ErrUnavailable = errors.New("the database does not answer: check that it runs and can be reached from here")
	// ErrInUse means that another process uses the data folder.
	ErrInUse = errors.New("another jobrunner uses this data folder: stop it, or name another folder")
	// ErrNewer means that a newer program has changed the database in an incompatible way.
	ErrNewer = errors.New("the database was written by a newer version of this program: use that one, or another database or data folder")

	errDamaged = errors.New("the database is damaged: restore a backup of the data folder, or let sqlite3's .recover save what is readable")
)

// Class is the class of a database's error.
type Class int

// The classes of errors. After an Outage or if the disk is Full, the same call may succeed later.
const (
	Fault  Class = iota // the request or the program is wrong, or the database is damaged
	Outage              // the database is unavailable
	Full                // the disk is full; calls that free space may succeed
	Closed              // this process is closing the database
)

// Classify returns an error's class: Fault for nil and for errors of other origin.
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

// Temporary reports whether the same call may succeed later.
func Temporary(err error) bool {
	if _, full := errors.AsType[*MemoryFullError](err); full {
		return false // waiting would only need more memory
	}
	c := Classify(err)
	return c == Outage || c == Full
}

// PublicText returns what clients may know of an error that isn't a Fault. It omits the database's own
// text, which has names of hosts, users and files.
func PublicText(err error) string {
	if memory, ok := errors.AsType[*MemoryFullError](err); ok {
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

// MaxMemory is the largest limit of a state in memory, in bytes.
const MaxMemory = 1 << 30

// MemoryFullError means that the state in memory has reached its limit, in bytes. It is also an ErrFull.
type MemoryFullError struct{ Limit int64 }

func (e *MemoryFullError) Error() string {
	return fmt.Sprintf("the memory for this deployment's state is full (--ephemeral-memory %d MiB: half of it for jobs, a quarter each for results and objects): "+
		"wait until results are past their retention, delete objects, or keep the state on disk with --data", e.Limit>>20)
}

func (e *MemoryFullError) Is(target error) bool { return target == ErrFull }

// RetryAfter is the number of seconds after which a client should retry during an outage.
const RetryAfter = "2"

// sqliteOutages has the result codes that mean that the file can't be used now.
var sqliteOutages = map[int]bool{
	sqlite3.SQLITE_BUSY: true, sqlite3.SQLITE_LOCKED: true, sqlite3.SQLITE_NOMEM: true, sqlite3.SQLITE_READONLY: true,
	sqlite3.SQLITE_IOERR: true, sqlite3.SQLITE_CANTOPEN: true, sqlite3.SQLITE_PROTOCOL: true,
}

// fileError is an ErrUnavailable of SQLite.
type fileError struct{ error }

func (fileError) Is(target error) bool { return target == ErrUnavailable }
func (e fileError) Unwrap() error      { return e.error }

// classifySQLite wraps an error in ErrFull, a fileError or errDamaged if it has that cause.
func classifySQLite(err error) error {
	var e *lite.Error
	switch {
	case err == nil || Temporary(err) || errors.Is(err, errDamaged) || !errors.As(err, &e):
	case e.Primary() == sqlite3.SQLITE_FULL || e.Code == sqlite3.SQLITE_IOERR_SHMSIZE: // the log's index doesn't fit on the disk
		return fmt.Errorf("%w (%w)", ErrFull, err)
	case sqliteOutages[e.Primary()]:
		return fileError{fmt.Errorf("the database's file can't be read or written: check its permissions, and whether its disk is read-only or fails (%w)", err)}
	case e.Primary() == sqlite3.SQLITE_CORRUPT || e.Primary() == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w (%w)", errDamaged, err)
	}
	return err
}

func IsUnique(err error) bool {
	var e *lite.Error
	return hasCode(err, uniqueViolation) || errors.As(err, &e) && (e.Code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

// IsTooLong reports whether a text is too long for an index of PostgreSQL.
func IsTooLong(err error) bool { return hasCode(err, limitExceeded) }

func hasCode(err error, codes ...string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, e.Code)
}

// Error codes of PostgreSQL (appendix A of its manual).
const (
	divisionByZero       = "22012"
	uniqueViolation      = "23505"
	idleTooLong          = "25P03" // see writerSetUp
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	diskFull             = "53100"
	limitExceeded        = "54000"
	lockNotAvailable     = "55P03"
)

// unavailableCodes has the codes and classes of errors that mean that the server can't serve now, whatever the statement is.
var unavailableCodes = []string{
	"08",    // connection exception
	"25006", // read only: a standby, while another server takes over
	"28",    // authorization refused, as while a password is changed
	"3D000", // no such database, as while it is restored
	"53",    // insufficient resources: connections, memory; explain handles disk_full first
	lockNotAvailable,
	"57", // operator intervention: shutdown, crash, start, a cancelled statement
	"58", // system error
}

// isConflict reports whether the server rolled back the transaction because of other transactions.
func isConflict(err error) bool {
	return hasCode(err, serializationFailure, deadlockDetected, idleTooLong)
}

// errBusy means that no connection of the pool became free in time.
var errBusy = errors.New("all connections of this process are in use")

// isUnavailable reports whether the server can't be reached or can't serve.
func isUnavailable(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return slices.ContainsFunc(unavailableCodes, func(code string) bool { return strings.HasPrefix(e.Code, code) }) && e.Code != diskFull
	}
	var (
		connecting *pgconn.ConnectError
		network    net.Error
	)
	return pgconn.SafeToRetry(err) || errors.As(err, &connecting) || errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, errBusy)
}

// explain wraps an error in ErrFull or ErrUnavailable if it has that cause.
func (p *postgres) explain(err error) error {
	switch {
	case err == nil || Temporary(err) || errors.Is(err, context.Canceled):
		return err
	case hasCode(err, diskFull):
		return fmt.Errorf("%w (%w)", ErrFull, err)
	case isUnavailable(err), isConflict(err): // every try had a conflict: the server is overloaded
		return fmt.Errorf("%w (%s: %w)", ErrUnavailable, p.name, err)
	}
	return err
}

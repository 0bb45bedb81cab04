package sqldb

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrClosed answers calls after Close.
	ErrClosed = errors.New("the database is closed")
	// ErrFull says that the disk is full. Nothing was changed.
	ErrFull = errors.New("the disk that holds the database is full: free some space")
	// ErrAway says that the database server can't be reached, or ends sessions
	// at the moment. A Write that got it from its commit may have been done.
	ErrAway = errors.New("the database server does not answer: see that it runs and can be reached from here")
	// ErrInUse says that another process has the data folder.
	ErrInUse = errors.New("another jobrunner uses this data folder: stop it, or name another folder")
	// ErrNewer says that the database was written by a newer program.
	ErrNewer = errors.New("the database was written by a newer version of this program: use that one, or another data folder")
)

// explain gives the errors that a caller can act on their names.
func explain(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_FULL && !errors.Is(err, ErrFull) {
		return fmt.Errorf("%w (%w)", ErrFull, err)
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
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

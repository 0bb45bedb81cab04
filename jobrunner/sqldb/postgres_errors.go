package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The codes of PostgreSQL (its manual, appendix A) that mean something here.
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	diskFull             = "53100"
	lockNotAvailable     = "55P03"
)

// The classes and codes by which a server says that it can't serve at the
// moment, whatever it is asked.
var unavailableCodes = []string{
	"08",    // connection exception
	"25006", // read only: a standby, while another server takes over
	"28",    // authorization refused, as while a password is changed
	"3D000", // no such database, as while it is restored
	"53",    // insufficient resources: connections, memory; disk_full is told apart
	lockNotAvailable,
	"57", // operator intervention: shutdown, crash, start, a cancelled statement
	"58", // error of the system under it
}

// isConflict tells that the server ended the transaction because of another one.
func isConflict(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == serializationFailure || e.Code == deadlockDetected)
}

// errBusy says that no connection of the pool became free in time.
var errBusy = errors.New("all connections of this process are in use")

// isUnavailable tells that the server could not be asked, or broke off.
func isUnavailable(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return slices.ContainsFunc(unavailableCodes, func(code string) bool { return strings.HasPrefix(e.Code, code) }) && e.Code != diskFull
	}
	var (
		connecting *pgconn.ConnectError
		network    net.Error
	)
	return pgconn.SafeToRetry(err) || errors.As(err, &connecting) || errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errBusy)
}

// explain gives the errors that a caller can act on their names.
func (p *postgres) explain(err error) error {
	var e *pgconn.PgError
	switch {
	case err == nil || Temporary(err):
		return err
	case errors.As(err, &e) && e.Code == diskFull:
		return fmt.Errorf("%w (%w)", ErrFull, err)
	case isUnavailable(err), isConflict(err): // the latter at every try: there is too much to do
		return fmt.Errorf("%w (%s: %w)", ErrUnavailable, p.name, err)
	}
	return err
}

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

// Error codes of PostgreSQL (appendix A of its manual).
const (
	uniqueViolation      = "23505"
	idleTooLong          = "25P03"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	diskFull             = "53100"
	lockNotAvailable     = "55P03"
)

// unavailableCodes has the classes and codes of errors that don't depend on the statement:
// the server can't serve now.
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

// isConflict reports whether the server rolled back the transaction for the sake of others.
func isConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{serializationFailure, deadlockDetected, idleTooLong}, e.Code)
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
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errBusy)
}

// explain wraps an error in ErrFull or ErrUnavailable if it has that cause.
func (p *postgres) explain(err error) error {
	var e *pgconn.PgError
	switch {
	case err == nil || Temporary(err):
		return err
	case errors.As(err, &e) && e.Code == diskFull:
		return fmt.Errorf("%w (%w)", ErrFull, err)
	case isUnavailable(err), isConflict(err): // every try had a conflict: the server is overloaded
		return fmt.Errorf("%w (%s: %w)", ErrUnavailable, p.name, err)
	}
	return err
}

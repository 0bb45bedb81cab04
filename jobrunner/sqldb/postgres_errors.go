package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The codes of PostgreSQL (its manual, appendix A) that mean something here.
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	diskFull             = "53100"
)

// The classes and codes by which a server says that it does not serve.
var awayCodes = []string{
	"08",    // connection exception
	"53300", // too many connections
	"57P01", // admin shutdown
	"57P02", // crash shutdown
	"57P03", // cannot connect now
}

// collided tells that the server ended the transaction because of another one.
func collided(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == serializationFailure || e.Code == deadlockDetected)
}

// isAway tells that the server could not be asked, or broke off.
func isAway(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		for _, code := range awayCodes {
			if strings.HasPrefix(e.Code, code) {
				return true
			}
		}
		return false
	}
	var (
		connecting *pgconn.ConnectError
		network    net.Error
	)
	return pgconn.SafeToRetry(err) || errors.As(err, &connecting) || errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, driver.ErrBadConn)
}

// explain gives the errors that a caller can act on their names.
func (p *postgres) explain(err error) error {
	var e *pgconn.PgError
	switch {
	case err == nil || errors.Is(err, ErrFull) || errors.Is(err, ErrAway):
		return err
	case errors.As(err, &e) && e.Code == diskFull:
		return fmt.Errorf("%w (%w)", ErrFull, err)
	case isAway(err):
		return fmt.Errorf("%w (%s: %w)", ErrAway, p.name, err)
	}
	return err
}

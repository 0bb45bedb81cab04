package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

// Rows is the result of a query. Its methods are as in sql.Rows.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// liteRows are the rows of a SQLite statement, which has already made its first step.
type liteRows struct {
	stmt    *lite.Stmt
	first   bool // the first step found a row
	unread  bool // Next hasn't been called
	endSeen bool // Next has returned false
	err     error
	closed  bool
}

func (r *liteRows) Next() bool {
	if r.closed || r.endSeen {
		return false
	}
	more := r.first
	if !r.unread {
		more, r.err = r.stmt.Step()
	}
	r.unread = false
	r.endSeen = !more
	return more
}

func (r *liteRows) Err() error { return r.err }

func (r *liteRows) Close() error {
	if !r.closed {
		r.closed = true
		r.stmt.Reset()
	}
	return nil
}

func (r *liteRows) Scan(dest ...any) error {
	if r.closed || r.endSeen || r.unread {
		return errors.New("Scan is called without a row")
	}
	if len(dest) != r.stmt.Columns() {
		return fmt.Errorf("a row of %d columns is read into %d", r.stmt.Columns(), len(dest))
	}
	for i, d := range dest {
		if err := r.scan(i, d); err != nil {
			return fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *liteRows) scan(col int, dest any) error {
	switch d := dest.(type) {
	case *[]byte:
		*d = r.stmt.Bytes(col)
		return nil
	case sql.Scanner:
		return d.Scan(r.stmt.Value(col))
	}
	if r.stmt.IsNull(col) {
		return fmt.Errorf("it is NULL, and goes into %T", dest)
	}
	switch d := dest.(type) {
	case *string:
		*d = r.stmt.Text(col)
	case *int64:
		*d = r.stmt.Int64(col)
	case *int:
		*d = int(r.stmt.Int64(col))
	case *bool:
		*d = r.stmt.Int64(col) != 0
	default:
		return r.scanKind(col, dest)
	}
	return nil
}

// scanKind reads a column into a defined type, such as a string type.
func (r *liteRows) scanKind(col int, dest any) error {
	v := reflect.ValueOf(dest)
	if v.Kind() != reflect.Pointer {
		return fmt.Errorf("invalid destination %T: expected a pointer", dest)
	}
	switch v = v.Elem(); v.Kind() {
	case reflect.String:
		v.SetString(r.stmt.Text(col))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n := r.stmt.Int64(col)
		if v.OverflowInt(n) {
			return fmt.Errorf("%d does not go into %T", n, dest)
		}
		v.SetInt(n)
	default:
		if v.Type() != reflect.TypeFor[[]byte]() && v.Type().ConvertibleTo(reflect.TypeFor[[]byte]()) {
			v.SetBytes(r.stmt.Bytes(col))
			return nil
		}
		return fmt.Errorf("invalid destination %T", dest)
	}
	return nil
}

// arguments converts values of defined types to types that databases support.
func arguments(args []any) error {
	for i, arg := range args {
		switch arg.(type) {
		case nil, int64, int, string, []byte, bool, float64:
			continue
		}
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
		args[i] = v
	}
	return nil
}

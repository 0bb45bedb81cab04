package sqldb

import (
	"database/sql/driver"
	"fmt"
	"reflect"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

// Row is a row of a result. Scan is as in sql.Rows, for strings, integers, booleans and blobs.
type Row interface{ Scan(dest ...any) error }

// liteRow is the current row of a SQLite statement.
type liteRow struct{ stmt *lite.Stmt }

func (r liteRow) Scan(dest ...any) error {
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

func (r liteRow) scan(col int, dest any) error {
	if d, ok := dest.(*[]byte); ok {
		*d = r.stmt.Bytes(col)
		return nil
	}
	if r.stmt.IsNull(col) {
		return fmt.Errorf("NULL can't be read into %T", dest)
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
func (r liteRow) scanKind(col int, dest any) error {
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
			return fmt.Errorf("%d overflows %T", n, dest)
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

// convertArguments converts values of defined types in place to types that databases support.
func convertArguments(args []any) error {
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

package lite_test

import (
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/lite"
)

func open(t *testing.T) *lite.Conn {
	t.Helper()
	c := must.Do(lite.Open("file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "db"))))(t)
	t.Cleanup(func() { must.Equal(t, c.Close(), nil) })
	return c
}

func prepare(t *testing.T, c *lite.Conn, text string) *lite.Stmt {
	t.Helper()
	s := must.Do(c.Prepare(text))(t)
	t.Cleanup(s.Close)
	return s
}

// Values of each kind and size are read back unchanged, also when the statement is used again.
func TestValues(t *testing.T) {
	s := prepare(t, open(t), "SELECT ?, 'beside', ?")
	large := strings.Repeat("large ü\x00 ", 1<<17)
	for range 3 {
		for _, v := range []struct{ bound, want any }{
			{nil, nil}, {[]byte(nil), nil}, {0, int64(0)}, {int64(math.MinInt64), int64(math.MinInt64)}, {int64(math.MaxInt64), int64(math.MaxInt64)},
			{true, int64(1)}, {false, int64(0)}, {0.1, "0.1"}, {"", ""}, {"text ü 漢字 🚀", "text ü 漢字 🚀"}, {"with \x00 inside", "with \x00 inside"}, {large, large},
			{[]byte{}, []byte{}}, {[]byte{0, 1, 255}, []byte{0, 1, 255}}, {[]byte(large), []byte(large)},
		} {
			must.Succeed(t, s.Bind([]any{v.bound, 7}))
			row, err := s.Step()
			must.Require(t, err == nil && row, "the first Step returned", row, err)
			var got any
			switch v.want.(type) {
			case int64:
				got = s.Int64(0)
			case string:
				got = s.Text(0)
			case []byte:
				got = s.Bytes(0)
			}
			if !reflect.DeepEqual(got, v.want) {
				t.Errorf("%.40v was read back as %.40v", v.bound, got)
			}
			if s.IsNull(0) != (v.want == nil) || s.Text(1) != "beside" || s.Int64(2) != 7 {
				t.Errorf("the columns beside %.40v are %q, %d, want \"beside\", 7", v.bound, s.Text(1), s.Int64(2))
			}
			row, err = s.Step()
			must.Hold(t, !row && err == nil, "a second row was returned:", row, err)
			s.Reset()
		}
	}
	for _, args := range [][]any{{1}, {1, 2, 3}, {struct{}{}, 1}} {
		must.Hold(t, s.Bind(args) != nil, "Bind accepted the invalid arguments", args)
		s.Reset()
	}
}

// An error has SQLite's code and text, and the connection stays usable.
func TestErrors(t *testing.T) {
	c := open(t)
	must.Succeed(t, c.Script("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE); INSERT INTO t (b) VALUES ('x')"))
	var failure *lite.Error
	_, err := c.Prepare("SELECT a FROM nowhere")
	must.Hold(t, errors.As(err, &failure) && failure.Code == sqlite3.SQLITE_ERROR && strings.Contains(err.Error(), "nowhere"), "an invalid statement:", err)
	err = c.Script("SELECT 1; NONSENSE")
	must.Hold(t, errors.As(err, &failure), "an invalid script returned", err)
	s := prepare(t, c, "INSERT INTO t (b) VALUES (?)")
	for range 2 {
		must.Succeed(t, s.Bind([]any{"x"}))
		_, err := s.Step()
		must.Hold(t, errors.As(err, &failure) && failure.Code == sqlite3.SQLITE_CONSTRAINT_UNIQUE && failure.Primary() == sqlite3.SQLITE_CONSTRAINT, "inserting a unique value again returned", err)
		s.Reset()
	}
	must.Succeed(t, s.Bind([]any{"y"}))
	_, err = s.Step()
	must.Hold(t, err == nil && c.Changes() == 1, "an insert after an error returned", err, "and changed", c.Changes(), "rows, want 1")
	s.Reset()
	_, err = lite.Open("file:/no-such-folder/db")
	must.Hold(t, errors.As(err, &failure) && failure.Primary() == sqlite3.SQLITE_CANTOPEN, "opening a database in a missing folder returned", err)
}

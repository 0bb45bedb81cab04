package sqldb

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A statement is translated for each database. No test shows why SQLite gets LIMIT +?: it then plans only once.
func TestTranslation(t *testing.T) {
	const query = `SELECT 'it''s', max(?, 1) FROM t -- it's
		WHERE {row} {in (}SELECT {row} FROM t LIMIT ?{for update}{skip locked}{)}`
	for _, c := range []struct {
		translate func(query string) string
		want      string
	}{
		{forSQLite, `SELECT 'it''s', max(?, 1) FROM t -- it's
		WHERE k IN (SELECT k FROM t LIMIT +?)`},
		{forPostgres, `SELECT 'it''s', max($1, 1) FROM t -- it's
		WHERE ctid = ANY (ARRAY (SELECT ctid FROM t LIMIT $2 FOR UPDATE SKIP LOCKED))`},
	} {
		must.Equal(t, c.translate(query), c.want)
	}
}

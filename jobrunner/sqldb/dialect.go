package sqldb

import (
	"strconv"
	"strings"
)

// The program writes its statements once, with question marks as placeholders and the words in
// braces below where databases differ. forSQLite and forPostgres translate them.

var sqliteWords = strings.NewReplacer(
	"{key}", "INTEGER PRIMARY KEY AUTOINCREMENT", // increases and is never reused
	"{same key}", "INTEGER PRIMARY KEY", // the key of another table's row
	"{blob}", "BLOB",
	"{row of a job (}", "VALUES (", "{if stored)}", ")",
	"{in unlocked (}", "IN (", "{)}", ")", // rows that no other transaction changes
	// SQLite plans by the value of a bare placeholder here, and would parse and plan the
	// statement again at each run.
	"LIMIT ?", "LIMIT +?",
)

var postgresWords = strings.NewReplacer(
	"{key}", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
	"{same key}", "BIGINT PRIMARY KEY",
	"{blob}", "BYTEA",
	// Another process may have deleted the job.
	"{row of a job (}", "SELECT ", "{if stored)}", " WHERE EXISTS (SELECT 1 FROM jobs WHERE jobs.k = $1)",
	// An array is selected once. IN may be planned as a join, which selects again and locks
	// more rows than the LIMIT allows.
	"{in unlocked (}", "= ANY (ARRAY (", "{)}", " FOR UPDATE SKIP LOCKED))",
)

func forSQLite(query string) string   { return sqliteWords.Replace(query) }
func forPostgres(query string) string { return number(postgresWords.Replace(query)) }

// number replaces question marks with numbered placeholders. Statements have no others, not even in
// texts and comments.
func number(query string) string {
	var out strings.Builder
	for n, part := range strings.Split(query, "?") {
		if n > 0 {
			out.WriteString("$" + strconv.Itoa(n))
		}
		out.WriteString(part)
	}
	return out.String()
}

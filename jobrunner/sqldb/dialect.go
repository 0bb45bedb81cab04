package sqldb

import (
	"strconv"
	"strings"
)

// The program writes its statements once, with question marks as placeholders. Where the databases
// differ, a statement has one of the words in braces below: "k {key}" becomes "k INTEGER PRIMARY KEY
// AUTOINCREMENT" on SQLite. forSQLite and forPostgres translate statements.

var sqliteWords = strings.NewReplacer(
	"{key}", "INTEGER PRIMARY KEY AUTOINCREMENT", // increases and is never reused
	"{same key}", "INTEGER PRIMARY KEY", // assigned by the program
	"{blob}", "BLOB",
	// The conditions of these words aren't needed: no other process deletes jobs, and no reply to a commit is lost.
	"{row of a job (}", "VALUES (", "{if stored)}", ")", "{unless streamed)}", ")", "{unless stored)}", ")",
	"{in (}", "IN (", "{)}", ")",
	"{row}", "k", // identifies a row while the statement runs
	"{for update}", "", "{skip locked}", "",
	"{left join outputs}", "LEFT JOIN outputs ON outputs.k = jobs.k",
	// For a bare placeholder, SQLite makes a plan for the value, and would plan again at each run. The + prevents this.
	"LIMIT ?", "LIMIT +?",
)

// The server caches the plans of prepared statements. It makes them while the tables are small, and reading
// a small table is as cheap as looking up a row. So each statement is written such that its only plan looks
// up rows by an index.
var postgresWords = strings.NewReplacer(
	"{key}", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
	"{same key}", "BIGINT PRIMARY KEY",
	"{blob}", "BYTEA",
	// A row of a job isn't inserted if the job was deleted. The condition on state rules out a plan that reads
	// a whole index.
	"{row of a job (}", "SELECT ", "{if stored)}", " WHERE EXISTS (SELECT 1 FROM jobs WHERE jobs.k = $1 AND state <> '')",
	// If the reply to a commit was lost, a client may have read and deleted its chunks before the commit is
	// repeated. The repeated commit must not insert them again: the job's row has the number of the last
	// stored chunk.
	"{unless streamed)}", " WHERE EXISTS (SELECT 1 FROM jobs WHERE jobs.k = $1 AND streamed < $2)",
	"{unless stored)}", " WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.k = $1 AND streamed >= $2)",
	// The subquery of an ARRAY runs once. IN may become a join, which locks more rows than the subquery's LIMIT.
	"{in (}", "= ANY (ARRAY (", "{)}", "))",
	"{row}", "ctid",
	"{for update}", " FOR UPDATE", "{skip locked}", " SKIP LOCKED",
	// OFFSET keeps the planner from turning this into a join of the whole tables.
	"{left join outputs}", "LEFT JOIN LATERAL (SELECT output, error FROM outputs WHERE outputs.k = jobs.k OFFSET 0) AS outputs ON TRUE",
)

func forSQLite(query string) string   { return sqliteWords.Replace(query) }
func forPostgres(query string) string { return numberPlaceholders(postgresWords.Replace(query)) }

// numberPlaceholders replaces question marks with numbered placeholders: $1, $2 … A statement has no question
// mark in a literal or comment.
func numberPlaceholders(query string) string {
	var out strings.Builder
	for n, part := range strings.Split(query, "?") {
		if n > 0 {
			out.WriteString("$" + strconv.Itoa(n))
		}
		out.WriteString(part)
	}
	return out.String()
}

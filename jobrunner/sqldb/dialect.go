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

// number replaces question marks with numbered placeholders, except in texts and comments.
func number(query string) string {
	var out strings.Builder
	n := 0
	for query != "" {
		i := strings.IndexAny(query, "?'-")
		if i < 0 {
			break
		}
		out.WriteString(query[:i])
		query = query[i:]
		end := 1
		switch {
		case query[0] == '?':
			n++
			out.WriteString("$" + strconv.Itoa(n))
			query = query[1:]
			continue
		case query[0] == '\'': // a text with a doubled quote is scanned as two texts
			end = past(query, 1, "'")
		case strings.HasPrefix(query, "--"):
			end = past(query, 2, "\n")
		}
		out.WriteString(query[:end])
		query = query[end:]
	}
	return out.String() + query
}

// past returns the index after the next mark, or the length of the text.
func past(text string, from int, mark string) int {
	if i := strings.Index(text[from:], mark); i >= 0 {
		return from + i + len(mark)
	}
	return len(text)
}

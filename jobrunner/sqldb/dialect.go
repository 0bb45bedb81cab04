package sqldb

import (
	"strconv"
	"strings"
)

// dialect turns the program's statements into those of one kind of database.
// Statements are written once, with ? for arguments and the words below in
// braces where databases differ.
type dialect struct {
	words    *strings.Replacer
	numbered bool // arguments are $1, $2 …
}

var sqliteDialect = dialect{words: strings.NewReplacer(
	"{key}", "INTEGER PRIMARY KEY AUTOINCREMENT", // counts up and is never used again
	"{same key}", "INTEGER PRIMARY KEY", // the key of another table's row
	"{blob}", "BLOB",
	"{returning k}", "",
	"{least}", "min",
	"{lock}", "",
	"{lock jobs that are free}", "", // nobody else writes
	"{in unlocked (}", "IN (", "{)}", ")", // rows that no other transaction changes
	// SQLite plans by the value of a bare argument here, and so parses and plans
	// the statement anew each time that it is run.
	"LIMIT ?", "LIMIT +?",
)}

var postgresDialect = dialect{numbered: true, words: strings.NewReplacer(
	"{key}", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
	"{same key}", "BIGINT PRIMARY KEY",
	"{blob}", "BYTEA",
	"{returning k}", "RETURNING k",
	"{least}", "least",
	"{lock}", " FOR UPDATE", // waits for another transaction that changes the row
	"{lock jobs that are free}", " FOR UPDATE OF jobs SKIP LOCKED", // no other transaction changes them
	// An array is selected once. A plain IN may be planned as a join that
	// selects again, and locks more rows than the LIMIT allows.
	"{in unlocked (}", "= ANY (ARRAY (", "{)}", " FOR UPDATE SKIP LOCKED))",
)}

func (d dialect) rewrite(query string) string {
	query = d.words.Replace(query)
	if d.numbered {
		query = number(query)
	}
	return query
}

// number gives each ? its number, those of texts and comments excepted.
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
		case query[0] == '\'': // a doubled quote inside is two texts side by side
			end = past(query, 1, "'")
		case strings.HasPrefix(query, "--"):
			end = past(query, 2, "\n")
		}
		out.WriteString(query[:end])
		query = query[end:]
	}
	return out.String() + query
}

// past is where the text goes on after the next mark.
func past(text string, from int, mark string) int {
	if i := strings.Index(text[from:], mark); i >= 0 {
		return from + i + len(mark)
	}
	return len(text)
}

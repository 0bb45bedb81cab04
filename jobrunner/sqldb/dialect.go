package sqldb

import "strings"

// dialect turns the program's statements into those of one kind of database.
// Statements are written once, with ? for arguments and the words below in
// braces where databases differ.
type dialect struct {
	words *strings.Replacer
}

var sqliteDialect = dialect{words: strings.NewReplacer(
	"{key}", "INTEGER PRIMARY KEY AUTOINCREMENT", // counts up and is never used again
	"{same key}", "INTEGER PRIMARY KEY", // the key of another table's row
	"{blob}", "BLOB",
	"{least}", "min",
	"{skip locked}", "", // one writer: no row is ever locked
)}

func (d dialect) rewrite(query string) string {
	if !strings.Contains(query, "{") {
		return query
	}
	return d.words.Replace(query)
}

package sqldb

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// A statement for several rows ends with the row that reaches maxArgumentBytes of arguments: the server rejects
// an array of a gigabyte, and must answer within responseTimeout.
const maxArgumentBytes = 16 << 20

// pipelineEach queues one statement for several argument lists, which it sends as one array
// per column. A statement costs the server and the client more than a row. If the rows exceed
// maxArgumentBytes, pipelineEach splits them into several statements, sends all but the last now, and queues the last.
func (s *postgresTx) pipelineEach(query string, rows [][]any) error {
	for len(rows) > 0 {
		size, n := 0, 0
		for ; n < len(rows) && (n == 0 || size < maxArgumentBytes); n++ {
			if err := convertArguments(rows[n]); err != nil {
				return err
			}
			rows[n] = storableTexts(rows[n])
			for _, argument := range rows[n] {
				switch a := argument.(type) {
				case string:
					size += len(a)
				case []byte:
					size += len(a)
				}
			}
		}
		text, columns := s.forRows(query, rows[:n])
		if rows = rows[n:]; len(rows) == 0 {
			s.pending.Queue(text, columns...)
		} else if _, err := s.send(text, columns...); err != nil {
			return err
		}
	}
	return nil
}

// forRows returns a statement for all rows, and its arguments.
func (s *postgresTx) forRows(query string, rows [][]any) (text string, columns []any) {
	types := make([]string, len(rows[0]))
	for i := range types {
		column := make(pgtype.FlatArray[any], len(rows))
		for n, args := range rows {
			column[n] = args[i]
		}
		columns, types[i] = append(columns, column), "bigint[]"
		switch rows[0][i].(type) {
		case string:
			types[i] = "text[]"
		case []byte:
			types[i] = "bytea[]"
		}
	}
	key := "for each row: " + query
	cached, ok := s.db.texts.Load(key)
	if !ok {
		cached = forEachRow(s.db.translate(query), types)
		s.db.texts.Store(key, cached)
	}
	return cached.(string), columns
}

var (
	placeholder  = regexp.MustCompile(`\$(\d+)`)
	keyCondition = regexp.MustCompile(`WHERE ([\w.]+) = row\.a(\d+)`)
)

// forEachRow rewrites an INSERT … VALUES, or a statement with a WHERE, so that its arguments are
// arrays of the given types, with an element for each row. The array of keys is a condition, too:
// without it, the plan for a small table reads all of the table and compares each row with each argument.
func forEachRow(text string, types []string) string {
	var arrays, names []string
	for i, t := range types {
		arrays, names = append(arrays, fmt.Sprintf("$%d::%s", i+1, t)), append(names, fmt.Sprintf("a%d", i+1))
	}
	from := fmt.Sprintf(" FROM unnest(%s) AS row (%s) ", strings.Join(arrays, ", "), strings.Join(names, ", "))
	text = placeholder.ReplaceAllString(text, "row.a$1")
	if key := keyCondition.FindStringSubmatch(text); key != nil {
		n, _ := strconv.Atoi(key[2])
		text = strings.Replace(text, key[0], fmt.Sprintf("%s AND %s = ANY (%s)", key[0], key[1], arrays[n-1]), 1)
	}
	if start := strings.Index(text, "VALUES ("); start >= 0 {
		values := text[start+len("VALUES "):]
		end := closingBracket(values)
		return text[:start] + "SELECT " + values[1:end] + from + values[end+1:]
	}
	where := strings.Index(text, " WHERE ")
	if strings.HasPrefix(text, "DELETE") {
		from = strings.Replace(from, " FROM ", " USING ", 1)
	}
	return text[:where] + from + text[where:]
}

// closingBracket returns the position of the bracket that closes the first bracket.
func closingBracket(text string) int {
	depth := 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

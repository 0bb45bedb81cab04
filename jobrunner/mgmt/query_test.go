package mgmt

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestLogQuery(t *testing.T) {
	const at = "2026-06-01T12:05:04Z"
	for _, c := range []struct{ since, tail, lastEvent, refused string }{
		{at, "7", at + "/12", ""},
		{"", "", at, ""},
		{"", "", "qAbR#]", "invalid Last-Event-ID: "},
		{"", "", at + "/-5", "invalid Last-Event-ID: "},
		{"", "", at + "/9223372036854775807", "invalid Last-Event-ID: "},
		{"yesterday", "", "", "invalid since: "},
		{"yesterday", "", at + "/12", "invalid since: "},
		{at, "-1", "", "invalid tail: "},
		{"", "x", at, "invalid tail: "},
	} {
		r := httptest.NewRequest("GET", "/?"+url.Values{"since": {c.since}, "tail": {c.tail}}.Encode(), nil)
		r.Header.Set("Last-Event-ID", c.lastEvent)
		query := newQuery(&call{http: r})
		q, err := readLogQuery(query), query.err()
		if c.refused == "" && (err != nil || q.fromTail || (q.lastLine == 12) != strings.Contains(c.lastEvent, "/") || (q.lastLine == 12) != q.since.IsZero()) ||
			c.refused != "" && (err == nil || !strings.HasPrefix(err.Error(), c.refused)) {
			t.Errorf("%+v: %+v, %v", c, q, err)
		}
	}
}

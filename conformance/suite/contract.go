package suite

import (
	"mime"
	"slices"
	"strconv"
	"strings"
)

// Unserved tells whether the target is known not to serve an operation, "GET
// /v2/pods".
func (c *C) Unserved(operation string) bool {
	return slices.Contains(c.env.Target.Unserved, operation)
}

// FromProxy tells whether the answer is one that a proxy in front of the
// deployment gives in its own words.
func (a *Answer) FromProxy() bool { return FromProxy(a.Code) && a.bad != nil }

// FromProxy tells whether a status code is one that a proxy in front of the
// deployment answers by itself.
func FromProxy(code int) bool {
	return code == 413 || code == 431 || code == 502 || code == 503 || code == 504
}

// Hide keeps a text that is made of a secret out of all that is shown.
func (c *C) Hide(name, text string) string {
	c.env.Secrets.Add(name, text)
	return text
}

// Type expects a media type, or another one that ends alike: +json.
func (a *Answer) Type(want string) *Answer {
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || kind != want && (want != "application/json" || !strings.HasSuffix(kind, "+json")) {
		a.fail("Content-Type: " + want + ", and came " + strconv.Quote(a.Header.Get("Content-Type")))
	}
	return a
}

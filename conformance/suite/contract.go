package suite

import (
	"mime"
	"slices"
	"strconv"
	"strings"
)

// Unserved reports whether the target is known not to serve an operation, such as "GET
// /v2/pods".
func (c *C) Unserved(operation string) bool {
	return slices.Contains(c.env.Target.Unserved, operation)
}

// FromProxy reports whether a proxy in front of the deployment sent the response: it has a status
// code of proxies and no JSON body.
func (a *Answer) FromProxy() bool { return FromProxy(a.Code) && a.parseErr != nil }

// FromProxy reports whether proxies send the status code without asking the deployment.
func FromProxy(code int) bool {
	return code == 413 || code == 431 || code == 502 || code == 503 || code == 504
}

// HideSecret redacts a text that is derived from a secret.
func (c *C) HideSecret(name, text string) string {
	c.env.Secrets.Add(name, text)
	return text
}

// ContentType expects a media type. For application/json, types that end with +json match,
// too.
func (a *Answer) ContentType(want string) *Answer {
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || kind != want && (want != "application/json" || !strings.HasSuffix(kind, "+json")) {
		a.fail("Content-Type: expected " + want + ", got " + strconv.Quote(a.Header.Get("Content-Type")))
	}
	return a
}

package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
)

// proof remembers that this API answers at the address: a list or an object
// came in its form, or it refused one in its own words. Before that, a 404 is
// no absence and nothing is written: the address may be a proxy's, or any web
// server's.
type proof struct {
	complete atomic.Bool
	flight   singleflight.Group
	probes   []probe // the list of each kind
}

type probe struct {
	url  string
	list func(context.Context) error
}

// Prove makes sure that this API answers at the address, unless an earlier
// answer of this client showed it. It lists one kind after the other until an
// answer does; the error is that of the first list.
func (c *Client) Prove(ctx context.Context) error { return c.transport.prove(ctx, "") }

// prove asks first for the list of the kind that a URL is of.
func (t *transport) prove(ctx context.Context, url string) error {
	if t.proof.complete.Load() || !t.settings.SharedReads { // a client of no run answers for itself
		return nil
	}
	asked := t.proof.flight.DoChan("", func() (any, error) {
		var first error
		probes := slices.Clone(t.proof.probes)
		slices.SortStableFunc(probes, func(a, b probe) int {
			return strings.Index(url, b.url) - strings.Index(url, a.url) // 0 where it is of the kind, else -1
		})
		for _, probe := range probes {
			err := probe.list(context.WithoutCancel(ctx))
			if t.proof.complete.Load() {
				return nil, nil
			}
			if first == nil {
				first = err
			}
			if e, ok := errors.AsType[*Error](err); ok && (e.Status == 0 || e.Status == http.StatusTooManyRequests) {
				break // another list would end in the same way
			}
			t.outage.end() // a key may have one list and not another
		}
		return nil, t.unproven(first)
	})
	select {
	case <-ctx.Done():
		return fmt.Errorf("looking whether the management API answers at %s: %w", t.settings.BaseURL, context.Cause(ctx))
	case answer := <-asked:
		return answer.Err
	}
}

// unproven is the failure of the first list, where no other came either.
func (t *transport) unproven(first error) error {
	e, ok := errors.AsType[*Error](first)
	if !ok || e.deploymentWide {
		return first
	}
	all := *e
	all.deploymentWide, all.foreign = true, cmp.Or(e.foreign, "another server's, as no list of the management API can be read there")
	t.outage.begin(&all)
	return &all
}

// isAPIError tells whether an error came in the form of the management API that
// was called: RFC 9457 on v2 (description: Versioning, 9), a message or an error
// on v1 (description: Errors; field notes: Management v1).
func (t *transport) isAPIError(c call, resp *http.Response, answer []byte) bool {
	var doc struct {
		Title          freeText
		Status         json.RawMessage
		Message, Error freeText
	}
	if json.Unmarshal(answer, &doc) != nil {
		return false
	}
	if strings.HasPrefix(c.url, t.settings.BaseURL+"/v1/") {
		return doc.Message != "" || doc.Error != ""
	}
	return doc.Title != "" && string(doc.Status) == fmt.Sprint(resp.StatusCode)
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// describeServer says what answered in the place of the API.
func describeServer(resp *http.Response, answer []byte) string {
	text := "a server that answers in plain text"
	switch {
	case len(bytes.TrimSpace(answer)) == 0:
		text = "a server that answers without a body"
	case isHTML(resp.Header.Get("Content-Type"), answer):
		text = "a web site"
		if m := pageTitle.FindSubmatch(answer); m != nil {
			text += fmt.Sprintf(" (page title %q)", html.UnescapeString(strings.TrimSpace(string(m[1]))))
		}
	case json.Valid(answer):
		text = "another API"
	}
	if server := resp.Header.Get("Server"); server != "" {
		text += ", served by " + server
	}
	return text
}

package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/singleflight"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// verification makes sure that this API answers at the address: a list or an object
// came in its form, or it refused one in its own words. Before that, a 404 is
// no absence and nothing is written: the address may be a proxy's, or any web
// server's.
type verification struct {
	flight singleflight.Group
	probes []probe // the list of each kind
}

type probe struct {
	url  string
	list func(context.Context) error
}

// Verify makes sure that this API answers at the address, unless an earlier
// answer of this client showed it. It lists one kind after the other until an
// answer does; the error is that of the first list.
func (c *Client) Verify(ctx context.Context) error { return c.deployment.verify(ctx, "") }

// verify asks first for the list of the kind that a URL is of.
func (d *deployment) verify(ctx context.Context, url string) error {
	if d.Answered() || !d.settings.SharedReads { // a client of no run answers for itself
		return nil
	}
	doing := "looking whether the management API answers at " + d.settings.BaseURL
	_, err := share(ctx, &d.verification.flight, "", doing, func(ctx context.Context) (struct{}, error) {
		var first error
		probes := slices.Clone(d.verification.probes)
		slices.SortStableFunc(probes, func(a, b probe) int {
			return strings.Index(url, b.url) - strings.Index(url, a.url) // 0 where it is of the kind, else -1
		})
		for _, probe := range probes {
			err := probe.list(ctx)
			if d.Answered() {
				return struct{}{}, nil
			}
			if first == nil {
				first = err
			}
			if e, ok := errors.AsType[*Error](err); ok && (e.Status == 0 || e.Status == http.StatusTooManyRequests) {
				break // another list would end in the same way
			}
			d.EndOutage() // a key may have one list and not another
		}
		return struct{}{}, d.unverified(first)
	})
	return err
}

// beforeWrite keeps a write from a server that was not proven to be the API.
func (d *deployment) beforeWrite(ctx context.Context, url string) error {
	if err := d.verify(ctx, url); err != nil {
		return fmt.Errorf("nothing was sent, because no list of the management API could be read first: %w", err)
	}
	return nil
}

// unverified is the failure of the first list, where no other came either.
func (d *deployment) unverified(first error) error {
	e, ok := errors.AsType[*Error](first)
	if !ok || e.DeploymentWide {
		return first
	}
	all := *e
	all.DeploymentWide, all.OtherServer = true, cmp.Or(e.OtherServer, "another server's, as no list of the management API can be read there")
	d.BeginOutage(&all)
	return &all
}

// isAPIError tells whether an error came in the form of the management API that
// was called: RFC 9457 on v2 (description: Versioning, 9), a message or an error
// on v1 (description: Errors; field notes: Management v1).
func (d *deployment) isAPIError(url string, status int, answer []byte) bool {
	var doc struct {
		Title          httpclient.FreeText
		Status         json.RawMessage
		Message, Error httpclient.FreeText
	}
	if json.Unmarshal(answer, &doc) != nil {
		return false
	}
	if strings.HasPrefix(url, d.settings.BaseURL+"/v1/") {
		return doc.Message != "" || doc.Error != ""
	}
	return doc.Title != "" && string(doc.Status) == strconv.Itoa(status)
}

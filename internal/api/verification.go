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

// verification makes sure that the server at the base URL is this API: the server has answered with a
// list, an object or a 403 in this API's form. Until then, a 404 doesn't mean that an object
// is gone, and nothing is written, because the server may be a proxy or any web server.
type verification struct {
	flight singleflight.Group
	probes []probe
}

// probe is the list of a kind.
type probe struct {
	url  string
	list func(context.Context) error
}

// Verify makes sure that the server at the base URL is this API, unless an earlier answer has
// shown it. It lists one kind after the other until the API answers, or an error shows that every
// list would fail. If no list gets the API's answer, it returns the error of the first.
func (c *Client) Verify(ctx context.Context) error { return c.deployment.ensureVerified(ctx, "") }

// ensureVerified is like Verify, but lists the kind of the URL first.
func (d *deployment) ensureVerified(ctx context.Context, url string) error {
	if !d.settings.SharedReads { // each answer is checked individually
		return nil
	}
	lookUp := func() (struct{}, bool) { return struct{}{}, d.Answered() }
	operation := "checking whether the management API answers at " + d.settings.BaseURL
	_, err := share(ctx, &d.verification.flight, "", operation, lookUp, func(ctx context.Context) (struct{}, error) {
		var firstErr error
		probes := slices.Clone(d.verification.probes)
		slices.SortStableFunc(probes, func(a, b probe) int {
			return strings.Index(url, b.url) - strings.Index(url, a.url) // 0 if the URL contains the probe's, else -1
		})
		for _, probe := range probes {
			err := probe.list(ctx)
			if d.Answered() {
				return struct{}{}, nil
			}
			firstErr = cmp.Or(firstErr, err)
			if e, ok := errors.AsType[*Error](err); ok && (e.Status == 0 && !errors.Is(e, httpclient.ErrTooLarge) || e.Status == http.StatusTooManyRequests) {
				break // every list would fail like this one
			}
			d.EndOutage() // the key may be allowed to read another list
		}
		return struct{}{}, d.unverifiedError(firstErr)
	})
	return err
}

// beforeWrite returns an error if the server isn't verified. The caller then must not write.
func (d *deployment) beforeWrite(ctx context.Context, url string) error {
	if err := d.ensureVerified(ctx, url); err != nil {
		return fmt.Errorf("nothing was sent, because no list of the management API could be read first: %w", err)
	}
	return nil
}

// unverifiedError returns the error of a server whose lists all failed: the error of the first
// list, marked as a failure of the whole deployment.
func (d *deployment) unverifiedError(firstErr error) error {
	e, ok := errors.AsType[*Error](firstErr)
	if !ok || e.DeploymentWide {
		return firstErr
	}
	deploymentWide := *e
	deploymentWide.DeploymentWide, deploymentWide.OtherServer = true, cmp.Or(e.OtherServer, "another server's, because no list of the management API can be read there")
	d.BeginOutage(&deploymentWide)
	return &deploymentWide
}

// isAPIError reports whether an error has the form of the management API that was called: RFC
// 9457 on v2 (service description: Versioning, 9), a message or an error on v1 (service description: Errors;
// field notes: Management v1).
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

package conformance

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// preflightTimeout bounds each request of the preflight, and the first request to the target's clock.
const preflightTimeout = 10 * time.Second

// preflight sends a few requests to find out whether the target can be judged. failure is
// why it can't be, or "". notes are oddities, such as clock skew or an unknown endpoint. With
// Target.FindVersions, it excludes the versions of the management API that aren't served. If the run runs
// jobs, it sets Target.Workers.
func preflight(ctx context.Context, e *env.Env, runsJobs bool) (failure string, notes []string) {
	t := e.Target
	get := func(url string) *wire.Exchange {
		ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
		defer cancel()
		return wire.Do(ctx, t.Client, wire.NewRequest(http.MethodGet, url, t.Key, ""), time.Now)
	}
	var first *wire.Exchange // the first answer without a fault
	served, isFaulty := map[string]bool{}, map[string]bool{}
	for _, p := range probesOf(t) {
		if first != nil && (!t.FindVersions || served[p.api]) {
			continue
		}
		x := get(p.url)
		if x.Status == 0 && first == nil {
			return "unreachable: " + e.Secrets.Redact(fmt.Sprintf("GET %s: %s", p.url, unreachableReason(x.Err))), nil
		}
		served[p.api] = served[p.api] || x.Status != http.StatusNotFound && x.Status != http.StatusGone
		fault := p.fault(x)
		if isFaulty[p.api] = fault != ""; fault != "" {
			notes = append(notes, e.Secrets.Redact(fault))
		} else if first == nil {
			first = x
		}
	}
	if first == nil {
		return "not this API, or not this key: " + notes[0], nil
	}
	unknownURL := cmp.Or(t.V2(), t.Queue(), t.V1()) + "/conf-nothing-is-here"
	x := get(unknownURL)
	if _, err := x.JSON(); x.Status/100 == 2 && err == nil { // a web page is accepted
		return e.Secrets.Redact(fmt.Sprintf("not this API: it returns %d even for a path that doesn't exist (GET %s)", x.Status, unknownURL)), nil
	}
	isMissing := func(api string) bool {
		ok, probed := served[api]
		return probed && !ok
	}
	if t.FindVersions {
		for i, excluded := range []*bool{&t.NoV1, &t.NoV2} {
			version := strconv.Itoa(i + 1)
			switch {
			case isMissing("v" + version):
				*excluded = true
				notes = append(notes, fmt.Sprintf("version %s of the management API isn't judged: if the deployment should have it, set --api-version v%[1]s", version))
			case isFaulty["v"+version]:
				notes = append(notes, fmt.Sprintf("version %s of the management API is judged: if the deployment doesn't have it, set --api-version to the other one", version))
			}
		}
	}
	var shown struct{ Workers struct{ Max int } }
	if t.Endpoint != "" && t.HasV2() && (runsJobs || isMissing("jobs")) {
		x = get(t.V2() + "/v2/serverless/" + t.Endpoint)
		_ = json.Unmarshal(x.Body, &shown) // the number of workers stays unknown
		t.Workers = shown.Workers.Max
	}
	// The user may have mistyped the id.
	if isMissing("jobs") && t.HasV2() && x.Status == http.StatusNotFound {
		notes = append(notes, fmt.Sprintf("no endpoint has the id %s: cases use endpoints of their own, if the run may create objects", t.Endpoint))
		t.Endpoint = ""
	}
	return "", append(notes, clockSkewNotes(first)...)
}

// probe is a request that any deployment of an API answers.
type probe struct {
	api, url string
	expected string // in words
	accepts  func(body any) bool
}

func probesOf(t *Target) (list []probe) {
	if t.Endpoint != "" {
		list = append(list, probe{"jobs", t.Queue() + "/v2/" + t.Endpoint + "/health", "the health of the endpoint", isHealth})
	}
	if t.HasV2() {
		list = append(list, probe{"v2", t.V2() + "/v2/serverless", "a list of version 2", hasArray}, probe{"v2", t.V2() + "/v2/templates", "a list of version 2", hasArray})
	}
	if t.HasV1() {
		list = append(list, probe{"v1", t.V1() + "/v1/containerregistryauth", "the list of registry auths of version 1", isArray})
	}
	return list
}

// fault returns a fault of the answer to the probe, or "".
func (p probe) fault(x *wire.Exchange) string {
	var body any
	err := json.Unmarshal(x.Body, &body)
	switch {
	case x.Status == 0:
		return fmt.Sprintf("GET %s: %s", p.url, unreachableReason(x.Err))
	case x.Status == http.StatusUnauthorized || x.Status == http.StatusForbidden:
		return fmt.Sprintf("GET %s refuses the key of GPUCLOUD_API_KEY: %d", p.url, x.Status)
	case x.Header.Get("Location") != "":
		return fmt.Sprintf("GET %s redirects to %s: name the address that answers", p.url, x.Header.Get("Location"))
	case x.Status/100 != 2:
		return fmt.Sprintf("GET %s returned %d instead of %s", p.url, x.Status, p.expected)
	case x.Err != nil || err != nil:
		return fmt.Sprintf("GET %s returned a body that isn't JSON instead of %s", p.url, p.expected)
	case !p.accepts(body):
		return fmt.Sprintf("GET %s didn't return %s", p.url, p.expected)
	}
	return ""
}

func unreachableReason(err error) string {
	if untrusted, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Sprintf("this machine doesn't trust the server's certificate (%v): set SSL_CERT_FILE to a file with the certificate of its authority", untrusted)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", preflightTimeout)
	}
	text := err.Error()
	if i := strings.LastIndex(text, `": `); i >= 0 { // the caller adds the URL
		text = text[i+3:]
	}
	return text
}

func isHealth(body any) bool {
	o, _ := body.(map[string]any)
	_, hasJobs := o["jobs"].(map[string]any)
	_, hasWorkers := o["workers"].(map[string]any)
	return hasJobs || hasWorkers
}

func isArray(body any) bool {
	_, ok := body.([]any)
	return ok
}

func hasArray(body any) bool {
	o, _ := body.(map[string]any)
	return slices.ContainsFunc(slices.Collect(maps.Values(o)), isArray)
}

// maxSkew is the clock skew above which a note is added.
const maxSkew = 5 * time.Second

func clockSkewNotes(x *wire.Exchange) []string {
	date, err := http.ParseTime(x.Header.Get("Date"))
	if err != nil {
		return nil
	}
	if d := date.Sub(x.Received).Round(time.Second); d.Abs() > maxSkew {
		return []string{fmt.Sprintf("the target's clock is %s off this machine's", d)}
	}
	return nil
}

package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// preflightTime bounds the preflight, and each of its requests.
const preflightTime = 4 * time.Second

// preflight sends a few requests to find out whether the target can be judged. refused is
// why it can't be, or "". notes are oddities, such as clock skew or an unknown endpoint.
func preflight(ctx context.Context, e *env.Env) (refused string, notes []string) {
	ctx, cancel := context.WithTimeout(ctx, preflightTime)
	defer cancel()
	t := e.Target
	get := func(url, key string) *wire.Exchange {
		header := http.Header{"Authorization": {"Bearer " + key}}
		return wire.Do(ctx, t.Client, wire.Request{Method: http.MethodGet, URL: url, Header: header}, time.Now)
	}
	type probe struct {
		url, what string
		looks     func(body any) bool
	}
	var probes []probe
	if t.Endpoint != "" {
		probes = append(probes, probe{t.Queue() + "/v2/" + t.Endpoint + "/health", "the health of the endpoint", isHealth})
	}
	if t.HasV2() {
		probes = append(probes, probe{t.V2() + "/v2/serverless", "a list of version 2", hasArray})
		probes = append(probes, probe{t.V2() + "/v2/templates", "a list of version 2", hasArray})
	}
	if t.HasV1() {
		probes = append(probes, probe{t.V1() + "/v1/containerregistryauth", "the list of registry auths of version 1", isArray})
	}
	var faults []string
	noHealth := false // the first probe gets 404
	for i, p := range probes {
		x := get(p.url, t.Key)
		noHealth = noHealth || i == 0 && t.Endpoint != "" && x.Status == http.StatusNotFound
		var body any
		err := json.Unmarshal(x.Body, &body)
		switch {
		case x.Status == 0:
			return "unreachable: " + e.Secrets.Redact(fmt.Sprintf("GET %s: %v", p.url, unreachableReason(ctx, x.Err))), nil
		case x.Status == http.StatusUnauthorized || x.Status == http.StatusForbidden:
			faults = append(faults, fmt.Sprintf("GET %s refuses the key of GPUCLOUD_API_KEY: %d", p.url, x.Status))
		case x.Header.Get("Location") != "":
			faults = append(faults, fmt.Sprintf("GET %s redirects to %s: name the address that answers", p.url, x.Header.Get("Location")))
		case x.Status/100 != 2:
			faults = append(faults, fmt.Sprintf("GET %s returned %d instead of %s", p.url, x.Status, p.what))
		case x.Err != nil || err != nil:
			faults = append(faults, fmt.Sprintf("GET %s returned a body that isn't JSON instead of %s", p.url, p.what))
		case !p.looks(body):
			faults = append(faults, fmt.Sprintf("GET %s didn't return %s", p.url, p.what))
		default:
			unknownURL := cmp.Or(t.V2(), t.Queue(), t.V1()) + "/conf-nothing-is-here"
			if x := get(unknownURL, t.Key); x.Status/100 == 2 {
				return e.Secrets.Redact(fmt.Sprintf("not this API: it returns %d even for a path that doesn't exist (GET %s)", x.Status, unknownURL)), nil
			}
			// The user may have mistyped the id. Then cases create their own endpoints if the run allows it.
			if noHealth && t.HasV2() && get(t.V2()+"/v2/serverless/"+t.Endpoint, t.Key).Status == http.StatusNotFound {
				t.Endpoint = ""
			}
			for _, fault := range faults {
				notes = append(notes, e.Secrets.Redact(fault))
			}
			return "", append(notes, noteClockSkew(x)...)
		}
	}
	return "not this API, or not this key: " + e.Secrets.Redact(faults[0]), nil
}

func unreachableReason(ctx context.Context, err error) any {
	if ctx.Err() != nil {
		return fmt.Sprintf("no answer within %s", preflightTime)
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

func noteClockSkew(x *wire.Exchange) []string {
	date, err := http.ParseTime(x.Header.Get("Date"))
	if err != nil {
		return nil
	}
	if d := date.Sub(x.Received).Round(time.Second); d.Abs() > maxSkew {
		return []string{fmt.Sprintf("the target's clock is %s off this machine's", d)}
	}
	return nil
}

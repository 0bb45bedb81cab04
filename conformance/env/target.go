// Package env is the environment of cases: the target and its clock, the ledger of
// created objects, the receiver, and the pace of requests.
package env

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"
)

// Target is a deployment to judge.
type Target struct {
	// BaseURL is where version 2 of the management API is, below /v2. Empty: only
	// the job API is judged.
	BaseURL string
	// BaseURLV1 and QueueURL are where version 1, below /v1, and the job API,
	// below /v2/{endpoint}, are. Empty: at BaseURL.
	BaseURLV1, QueueURL string
	// Key has access to everything.
	Key string
	// OtherKey is a valid key without access to what Key opens; UserKey one with
	// access, of another user. Cases that need one that is empty are skipped.
	OtherKey, UserKey string
	// Endpoint is an existing endpoint whose workers run our handler.
	Endpoint string
	// Image is the image of endpoints that the suite creates. Empty:
	// builtin/conformance.
	Image string
	// EndpointBody has further members of the body that creates an endpoint, such as
	// gpu, where the target requires them.
	EndpointBody map[string]json.RawMessage
	// Live judges by the dialect of the public SDKs where that differs.
	Live bool
	// NoV1 and NoV2 leave a version of the management API out.
	NoV1, NoV2 bool
	// Local says that the target is for nothing but tests, on this machine: cases
	// of every cost run, and each has endpoints of its own.
	Local bool
	// Advance moves the target's clock on, where that is possible: half an hour
	// takes no time then. See NewShared.
	Advance func(ctx context.Context, d time.Duration) (time.Time, error)
	// Lateness is how late a timed effect may come. 0: 2 s where the
	// clock can be advanced, 5 s elsewhere. What time does to a job (ttl, retention,
	// execution time-out) may then be 5 s later everywhere; where the clock stands
	// still that is a warning.
	Lateness time.Duration
	// ClockStopped says that only Advance moves the target's clock.
	ClockStopped bool
	// Virtual says that the target runs in the same testing/synctest bubble as the
	// suite: waiting takes no time then either. Client reaches it in memory, and
	// HookListener takes its calls.
	Virtual bool
	// HookURL is an address at which the target reaches HookListen on this
	// machine. Empty: webhooks are judged where the target is on this machine.
	HookURL, HookListen string
	HookListener        net.Listener // in place of HookListen
	// Unserved names operations that the target is known not to serve, "GET
	// /v2/pods": clauses of those alone are skipped.
	Unserved []string
	// Client sends the requests; nil: one of the suite's own.
	Client *http.Client
}

// V1, V2 and Queue return the addresses, without a slash at the end.
func (t *Target) V1() string    { return trimSlash(firstNonEmpty(t.BaseURLV1, t.BaseURL)) }
func (t *Target) V2() string    { return trimSlash(t.BaseURL) }
func (t *Target) Queue() string { return trimSlash(firstNonEmpty(t.QueueURL, t.BaseURL)) }

// API returns the API of an address: "v1", "v2", "jobs", or "" for none.
func (t *Target) API(address string) string {
	switch path := pathOf(address); {
	case strings.HasPrefix(path, t.V1()+"/v1/"):
		return "v1"
	case Managed(path) && strings.HasPrefix(path, t.V2()+"/v2/"):
		return "v2"
	case strings.HasPrefix(path, t.Queue()+"/v2/"):
		return "jobs"
	}
	return ""
}

func trimSlash(s string) string {
	for len(s) > 0 && s[len(s)-1] == '/' {
		s = s[:len(s)-1]
	}
	return s
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// WaitsForFree tells whether waiting in the target's time takes no real time.
func (t *Target) WaitsForFree() bool { return t.Advance != nil || t.Virtual }

// Grace is how late a timed effect may come.
func (t *Target) Grace() time.Duration {
	switch {
	case t.Lateness > 0:
		return t.Lateness
	case t.WaitsForFree():
		return 2 * time.Second // what other cases take on the wall passes here too
	}
	return 5 * time.Second // networks and schedulers take some as well
}

// HasV1 and HasV2 tell whether a version of the management API is to be judged.
func (t *Target) HasV1() bool { return t.V1() != "" && !t.NoV1 }
func (t *Target) HasV2() bool { return t.V2() != "" && !t.NoV2 }

// newClient is for many connections at a time, each used again, and follows no
// redirect: an answer is judged as it came.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 512,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
			// A target that says nothing about a large body gets it then.
			ExpectContinueTimeout: time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Package env is what cases stand on: the target and its clock, what they make
// there and have to take down, and what they may cost.
package env

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
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
	// Key opens all of it.
	Key string
	// OtherKey is a valid key without access to what Key opens; UserKey one with
	// access, of another user. Cases that need one that is empty are skipped.
	OtherKey, UserKey string
	// Endpoint is an endpoint that is there, whose workers run our handler.
	Endpoint string
	// Image is what workers of the endpoints that the suite makes run. Empty:
	// builtin/conformance.
	Image string
	// EndpointBody has further members of the body that makes an endpoint, such
	// as gpu, where the target needs them.
	EndpointBody map[string]json.RawMessage
	// Live judges by the dialect of the public SDKs where that is another one.
	Live bool
	// NoV1 and NoV2 leave a version of the management API out.
	NoV1, NoV2 bool
	// Local says that the target is for nothing but tests, on this machine: cases
	// of every cost run, and each has endpoints of its own.
	Local bool
	// Advance moves the target's clock on, where that is possible: half an hour
	// takes no time then. See NewShared.
	Advance func(ctx context.Context, d time.Duration) (time.Time, error)
	// Lateness is how late a thing may come that has its time. 0: 2 s where the
	// clock can be advanced, 5 s elsewhere. What time does to a job (ttl, retention,
	// execution time-out) may then be 5 s later everywhere; where the clock stands
	// still it is warned of.
	Lateness time.Duration
	// Still says that the target's clock stands still but for Advance.
	Still bool
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

// V1, V2 and Queue are the addresses, without a slash at the end.
func (t *Target) V1() string    { return trim(first(t.BaseURLV1, t.BaseURL)) }
func (t *Target) V2() string    { return trim(t.BaseURL) }
func (t *Target) Queue() string { return trim(first(t.QueueURL, t.BaseURL)) }

func trim(s string) string {
	for len(s) > 0 && s[len(s)-1] == '/' {
		s = s[:len(s)-1]
	}
	return s
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// Quick tells whether waiting in the target's time takes none on the wall.
func (t *Target) Quick() bool { return t.Advance != nil || t.Virtual }

// Grace is how late a thing may come that has its time.
func (t *Target) Grace() time.Duration {
	switch {
	case t.Lateness > 0:
		return t.Lateness
	case t.Quick():
		return 2 * time.Second // what other cases take on the wall passes here too
	}
	return 5 * time.Second // networks and schedulers take some as well
}

// HasV1 and HasV2 tell whether a version of the management API is to be judged.
func (t *Target) HasV1() bool { return t.V1() != "" && !t.NoV1 }
func (t *Target) HasV2() bool { return t.V2() != "" && !t.NoV2 }

// client is for many connections at a time, each used again, and follows no
// redirect: an answer is judged as it came.
func client() *http.Client {
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

package wirefault_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
)

// A client sends three requests, which the server answers with 100 bytes. Faults change the answers, their time and what is served.
func TestConnectionsAndCounts(t *testing.T) {
	for fault, want := range map[string]string{
		`{}`:                                "200 100, 200 100, 200 100 in 0s, 3 served",
		`{"drop": "before"}`:                "EOF, EOF, EOF in 0s, 0 served",
		`{"drop": "after"}`:                 "EOF, EOF, EOF in 0s, 3 served",
		`{"hold": "before"}`:                "deadline, deadline, deadline in 3m0s, 0 served",
		`{"hold": "after"}`:                 "deadline, deadline, deadline in 3m0s, 3 served",
		`{"delay": 1.5}`:                    "200 100, 200 100, 200 100 in 4.5s, 3 served",
		`{"drip": 0.5}`:                     "200 100, 200 100, 200 100 in 6s, 3 served", // four pieces each
		`{"cut": 10}`:                       "200 10 unexpected EOF, 200 10 unexpected EOF, 200 10 unexpected EOF in 0s, 3 served",
		`{"stall": 10}`:                     "200 10 deadline, 200 10 deadline, 200 10 deadline in 3m0s, 3 served",
		`{"skip": 1, "drop": "after"}`:      "200 100, 200 100, EOF in 0s, 3 served", // the second differs
		`{"times": 1, "drop": "before"}`:    "EOF, EOF, 200 100 in 0s, 1 served",
		`{"first": true, "drop": "before"}`: "EOF, 200 100, EOF in 0s, 1 served",
		`{"first": true, "times": 1, "drop": "after"}`: "EOF, 200 100, 200 100 in 0s, 3 served",
		`{"again": {}, "path": "other"}`:               "200 100, 200 100, 200 100 in 0s, 4 served",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := new(wirefault.Fault)
			must.Succeed(t, json.Unmarshal([]byte(fault), f))
			var served atomic.Int32
			transport, stop := pipenet.Serve(wirefault.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				served.Add(1)
				_, _ = w.Write(make([]byte, 100))
			}), wirefault.Deployment{}, f))
			defer stop()
			client := &http.Client{Transport: transport, Timeout: time.Minute}
			began := time.Now()
			var got []string
			for _, path := range []string{"/one", "/other", "/one"} {
				got = append(got, describeAnswer(client, path))
			}
			must.Equal(t, fmt.Sprintf("%s in %s, %d served", strings.Join(got, ", "), time.Since(began), served.Load()), want, fault)
		})
	}
}

// describeAnswer sends a request, and returns the status and the length of the answer's body, or why it is missing.
func describeAnswer(client *http.Client, path string) string {
	resp, err := client.Post("http://deployment"+path, "text/plain", strings.NewReader("body"))
	var text string
	if err == nil {
		var body []byte
		body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		text = fmt.Sprintf("%d %d", resp.StatusCode, len(body))
	}
	switch {
	case err == nil:
		return text
	case strings.Contains(err.Error(), "exceeded"):
		return strings.TrimSpace(text + " deadline")
	case text != "":
		return text + " " + err.Error()
	}
	return "EOF"
}

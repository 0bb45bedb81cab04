package selftest_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// The clock isn't advanced while a request is in flight, however long its connection takes
// to open.
func TestAdvanceWaitsForSlowConnections(t *testing.T) {
	target := startDeployment(t, nil)
	target.Client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(30 * time.Millisecond) // real time: this test is not in a bubble
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	r := judge(t, conformance.Options{Target: target, Select: []string{"OPS-02", "OPS-06", "JOB-13"}})
	for _, x := range r.Results {
		if x.Verdict != report.Pass {
			t.Error(report.Text(x))
		}
	}
}

// A response that takes more than half a second is judged like any other, on a stopped and
// on a running clock.
func TestSlowResponsesWhileClockAdvances(t *testing.T) {
	for name, stopped := range map[string]bool{"stopped clock": true, "running clock": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var responses atomic.Int64
			start := startDeployment
			if !stopped {
				start = func(t *testing.T, wrap func(http.Handler) http.Handler, configure ...func(*jobrunner.Config)) conformance.Target {
					target, _ := startRunningDeployment(t, wrap, configure...)
					return target
				}
			}
			target := start(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					answer := httptest.NewRecorder()
					h.ServeHTTP(answer, r)
					if responses.Add(1)%25 == 0 {
						time.Sleep(700 * time.Millisecond) // real time: this test is not in a bubble
					}
					forward(w, answer)
				})
			})
			o := conformance.Options{Target: target, Select: []string{"OPS-0*", "WEB-0*", "LIM-1*", "SUB-2*"}}
			if testing.Short() {
				o.Select = []string{"OPS-02", "OPS-06", "LIM-14", "WEB-06"}
			}
			expectNoFailure(t, judge(t, o))
		})
	}
}

package selftest_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// The clock is not advanced while a request is in flight, however long its
// connection takes to open.
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

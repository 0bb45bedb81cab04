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

// Time is not advanced past a request that is still on its way, however long its
// connection takes.
func TestAdvanceOvertakesNoRequest(t *testing.T) {
	target := deployed(t, nil)
	target.Client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(30 * time.Millisecond) // a network takes real time
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

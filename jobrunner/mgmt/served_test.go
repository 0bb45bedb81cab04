package mgmt_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Each operation of the contract is served; other paths are unknown.
func TestContractIsServed(t *testing.T) {
	d := deploy(t)
	for _, c := range paths {
		got := d.send(c.method, c.path, "")
		must.Hold(t, got.status != 405 && !strings.Contains(got.text, "there is nothing at"), c.method, c.path, "an operation of the contract, is unknown", got.text)
	}
	for _, o := range contract.UnservedOperations {
		if o.API != contract.V2 {
			continue
		}
		path := "/v2" + parameter.ReplaceAllString(o.Path, "x")
		got := d.send(o.Method, path, "")
		if got.status != 501 || got.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.text, "the jobrunner doesn't serve it") || !strings.Contains(got.text, o.Method+" /v2"+o.Path) {
			t.Errorf("%s %s, which the jobrunner lacks: %d %s", o.Method, path, got.status, got.text)
		}
		if got := d.send("PUT", path, "{}"); got.status != 405 || got.header.Get("Allow") == "" {
			t.Errorf("PUT %s: %d %s", path, got.status, got.text)
		}
	}
	for _, path := range []string{"/v2/podz", "/v1/billing/nothing", "/v2/pods/x/nothing"} {
		got := d.send("GET", path, "")
		must.Hold(t, got.status == 404 && strings.Contains(got.text, "there is nothing at"), path, got.status, got.text)
	}
}

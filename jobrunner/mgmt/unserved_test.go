package mgmt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/contract"
)

// Each operation of the contract is served, or says that it is not: that is
// told from a path that is no operation.
func TestUnservedOperationsSaySo(t *testing.T) {
	d := deploy(t)
	unserved := 0
	for _, op := range contract.Operations {
		path := "/v2" + op.Path
		switch op.API {
		case contract.V1:
			path = "/v1" + op.Path
		case contract.V2:
		default:
			continue // the job API
		}
		for _, name := range []string{"id", "podId", "templateId", "networkVolumeId", "containerRegistryAuthId", "endpointId", "workerId"} {
			path = strings.ReplaceAll(path, "{"+name+"}", "x")
		}
		got := d.send(op.Method, path, "")
		switch says := strings.Contains(got.text, "does not serve "+op.Method); {
		case says:
			unserved++
			if got.status != 404 {
				t.Errorf("%s %s: %d", op.Method, path, got.status)
			}
		case got.status == 405 || strings.Contains(got.text, "there is nothing at"):
			t.Errorf("%s %s, an operation of the contract, is unknown: %s", op.Method, path, got.text)
		}
	}
	if unserved < 20 {
		t.Errorf("%d operations say that they are not served", unserved)
	}
	for _, path := range []string{"/v2/podz", "/v1/billing/nothing", "/v2/pods/x/nothing"} {
		if got := d.send("GET", path, ""); got.status != 404 || strings.Contains(got.text, "does not serve") {
			t.Error(fmt.Sprint(path, got.status, got.text))
		}
	}
}

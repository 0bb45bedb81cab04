package selftest_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/cases"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/contract"
)

// notTried are operations of the contract that the suite's own table leaves out,
// each with the reason.
var notTried = map[string]string{
	"v1 GET /openapi.json": "open to everybody", "v1 GET /docs": "open to everybody", "v2 GET /openapi.json": "open to everybody",
	"v1 POST /pods": "a pod costs", "v1 PATCH /pods/{}": "a pod costs", "v1 POST /pods/{}/update": "a pod costs", "v1 POST /pods/{}/start": "a pod costs",
	"v1 POST /pods/{}/stop": "a pod costs", "v1 POST /pods/{}/reset": "a pod costs", "v1 POST /pods/{}/restart": "a pod costs", "v2 POST /pods": "a pod costs",
	"v2 POST /clusters": "a cluster costs", "v2 PATCH /clusters/{}": "a cluster costs", "v2 GET /clusters/{}/pods": "a cluster costs",
	"v2 GET /account/ssh-keys": "not in the description", "v2 PUT /account/ssh-keys": "not in the description",
	"v2 GET /catalog/templates": "not in the description", "v2 GET /billing/clusters": "not in the description",
	"jobs GET /openai/v1/models": "not in the description",
	"jobs GET /status-sync/{}":   "for the public SDKs alone", "jobs POST /status-sync/{}": "for the public SDKs alone",
	"jobs POST /status/{}": "for the public SDKs alone", "jobs POST /stream/{}": "for the public SDKs alone",
}

// The suite tries every operation of the contract, so that one that is added there
// is not forgotten here. The suite has a table of its own, since it shares nothing
// with what it judges.
func TestEveryOperationIsTried(t *testing.T) {
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	plain := func(op string) string {
		return parameter.ReplaceAllString(strings.Replace(op, "/openai/v1/completions", "/openai/{route}", 1), "{}")
	}
	var tried []string
	for _, op := range cases.Operations() {
		if slices.Contains(tried, plain(op)) {
			t.Errorf("%s is in the table twice", op)
		}
		tried = append(tried, plain(op))
	}
	known := map[string]bool{}
	for _, op := range contract.Operations {
		text := plain(string(op.API) + " " + op.Method + " " + op.Path)
		known[text] = true
		if notTried[text] != "" {
			if slices.Contains(tried, text) {
				t.Errorf("%s is tried: take it off the list of those that are not", text)
			}
			continue
		}
		if !slices.Contains(tried, text) {
			t.Errorf("%s is not in the table of conformance/cases/operations.go", text)
		}
	}
	for _, op := range tried {
		if !known[op] {
			t.Errorf("%s is tried, and the contract lacks it", op)
		}
	}
	for op := range notTried {
		if !known[op] {
			t.Errorf("%s is left out on purpose, and the contract lacks it", op)
		}
	}
}

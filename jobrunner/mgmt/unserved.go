package mgmt

import (
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httproute"
)

// unserved are the operations of the documents of both versions that the
// jobrunner does not have.
var unserved = func() (t httproute.Table[struct{}]) {
	t.HeadAsGet = true
	for path, methods := range map[string][]string{
		"/v1/openapi.json":            {"GET"},
		"/v1/docs":                    {"GET"},
		"/v1/pods":                    {"GET", "POST"},
		"/v1/pods/{podId}":            {"DELETE", "GET", "PATCH"},
		"/v1/pods/{podId}/update":     {"POST"},
		"/v1/pods/{podId}/start":      {"POST"},
		"/v1/pods/{podId}/stop":       {"POST"},
		"/v1/pods/{podId}/reset":      {"POST"},
		"/v1/pods/{podId}/restart":    {"POST"},
		"/v1/billing/pods":            {"GET"},
		"/v1/billing/endpoints":       {"GET"},
		"/v1/billing/networkvolumes":  {"GET"},
		"/v2/openapi.json":            {"GET"},
		"/v2/account/ssh-keys":        {"GET", "PUT"},
		"/v2/pods":                    {"GET", "POST"},
		"/v2/pods/{id}":               {"DELETE", "GET", "PATCH"},
		"/v2/pods/{id}/logs":          {"GET"},
		"/v2/pods/{id}/action":        {"POST"},
		"/v2/clusters":                {"GET", "POST"},
		"/v2/clusters/{id}":           {"DELETE", "GET", "PATCH"},
		"/v2/clusters/{id}/pods":      {"GET"},
		"/v2/catalog/templates":       {"GET"},
		"/v2/billing":                 {"GET"},
		"/v2/billing/pods":            {"GET"},
		"/v2/billing/serverless":      {"GET"},
		"/v2/billing/endpoints":       {"GET"},
		"/v2/billing/network-volumes": {"GET"},
		"/v2/billing/clusters":        {"GET"},
	} {
		for _, method := range methods {
			t.Add(method, path, struct{}{})
		}
	}
	return t
}()

// refuseUnserved answers an error for an operation that the contract has and the
// jobrunner has not: the caller of such a path made no mistake.
func refuseUnserved(method, path string) error {
	if found := unserved.Find(method, path); found.Pattern != "" {
		return httpanswer.Refuse(http.StatusNotFound, "there is nothing at %s: the jobrunner does not serve %s (yet), although the contract has this operation", path, found.Pattern)
	}
	return nil
}

package api

import (
	"errors"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// Error is a request that failed.
type Error = httpclient.Error

// IsNotFound reports whether the API itself answered 404 about an object. A 404 from elsewhere,
// such as a proxy, or about a list says nothing about the object.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && e.OtherServer == "" && !e.List
}

// statusOf returns the status of a failed request, or 0 without an answer.
func statusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// IsDeploymentWide reports whether a failure concerns the whole deployment, so that one message
// is enough for all objects: it can't be reached, it rejects the key, or another server answers
// at its address.
func IsDeploymentWide(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.DeploymentWide
}

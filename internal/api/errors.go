package api

import (
	"errors"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// Error is a request that failed.
type Error = httpclient.Error

// IsNotFound tells that the API itself answered 404 about an object. A 404 of something
// else at the address, such as a proxy, or of a list says nothing about the object.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && e.OtherServer == "" && !e.List
}

// statusOf is the status of a request that failed, 0 for no answer.
func statusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// IsDeploymentWide tells that a failure concerns the whole deployment, so that one
// message says enough for all objects: it can't be reached, it refuses the key,
// or its address is another server's.
func IsDeploymentWide(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.DeploymentWide
}

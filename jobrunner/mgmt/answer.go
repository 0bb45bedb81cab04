package mgmt

import (
	"errors"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// validationError rejects a request that violates its schema.
func validationError(faults ...string) error {
	return &httpanswer.Refusal{Status: http.StatusUnprocessableEntity, Text: "the request is not valid", Faults: faults}
}

// fail answers an error in the form of the call's version.
func (s *server) fail(c *call, err error) {
	form := httpanswer.Problem
	if c.version == 1 {
		form = httpanswer.Message
	}
	var rule store.Refusal
	var conflict store.Conflict
	var key store.KeyError
	switch {
	case errors.As(err, &conflict):
		err = httpanswer.Refuse(http.StatusConflict, "%s", conflict)
	case errors.As(err, &key):
		err = httpanswer.Refuse(http.StatusServiceUnavailable, "%s", key)
	case errors.As(err, &rule):
		err = httpanswer.Refuse(http.StatusBadRequest, "%s", rule)
	case errors.Is(err, store.ErrOfficial):
		err = httpanswer.Refuse(http.StatusForbidden, "%s", err)
	case errors.Is(err, store.ErrNotFound):
		status := http.StatusNotFound
		if c.version == 1 && c.http.Method == http.MethodDelete { // service description, Endpoints A
			status = http.StatusBadRequest
		}
		err = httpanswer.Refuse(status, "%s", err)
	}
	form.Fail(c.writer, c.http, s.Logger, err)
}

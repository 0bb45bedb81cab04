// Package unavailable has the answers to errors that are neither the client's
// fault nor a defect: the deployment is short of something for now. Every API
// gives them in its own form.
package unavailable

import (
	"context"
	"errors"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Answer is the status and the text for a request that ended with an error: no
// memory is left for its body, the disk is full, the database is away, or the
// deployment stops, which ctx, that of the request, tells. When to come again goes
// into the header. For any other error the status is 0.
func Answer(ctx context.Context, header http.Header, err error) (status int, text string) {
	again := func(after, text string) (int, string) {
		header.Set("Retry-After", after)
		return http.StatusServiceUnavailable, text
	}
	kind := sqldb.Classify(err)
	switch {
	case errors.Is(err, httplimit.ErrMemory):
		return again(httplimit.RetryAfter, err.Error())
	case kind == sqldb.Full:
		return http.StatusInsufficientStorage, sqldb.Public(err)
	case kind != sqldb.Fault:
		return again(sqldb.RetryAfter, sqldb.Public(err))
	case httplimit.Stopping(ctx):
		return again(httplimit.RetryAfter, httplimit.ErrStopping.Error())
	}
	return 0, ""
}

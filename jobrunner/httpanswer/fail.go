package httpanswer

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Fail writes an error: a Refusal as it is, and a shortage of resources with the time to retry. Any
// other error is an internal one, which is logged.
func (f Form) Fail(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	refusal := new(Refusal)
	if !errors.As(err, &refusal) {
		refusal = shortage(r.Context(), err)
	}
	switch {
	case refusal != nil:
	case r.Context().Err() != nil: // nobody reads the answer
		refusal = Refuse(http.StatusServiceUnavailable, "the client cancelled the request")
	default:
		log.ErrorContext(r.Context(), "a request failed", "path", r.URL.Path, "error", err, "request", SetRequestID(w.Header()))
		refusal = f.Internal(w.Header())
	}
	f.Refuse(w, refusal)
}

// Internal returns the answer for an internal error. It has the request id of the log entry.
func (f Form) Internal(h http.Header) *Refusal {
	const text = "the deployment failed to answer: its log says why"
	if f == Error {
		return Refuse(http.StatusInternalServerError, text)
	}
	return Refuse(http.StatusInternalServerError, text+", under the request id %s", SetRequestID(h))
}

// shortage returns the answer for an error caused neither by the client nor by a bug: there is no
// memory for a body, the disk is full, the database doesn't answer, or the deployment stops (see the
// request's ctx). It returns nil for other errors.
func shortage(ctx context.Context, err error) *Refusal {
	class := sqldb.Classify(err)
	switch {
	case errors.Is(err, httplimit.ErrMemory):
		return unavailable(httplimit.RetryAfter, err.Error())
	case class == sqldb.Full:
		return Refuse(http.StatusInsufficientStorage, "%s", sqldb.Public(err))
	case class != sqldb.Fault:
		return unavailable(sqldb.RetryAfter, sqldb.Public(err))
	case httplimit.Stopping(ctx):
		return unavailable(httplimit.RetryAfter, httplimit.ErrStopping.Error())
	}
	return nil
}

func unavailable(retryAfter, text string) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Text: text, RetryAfter: retryAfter}
}

// BodyRefused returns the answer to a request whose body could not be read. If there is no memory for
// the body, the rest stays unread.
func BodyRefused(ctx context.Context, err error) *Refusal {
	tooLarge := new(http.MaxBytesError)
	switch {
	case errors.As(err, &tooLarge):
		return Refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, httplimit.ErrMemory):
		refusal := shortage(ctx, err)
		refusal.Close = true
		return refusal
	case errors.Is(err, httplimit.ErrSlowBody):
		return Refuse(http.StatusRequestTimeout, "%s", err)
	}
	return Refuse(http.StatusBadRequest, "the body could not be read: %s", err)
}

package httpanswer

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// Fail answers an error: a Refusal as it is, a shortage by when to try again.
// Anything else is the deployment's own failure, of which the log has more.
func (f Form) Fail(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	refusal := new(Refusal)
	if !errors.As(err, &refusal) {
		refusal = shortage(r.Context(), err)
	}
	switch {
	case refusal != nil:
	case r.Context().Err() != nil: // nobody is there to read
		refusal = Refuse(http.StatusServiceUnavailable, "the request was withdrawn")
	default:
		log.ErrorContext(r.Context(), "a request failed", "path", r.URL.Path, "error", err, "request", SetRequestID(w.Header()))
		refusal = f.Internal(w.Header())
	}
	f.Refuse(w, refusal)
}

// Internal says that the deployment failed, and under which id its log has more.
func (f Form) Internal(h http.Header) *Refusal {
	const text = "the deployment failed to answer: its log says why"
	if f == Error {
		return Refuse(http.StatusInternalServerError, text)
	}
	return Refuse(http.StatusInternalServerError, text+", under the request id %s", SetRequestID(h))
}

// shortage is the refusal for an error that is neither the client's fault nor a
// defect: no memory is left for a body, the disk is full, the database does not
// answer, or the deployment stops, which ctx, that of the request, tells. It is
// nil for any other error.
func shortage(ctx context.Context, err error) *Refusal {
	outage := engine.OutageOf(err)
	switch {
	case errors.Is(err, httplimit.ErrMemory):
		return tryAgain(httplimit.RetryAfter, err.Error())
	case outage != nil && outage.Full:
		return Refuse(http.StatusInsufficientStorage, "%s", outage.Public)
	case outage != nil:
		return tryAgain(engine.RetryAfter, outage.Public)
	case httplimit.Stopping(ctx):
		return tryAgain(httplimit.RetryAfter, httplimit.ErrStopping.Error())
	}
	return nil
}

func tryAgain(after, text string) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Text: text, RetryAfter: after}
}

// BodyRefused is the refusal of a request whose body could not be read: what is
// left of it is not read either where there is no memory for it.
func BodyRefused(ctx context.Context, err error) *Refusal {
	large := new(http.MaxBytesError)
	switch {
	case errors.As(err, &large):
		return Refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", large.Limit)
	case errors.Is(err, httplimit.ErrMemory):
		refusal := shortage(ctx, err)
		refusal.Close = true
		return refusal
	case errors.Is(err, httplimit.ErrSlowBody):
		return Refuse(http.StatusRequestTimeout, "%s", err)
	}
	return Refuse(http.StatusBadRequest, "the body could not be read: %s", err)
}

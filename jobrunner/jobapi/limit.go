package jobapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/limits"
)

// admit admits a request until done is called, or rejects it with 429 and the time to retry (service
// description, Limits; field notes, 429). It must be called before the body is read.
func (a *api) admit(ctx context.Context, user apikey.Identity, op *operation, t target, e Endpoint) (done func(), err error) {
	if a.NoLimits {
		return func() {}, nil
	}
	if limits.Table[op.limit].Queues {
		if waiting := a.Engine.Counts(t.endpoint).InQueue; limits.QueueFull(waiting, e.WorkersMax) {
			return nil, rateLimited(time.Second, "the queue of this endpoint is full: %d jobs wait for at most %d workers", waiting, e.WorkersMax)
		}
	}
	done, err = a.Limiter.Admit(ctx, limits.Key{User: user.Owner, Endpoint: t.endpoint, Operation: op.limit},
		func() int { return a.Running(t.endpoint) })
	if exceeded, ok := errors.AsType[*limits.Exceeded](err); ok {
		err = rateLimited(exceeded.RetryAfter, "%s", exceeded)
	}
	return done, err
}

// rateLimited returns an error with the time to retry, in whole seconds.
func rateLimited(after time.Duration, format string, args ...any) error {
	seconds := max(1, int64((after+time.Second-1)/time.Second))
	refusal := httpanswer.Refuse(http.StatusTooManyRequests, format, args...)
	refusal.RetryAfter = strconv.FormatInt(seconds, 10)
	return refusal
}

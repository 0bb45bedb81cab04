// Package webhook calls the URLs of job submissions when their jobs end (sources: service
// description, Events; field notes, webhook). The engine stores the due calls, so they
// survive the end of the process. The outcome of a call never changes the job.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

const (
	maxTries   = 3                // of one job
	retryPause = 10 * time.Second // from the end of a call to the next
	timeout    = 10 * time.Second // of a call

	// claimTimeout is the time after which a call is due again if its process died.
	claimTimeout = timeout + 5*time.Second

	recheck    = time.Hour   // finds the calls of processes that died
	errorDelay = time.Second // before the next check after an error of the engine

	// callMemory is the memory of a call with the largest input and output, 20 MiB each, and their copy.
	callMemory = 4 * 20 << 20
)

// Queue is the part of the engine that a Sender uses.
type Queue interface {
	Calls() <-chan struct{} // signals that a call may be due
	CallQueues(busy []engine.OwnerHost) []engine.CallQueue
	ClaimCall(ctx context.Context, q engine.CallQueue, busy []engine.OwnerHost, claim time.Duration) (*engine.Call, error)
	RecordCall(c *engine.Call, next time.Time)
}

type Config struct {
	Queue  Queue
	Clock  *clock.Clock
	Policy Policy
	Memory *httplimit.Memory // of the calls in flight
	Logger *slog.Logger
	// Transport makes the calls. If it is nil, Start uses the transport of the policy.
	Transport http.RoundTripper
	// Observe, unless nil, gets the outcome of each call. If last is true, the call isn't repeated even if it failed.
	Observe func(err error, last bool)
}

type Sender struct {
	Config
	client    *http.Client
	stop      context.CancelFunc
	work      sync.WaitGroup
	ended     chan struct{} // signals that a call has ended
	scheduler scheduler
}

// Start makes calls until Close.
func Start(c Config) *Sender {
	if c.Transport == nil {
		c.Transport = c.Policy.transport()
	}
	s := &Sender{Config: c, ended: make(chan struct{}, 1), scheduler: scheduler{
		open: map[lane]int{}, hosts: map[engine.OwnerHost]int{}, slow: map[lane]bool{},
		ownerTurns: map[string]int{}, laneTurns: map[lane]int{},
	}}
	s.client = &http.Client{
		Transport:     c.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.work.Go(func() { s.run(ctx) })
	return s
}

// Close cancels the calls in flight. The next Sender makes them again.
func (s *Sender) Close() {
	s.stop()
	s.work.Wait()
	s.client.CloseIdleConnections()
}

func (s *Sender) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := s.startDue(ctx)
		timer := s.Clock.NewTimer(wait)
		select {
		case <-s.Queue.Calls():
		case <-s.ended:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// startDue starts the due calls within the limits, and returns the time until the next check.
func (s *Sender) startDue(ctx context.Context) time.Duration {
	for {
		progress, next, err := s.startSome(ctx)
		switch {
		case err != nil:
			if ctx.Err() == nil && !sqldb.Temporary(err) {
				s.Logger.Error("finding the due webhook calls failed", "error", err)
			}
			return errorDelay
		case progress: // a queue may have another due call
		case next.IsZero():
			return recheck
		default:
			return min(recheck, next.Sub(s.Clock.Now()))
		}
	}
}

// startSome starts at most one call of each queue. It reports progress if this or another process
// claimed a call. Otherwise next is the time of the next due call.
func (s *Sender) startSome(ctx context.Context) (progress bool, next time.Time, err error) {
	busy := s.scheduler.busyHosts()
	queues := s.Queue.CallQueues(busy)
	s.scheduler.prune(queues)
	for !slices.ContainsFunc(s.scheduler.busyHosts(), func(h engine.OwnerHost) bool { return !slices.Contains(busy, h) }) { // a host that became busy isn't left out of queues
		i, due := s.scheduler.choose(queues, s.Clock.Now())
		if i < 0 {
			return progress, due, nil
		}
		// The size of a call is known only after its claim. Until then it reserves the maximum, or half of a smaller
		// budget, so that other calls can be in flight.
		memory, err := s.Memory.ReserveWhenFree(ctx, min(callMemory, s.Memory.Limit()/2))
		if err != nil {
			return progress, time.Time{}, err
		}
		call, err := s.Queue.ClaimCall(ctx, queues[i], busy, claimTimeout)
		if call == nil || err != nil {
			memory.Release()
		}
		if err != nil {
			return progress, time.Time{}, err
		}
		progress, queues = true, slices.Delete(queues, i, i+1)
		if call == nil {
			continue
		}
		memory.Shrink(2 * int64(len(call.Input)+len(call.Job.Output)))
		s.scheduler.begin(call)
		s.work.Go(func() {
			defer memory.Release()
			s.call(ctx, call)
		})
	}
	return true, time.Time{}, nil
}

func (s *Sender) call(ctx context.Context, c *engine.Call) {
	// A clock that is advanced must wait for the call, because retryPause begins at its end.
	defer s.Clock.BeginWork()()
	defer func() {
		s.scheduler.end(c)
		notify.Signal(s.ended)
	}()
	start := time.Now()
	err := s.post(ctx, c)
	if err != nil && ctx.Err() != nil {
		return
	}
	netErr, ok := errors.AsType[net.Error](err)
	// A response whose body doesn't end counts as delivered, but it holds the call for as long as a hanging receiver.
	s.scheduler.recordSpeed(c, ok && netErr.Timeout() || time.Since(start) >= timeout)
	var next time.Time
	_, isForbidden := errors.AsType[*ForbiddenError](err)
	last := c.Tries+1 >= maxTries || isForbidden
	if err != nil && !last {
		next = s.Clock.Now().Add(retryPause)
	}
	if s.Observe != nil {
		s.Observe(err, last)
	}
	log := s.Logger.With("endpoint", c.Job.Endpoint, "job", c.Job.ID, "host", c.Host)
	switch {
	case err != nil && last:
		log.Warn("a webhook could not be delivered", "calls", c.Tries+1, "error", err)
	case err != nil:
		log.Info("a webhook call failed and will be repeated", "calls", c.Tries+1, "error", err)
	}
	s.Queue.RecordCall(c, next)
}

// notInRequestLine matches characters that net/url accepts in a query, but that a request line can't have.
var notInRequestLine = regexp.MustCompile("[^!-~]")

// post sends a call, and fails unless the response is 200. Errors omit the URL, which may have a secret.
func (s *Sender) post(ctx context.Context, c *engine.Call) error {
	u, err := url.Parse(c.URL)
	if err != nil {
		return errors.New("invalid webhook URL")
	}
	if err := s.Policy.Check(u); err != nil {
		return err
	}
	// The timeout is real time, because the receiver doesn't follow the deployment's clock.
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u.RawQuery = notInRequestLine.ReplaceAllStringFunc(u.RawQuery, url.PathEscape)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body(c)))
	if err != nil {
		return errors.New("invalid webhook URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "gpucloud-jobrunner")
	resp, err := s.client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if err != nil {
		return err
	}
	// Read a short body, so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, resp.Body, 16<<10)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the receiver answered %d, not 200", resp.StatusCode)
	}
	return nil
}

// body returns the job's status object with the members input and webhook (field notes).
func body(c *engine.Call) []byte {
	b := make([]byte, 0, 512+len(c.Input)+len(c.Job.Output))
	b = c.Job.AppendJSON(b)
	b = append(b[:len(b)-1], `,"input":`...)
	b = append(b, c.Input...)
	b = append(b, `,"webhook":`...)
	text, _ := json.Marshal(c.URL) // never fails for a string
	return append(append(b, text...), '}')
}

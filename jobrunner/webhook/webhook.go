// Package webhook calls the URLs that job submissions name, when their jobs
// are over (service description, Events; field notes, webhook). What is to be
// called is the engine's to know: nothing is lost when the process ends. How a
// call goes never changes the job.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/fault"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

var (
	tries = fault.Value("webhook.tries", 3)            // of one job
	gap   = fault.Value("webhook.gap", 10*time.Second) // from the end of a call to the next
)

const (
	timeout = 10 * time.Second // of a call

	// Until a call is due again whose process died.
	claim = timeout + 5*time.Second

	maxCalls       = 32 // at a time
	maxPerHost     = 4  // likewise
	maxPerEndpoint = 8  // likewise
	// maxSlow is how many of them are of endpoints whose receivers did not answer
	// in time: these wait for each other, and not others for them.
	maxSlow = maxCalls / 2

	recheck = time.Hour   // for what another process ordered before it died
	retake  = time.Second // after an error of the engine
)

// Queue is what a Sender needs of the engine.
type Queue interface {
	Calls() <-chan struct{}
	NextCall(ctx context.Context, busy engine.Busy, claim time.Duration) (*engine.Call, time.Time, error)
	Called(ctx context.Context, c *engine.Call, again time.Time) error
}

// Config is what a Sender stands on.
type Config struct {
	Queue  Queue
	Clock  *clock.Clock
	Policy Policy
	Logger *slog.Logger
	// Transport makes the calls; nil is the network, where the policy counts.
	Transport http.RoundTripper
	// Observe is told how each call went, and whether it was the last one of its
	// job; nil: nobody is.
	Observe func(err error, last bool)
}

// Sender makes the calls that are due.
type Sender struct {
	Config
	client *http.Client
	stop   context.CancelFunc
	work   sync.WaitGroup
	ended  chan struct{} // hints that a call is over

	mu        sync.Mutex
	calls     int
	hosts     map[string]int  // calls at each
	endpoints map[string]int  // and of each
	slow      map[string]bool // endpoints whose last call was not answered in time
}

// Start makes calls until Close.
func Start(c Config) *Sender {
	if c.Transport == nil {
		c.Transport = c.Policy.transport()
	}
	s := &Sender{Config: c, ended: make(chan struct{}, 1), hosts: map[string]int{}, endpoints: map[string]int{}, slow: map[string]bool{}}
	s.client = &http.Client{
		Transport:     c.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.work.Go(func() { s.run(ctx) })
	return s
}

// Close breaks off the calls under way, which are made again by the next
// Sender.
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

// startDue starts the calls that are due, as far as there is room, and says
// when to look again.
func (s *Sender) startDue(ctx context.Context) time.Duration {
	for {
		busy, room := s.load()
		if !room {
			return recheck
		}
		call, next, err := s.Queue.NextCall(ctx, busy, claim)
		switch {
		case err != nil:
			if ctx.Err() == nil && !sqldb.Temporary(err) {
				s.Logger.Error("looking for webhooks to call", "error", err)
			}
			return retake
		case call != nil:
			s.count(call, 1)
			s.work.Go(func() { s.call(ctx, call) })
		case next.IsZero():
			return recheck
		default:
			return min(recheck, next.Sub(s.Clock.Now()))
		}
	}
}

func (s *Sender) load() (busy engine.Busy, room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for host, n := range s.hosts {
		if n >= maxPerHost {
			busy.Hosts = append(busy.Hosts, host)
		}
	}
	slow := 0
	for endpoint := range s.slow {
		slow += s.endpoints[endpoint]
	}
	for endpoint, n := range s.endpoints {
		if n >= maxPerEndpoint && !s.slow[endpoint] {
			busy.Endpoints = append(busy.Endpoints, endpoint)
		}
	}
	for endpoint := range s.slow {
		if slow >= maxSlow || s.endpoints[endpoint] >= maxPerEndpoint {
			busy.Endpoints = append(busy.Endpoints, endpoint)
		}
	}
	return busy, s.calls < maxCalls
}

func (s *Sender) count(c *engine.Call, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls += n
	if s.hosts[c.Host] += n; s.hosts[c.Host] == 0 {
		delete(s.hosts, c.Host)
	}
	if s.endpoints[c.Job.Endpoint] += n; s.endpoints[c.Job.Endpoint] == 0 {
		delete(s.endpoints, c.Job.Endpoint)
	}
}

// maxKnownSlow bounds the endpoints that are remembered as slow; beyond it all
// are forgotten.
const maxKnownSlow = 1000

// note remembers whether an endpoint's receiver answered in time.
func (s *Sender) note(endpoint string, inTime bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if inTime {
		delete(s.slow, endpoint)
		return
	}
	if len(s.slow) >= maxKnownSlow {
		clear(s.slow)
	}
	s.slow[endpoint] = true
}

// call makes one call and notes how it went.
func (s *Sender) call(ctx context.Context, c *engine.Call) {
	// The gap begins at the end of the call, also on a clock that is advanced.
	defer s.Clock.Work()()
	defer func() {
		s.count(c, -1)
		select {
		case s.ended <- struct{}{}:
		default:
		}
	}()
	err := s.post(ctx, c)
	if ctx.Err() != nil {
		return
	}
	var late interface{ Timeout() bool }
	s.note(c.Job.Endpoint, err == nil || !errors.As(err, &late) || !late.Timeout())
	var again time.Time
	var forbidden *ForbiddenError
	last := c.Attempt+1 >= tries || errors.As(err, &forbidden)
	if (err != nil || fault.On("webhook-again")) && !last {
		again = s.Clock.Now().Add(gap)
		if fault.On("webhook-gap-doubles") && c.Attempt == 1 {
			again = again.Add(gap)
		}
	}
	if s.Observe != nil {
		s.Observe(err, last)
	}
	log := s.Logger.With("endpoint", c.Job.Endpoint, "job", c.Job.ID, "host", c.Host)
	switch {
	case err != nil && last:
		log.Warn("a webhook could not be delivered", "calls", c.Attempt+1, "error", err)
	case err != nil:
		log.Info("a webhook is called again", "calls", c.Attempt+1, "error", err)
	}
	if err := s.Queue.Called(ctx, c, again); err != nil && ctx.Err() == nil {
		log.Error("the outcome of a webhook could not be kept; it is called again", "error", err)
	}
}

// post answers nil where the receiver answered 200. An error names no URL,
// which may have a secret in it.
func (s *Sender) post(ctx context.Context, c *engine.Call) error {
	u, err := url.Parse(c.URL)
	if err != nil {
		return errors.New("its URL is none")
	}
	if err := s.Policy.Check(u); err != nil {
		return err
	}
	// The receiver lives in real time, whatever the deployment's clock says.
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(fault.Data("webhook.body", body(c))))
	if err != nil {
		return errors.New("its URL is none")
	}
	if fault.On("webhook-get") {
		req.Method, req.Body, req.ContentLength = http.MethodGet, nil, 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "gpucloud-jobrunner")
	resp, err := s.client.Do(req)
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if err != nil {
		return err
	}
	// A little is read, so that the connection can be used again.
	_, _ = io.CopyN(io.Discard, resp.Body, 16<<10)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the receiver answered %d, not 200", resp.StatusCode)
	}
	return nil
}

// body is the status object with the input and the webhook (field notes).
func body(c *engine.Call) []byte {
	b := make([]byte, 0, 512+len(c.Input)+len(c.Job.Output))
	b = c.Job.AppendJSON(b)
	b = append(b[:len(b)-1], `,"input":`...)
	b = append(b, c.Input...)
	b = append(b, `,"webhook":`...)
	text, _ := json.Marshal(c.URL) // a string always can be
	return append(append(b, text...), '}')
}

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// waitingRequests counts the requests to a load-balancing endpoint that wait for a ready worker, and wakes
// them. It calls no other code while it holds its lock.
type waitingRequests struct {
	mu    sync.Mutex
	count int
	ready chan struct{} // closed when a worker may be ready
}

func (r *waitingRequests) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count += n
}

func (r *waitingRequests) state() (count int, ready <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count, r.ready
}

// wake makes the waiting requests look for a worker again.
func (r *waitingRequests) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.ready)
	r.ready = make(chan struct{})
}

// Balanced reports whether an endpoint's workers serve HTTP behind a load balancer.
func (p *Pools) Balanced(endpoint string) bool {
	pool := p.pool(endpoint)
	return pool != nil && pool.settings().Balanced
}

// Pick returns the address, host:port, of the ready worker with the fewest open requests, and counts a
// request for it until done is called. It waits for a worker until ctx ends, and then returns the
// error of ctx. It returns ErrNoWorker if the endpoint has no pool, or as soon as the pool has ended.
func (p *Pools) Pick(ctx context.Context, endpoint string) (address string, done func(), err error) {
	pool := p.pool(endpoint)
	if pool == nil {
		return "", nil, ErrNoWorker
	}
	for {
		_, ready := pool.waiting.state() // read before the workers, so that no change is missed
		if address, done := pool.assignRequest(); done != nil {
			return address, done, nil
		}
		pool.waiting.add(1)
		pool.poke()
		select {
		case <-ready:
		case <-pool.done:
			err = ErrNoWorker
		case <-ctx.Done():
			err = ctx.Err()
		}
		pool.waiting.add(-1)
		if err != nil {
			pool.poke()
			return "", nil, err
		}
	}
}

// assignRequest gives a request to the ready worker with the fewest open requests. If none is ready, done is nil.
func (p *pool) assignRequest() (address string, done func()) {
	p.mu.Lock() // one request at a time: the next request sees this request in the load
	defer p.mu.Unlock()
	var idlest *worker
	fewest := 0
	for w := range p.workers {
		if v := w.view(); v.ready && (idlest == nil || v.jobs < fewest) {
			idlest, fewest = w, v.jobs
		}
	}
	if idlest == nil {
		return "", nil
	}
	return idlest.assignRequest()
}

// assignRequest counts a request as a job of the worker. done is nil if the worker takes no more requests.
func (w *worker) assignRequest() (address string, done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isReady() {
		return "", nil
	}
	h := w.add(engine.Ref{Endpoint: w.pool.id, ID: uuid.NewString()})
	w.apply(jobTaken)
	w.jobsChanged()
	return w.address, func() { w.drop(h) }
}

// healthPathVariable has the path of a worker's health check (v2 document, EndpointType).
const healthPathVariable = "HEALTH_CHECK_PATH"

// probe checks a worker's health until ctx ends: status 200 means ready, any other not yet. It
// kills a worker that was ready and then fails maxMissedProbes times in a row. It also kills a
// worker that isn't ready yet if its address can't be reached.
func (w *worker) probe(ctx context.Context, address string) {
	path := cmp.Or(w.settings.Env[healthPathVariable], "/ping")
	url := "http://" + address + "/" + strings.TrimPrefix(path, "/")
	client := &http.Client{
		Timeout:       probeTimeout, // real time, because a process answers it
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	unreachableSince := time.Time{}
	start, reportedKind := w.pool.clock.Now(), "" // reportedKind is the kind of the last answer that noteUnready reported
	for ready, missed := false, 0; ; {
		answer, reached := checkHealth(ctx, client, url)
		switch {
		case reached || ready || strings.HasPrefix(address, run.PublishIP+":"): // nothing blocks this machine's own address
			unreachableSince = time.Time{}
		case unreachableSince.IsZero():
			unreachableSince = w.pool.clock.Now()
		case w.pool.clock.Now().Sub(unreachableSince) >= maxUnreachable:
			w.killUnhealthy(fmt.Sprintf("the jobrunner's machine can't reach it at %s: %s", address, answer))
			return
		}
		switch {
		case answer == "200":
			missed = 0
			if !ready {
				ready = true
				w.noteServing(address)
			}
		case !ready:
			kind := answer
			if _, err := strconv.Atoi(answer); err != nil { // an error, in which the client's port number differs each time
				kind = signature(answer)
			}
			if kind != reportedKind && w.pool.clock.Now().Sub(start) >= unreadyAfter {
				reportedKind = kind
				w.noteUnready(fmt.Sprintf("it takes no requests yet: GET %s at its PORT has to answer 200, and got %s", path, answer))
			}
		default:
			if missed++; missed == maxMissedProbes {
				w.killUnhealthy(fmt.Sprintf("its health check at %s failed %d times: %s", path, missed, answer))
				return
			}
		}
		wait := probeEvery
		if !ready {
			wait = probeUnready
		}
		if w.pool.clock.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// checkHealth returns the status of a health check, or the error, and whether the worker's address
// could be reached. A refused connection counts as reached.
func checkHealth(ctx context.Context, client *http.Client, url string) (answer string, reached bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error(), true
	}
	response, err := client.Do(r)
	netErr, ok := errors.AsType[*net.OpError](err)
	switch {
	case ok && netErr.Op == "dial":
		return err.Error(), errors.Is(err, syscall.ECONNREFUSED)
	case err != nil:
		return err.Error(), true
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // only the status counts
	return strconv.Itoa(response.StatusCode), true
}

func (w *worker) noteServing(address string) {
	w.mu.Lock()
	w.address = address
	w.apply(jobRequested) // Idle from now on
	w.mu.Unlock()
	w.pool.backoff.recordServing(w.settings.Version)
	w.pool.waiting.wake()
}

func (w *worker) killUnhealthy(reason string) {
	w.fail(reason)
	w.pool.logger.Warn("a worker is killed: it is not healthy", "endpoint", w.pool.id, "worker", w.id, "reason", reason)
	w.noteKill(reason)
	w.kill()
}

const (
	probeUnready    = 100 * time.Millisecond // interval until the worker is ready
	probeEvery      = 2 * time.Second
	probeTimeout    = 2 * time.Second
	dialTimeout     = probeTimeout / 2 // shorter, to tell unreachable workers from slow ones
	maxMissedProbes = 3
	// unreadyAfter is how long a worker may take to start before the log says why it isn't ready.
	unreadyAfter = 10 * time.Second
	// maxUnreachable is how long a new worker's address may be unreachable.
	maxUnreachable = 30 * time.Second
	// maxDrain is how long a worker that drains may take for its open requests.
	maxDrain = 5*time.Minute + 30*time.Second
)

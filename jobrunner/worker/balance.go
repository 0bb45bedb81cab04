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

// balance is what an endpoint behind a load balancer has in place of a queue. It
// locks itself, and calls nobody.
type balance struct {
	mu      sync.Mutex
	waiting int           // requests that no worker is ready for
	ready   chan struct{} // closed when a worker may be
}

// wait counts a request that waits for a worker, or that does so no more.
func (b *balance) wait(more int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting += more
}

func (b *balance) state() (waiting int, ready <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting, b.ready
}

// wakeWaiting has the requests that wait look for a worker again.
func (b *balance) wakeWaiting() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ready)
	b.ready = make(chan struct{})
}

// Balanced tells whether an endpoint's workers serve HTTP behind a load
// balancer.
func (p *Pools) Balanced(endpoint string) bool {
	one := p.pool(endpoint)
	return one != nil && one.settings().Balanced
}

// Pick returns the address of the ready worker with the fewest open requests,
// host:port, and counts one more for it until done is called. It waits for a
// worker until ctx ends, whose error it then answers.
func (p *Pools) Pick(ctx context.Context, endpoint string) (address string, done func(), err error) {
	one := p.pool(endpoint)
	if one == nil {
		return "", nil, ErrNoWorker
	}
	for {
		_, ready := one.balance.state() // before the look at the workers: none is missed
		if address, done := one.open(); done != nil {
			return address, done, nil
		}
		one.balance.wait(1)
		one.poke()
		select {
		case <-ready:
		case <-ctx.Done():
			err = ctx.Err()
		}
		one.balance.wait(-1)
		if err != nil {
			one.poke()
			return "", nil, err
		}
	}
}

// open counts a request for the ready worker with the fewest; done is nil where
// none is ready.
func (p *pool) open() (address string, done func()) {
	p.mu.Lock() // one request at a time: the next one counts this one
	defer p.mu.Unlock()
	var least *worker
	fewest := 0
	for w := range p.workers {
		if v := w.now(); v.ready && (least == nil || v.jobs < fewest) {
			least, fewest = w, v.jobs
		}
	}
	if least == nil {
		return "", nil
	}
	return least.open()
}

// open counts a request, as a job that the worker holds; done is nil where it
// takes none any more.
func (w *worker) open() (address string, done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isReady() {
		return "", nil
	}
	h := w.add(engine.Ref{Endpoint: w.pool.id, ID: uuid.NewString()})
	w.apply(took)
	w.jobsChanged()
	return w.address, func() { w.drop(h) }
}

// requests is the load of an endpoint behind a load balancer.
func (p *pool) requests() (load engine.Load) {
	load.Waiting, _ = p.balance.state()
	p.find(func(w *worker) bool { load.Running += w.now().jobs; return false })
	return load
}

// healthPath is where a worker says how it is (v2 document, EndpointType).
const healthPath = "HEALTH_CHECK_PATH"

// loopback is where processes of this machine listen.
const loopback = "127.0.0.1"

// addressOf returns host:port of a process that serves HTTP.
func addressOf(process run.Process, port int) string {
	return net.JoinHostPort(cmp.Or(process.Address(), loopback), strconv.Itoa(port))
}

// probe asks a worker for its health until ctx ends: 200 is ready, 204 is not
// yet, anything else is neither. A worker that was ready and then is not for
// several times is killed, and so is one whose address can't be reached.
func (w *worker) probe(ctx context.Context, address string) {
	path := w.settings.Env[healthPath]
	if path == "" {
		path = "/ping"
	}
	url := "http://" + address + "/" + strings.TrimPrefix(path, "/")
	client := &http.Client{
		Timeout:       probeTimeout, // of a process, which lives in real time
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	unreachable := time.Time{} // since then
	begun, told := w.pool.clock.Now(), ""
	for ready, missed := false, 0; ; {
		answer, reached := ask(ctx, client, url)
		switch {
		case reached || ready || strings.HasPrefix(address, loopback+":"):
			unreachable = time.Time{}
		case unreachable.IsZero():
			unreachable = w.pool.clock.Now()
		case w.pool.clock.Now().Sub(unreachable) >= unreachableMost:
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
			if _, err := strconv.Atoi(answer); err != nil { // no status, but an error, which may name ports
				kind = signature(answer)
			}
			if kind != told && w.pool.clock.Now().Sub(begun) >= unreadyAfter {
				told = kind
				w.noteUnready(fmt.Sprintf("it takes no requests yet: GET %s at its PORT has to answer 200, and got %s", path, answer))
			}
		default:
			if missed++; missed == probesMissed {
				w.killUnhealthy(fmt.Sprintf("its health check at %s failed %d times: %s", path, missed, answer))
				return
			}
		}
		wait := probeEvery
		if !ready {
			wait = probeFirst
		}
		if w.pool.clock.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// ask returns the status of a health check, or why there is none, and whether the
// worker's address was reached: where a connection is refused, it was.
func ask(ctx context.Context, client *http.Client, url string) (answer string, reached bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error(), true
	}
	response, err := client.Do(r)
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return err.Error(), errors.Is(err, syscall.ECONNREFUSED)
	case err != nil:
		return err.Error(), true
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // what it says does not matter
	return strconv.Itoa(response.StatusCode), true
}

// noteServing notes that the worker takes requests.
func (w *worker) noteServing(address string) {
	w.mu.Lock()
	w.address = address
	w.apply(asked)
	w.mu.Unlock()
	w.pool.backoff.serving(w.settings.Version)
	w.pool.balance.wakeWaiting()
}

// killUnhealthy notes that the worker does not work any more, and has it killed.
func (w *worker) killUnhealthy(reason string) {
	w.fail(reason)
	w.pool.logger.Warn("a worker is killed: it is not healthy", "endpoint", w.pool.id, "worker", w.id, "reason", reason)
	w.noteKill(reason)
	w.kill()
}

// How a worker behind a load balancer is looked at.
const (
	probeFirst   = 100 * time.Millisecond // until it is ready
	probeEvery   = 2 * time.Second
	probeTimeout = 2 * time.Second
	dialTimeout  = probeTimeout / 2 // so that one that is not reached is told from one that is slow
	probesMissed = 3
	// unreadyAfter is how long a worker may start until it is said why it is not ready.
	unreadyAfter = 10 * time.Second
	// unreachableMost is how long a new worker's address may not be reached.
	unreachableMost = 30 * time.Second
	// longestDrain is how long a worker that is to leave may take for the requests
	// that it has.
	longestDrain = 5*time.Minute + 30*time.Second
)

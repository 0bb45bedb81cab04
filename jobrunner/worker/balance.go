package worker

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// balance is what an endpoint behind a load balancer has in place of a queue.
// It is guarded by pool.mu.
type balance struct {
	waiting int           // requests that no worker is ready for
	readied chan struct{} // closed when a worker may be
}

// Balanced tells whether an endpoint's workers serve HTTP behind a load
// balancer.
func (p *Pools) Balanced(endpoint string) bool {
	one := p.of(endpoint)
	return one != nil && one.current().Balanced
}

// Pick answers the address of the ready worker with the fewest open requests,
// host:port, and counts one more for it until done is called. It waits for a
// worker until ctx ends, whose error it then answers.
func (p *Pools) Pick(ctx context.Context, endpoint string) (address string, done func(), err error) {
	one := p.of(endpoint)
	if one == nil {
		return "", nil, ErrNoWorker
	}
	for {
		one.mu.Lock()
		if w := one.fewest(); w != nil {
			defer one.mu.Unlock()
			return w.address, w.open(), nil
		}
		one.waiting++
		readied := one.readied
		one.mu.Unlock()
		one.poke()
		select {
		case <-readied:
		case <-ctx.Done():
			err = ctx.Err()
		}
		one.mu.Lock()
		one.waiting--
		one.mu.Unlock()
		if err != nil {
			one.poke()
			return "", nil, err
		}
	}
}

// fewest is the ready worker with the fewest open requests, nil for none. The
// pool is locked.
func (p *pool) fewest() (least *worker) {
	for w := range p.workers {
		if w.stays() && (w.state == Idle || w.state == Running) && (least == nil || len(w.hands) < len(least.hands)) {
			least = w
		}
	}
	return least
}

// open counts a request, as a job in the worker's hands. The pool is locked.
func (w *worker) open() (done func()) {
	h := &held{ref: engine.Ref{Endpoint: w.pool.id, ID: uuid.NewString()}, release: func() {}}
	w.hands[h.ref.ID] = h
	w.had = true
	w.on(took)
	w.handsChanged()
	return func() {
		w.pool.mu.Lock()
		defer w.pool.mu.Unlock()
		w.drop(h)
	}
}

// requests is the load of an endpoint behind a load balancer.
func (p *pool) requests() (load engine.Load) {
	p.mu.Lock()
	defer p.mu.Unlock()
	load.Waiting = p.waiting
	for w := range p.workers {
		load.Running += len(w.hands)
	}
	return load
}

// healthPath is where a worker says how it is (v2 document, EndpointType).
const healthPath = "HEALTH_CHECK_PATH"

// probe asks a worker for its health until ctx ends: 200 is ready, 204 is not
// yet, anything else is neither. A worker that was ready and then is not for
// several times is killed.
func (w *worker) probe(ctx context.Context, spec *Spec) {
	path := w.made.Env[healthPath]
	if path == "" {
		path = "/ping"
	}
	address := "127.0.0.1:" + strconv.Itoa(spec.Port)
	url := "http://" + address + "/" + strings.TrimPrefix(path, "/")
	client := &http.Client{
		Timeout:       probeTimeout, // of a process, which lives in real time
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for ready, missed := false, 0; ; {
		switch answer := ask(ctx, client, url); {
		case answer == "200":
			missed = 0
			if !ready {
				ready = true
				w.serves(address)
			}
		case !ready:
		default:
			if missed++; missed == probesMissed {
				w.unfit(fmt.Sprintf("its health check at %s failed %d times: %s", path, missed, answer))
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

// ask answers the status of a health check, or why there is none.
func ask(ctx context.Context, client *http.Client, url string) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	answer, err := client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // what it says does not matter
	return strconv.Itoa(answer.StatusCode)
}

// serves notes that the worker takes requests.
func (w *worker) serves(address string) {
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	w.address = address
	w.on(asked)
	w.pool.failures = 0
	close(w.pool.readied)
	w.pool.readied = make(chan struct{})
}

// unfit notes that the worker does not work any more, and has it killed.
func (w *worker) unfit(reason string) {
	w.pool.mu.Lock()
	w.on(failed)
	w.reason = reason
	w.pool.mu.Unlock()
	w.pool.logger.Warn("a worker is killed: it is not healthy", "endpoint", w.pool.id, "worker", w.id, "reason", reason)
	w.killedFor(reason)
	w.kill()
}

// How a worker behind a load balancer is looked at.
const (
	probeFirst   = 100 * time.Millisecond // until it is ready
	probeEvery   = 2 * time.Second
	probeTimeout = 2 * time.Second
	probesMissed = 3
	// longestDrain is how long a worker that is to leave may take for the requests
	// that it has.
	longestDrain = 5*time.Minute + 30*time.Second
)

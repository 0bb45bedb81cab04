package httpclient

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// throttle keeps a client's requests within the server's rate limits: a rejected request delays
// the others, and a request that the server would reject waits, unless that takes too long.
//
// A server announces its windows in RateLimit and RateLimit-Policy (v2 document:
// RateLimitHeader). The throttle obeys the windows only after the server has rejected a request
// because of one: a server may announce limits that it doesn't enforce.
type throttle struct {
	mu       sync.Mutex
	enforced bool      // the server has rejected a request because of a window
	waitEnd  time.Time // end of the wait that a rejection asked for
	windows  map[string]*window
	inFlight int
	changed  chan struct{} // closed when the next request ends
}

// window is one quota. Each request reduces the remaining quota, and each answer corrects it.
type window struct {
	remaining, quota int
	leastRemaining   int // lowest value that an answer of this window announced
	resetAt          time.Time
	length           time.Duration
}

// acquire waits until a request may be sent. If the wait would be too long or outlast the
// context, the request is sent at once, because the server's rejection has more details than
// ours.
func (t *throttle) acquire(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.mu.Lock()
		wait := t.wait(time.Now())
		if deadline, ok := ctx.Deadline(); wait <= 0 || wait > longestWait || ok && time.Until(deadline) < wait {
			for _, w := range t.windows {
				w.remaining--
			}
			t.inFlight++
			t.mu.Unlock()
			return nil
		}
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// wait returns how long no request may be sent.
func (t *throttle) wait(now time.Time) time.Duration {
	wait := t.waitEnd.Sub(now)
	for _, w := range t.windows {
		if !now.Before(w.resetAt) { // the next window begins with the next request
			w.remaining, w.leastRemaining, w.resetAt = w.quota, w.quota, now.Add(w.length)
		}
		if t.enforced && w.remaining <= 0 {
			wait = max(wait, w.resetAt.Sub(now))
		}
	}
	return wait
}

// release ends a request and reads the limits in its answer. resp is nil without an answer.
func (t *throttle) release(resp *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inFlight--
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
	if resp == nil {
		return
	}
	now, rejected := time.Now(), resp.StatusCode == http.StatusTooManyRequests
	if rejected {
		if delay, ok := retryAfter(resp); ok && delay <= longestWait && now.Add(delay).After(t.waitEnd) {
			t.waitEnd = now.Add(delay)
		}
	}
	quotas := rateMembers(resp.Header.Get("RateLimit-Policy"), "q", "w")
	for name, state := range rateMembers(resp.Header.Get("RateLimit"), "r", "t") {
		t.enforced = t.enforced || rejected && state[0] == 0
		if t.windows == nil {
			t.windows = map[string]*window{}
		}
		policy, ok := quotas[name] // quota and length; state is the remaining quota and the seconds until the reset
		if !ok {
			policy = [2]int{1 << 30, state[1]}
		}
		w := &window{
			leastRemaining: state[0], quota: max(policy[0], 1), // with 0, nothing would ever be sent again
			resetAt: now.Add(seconds(state[1])),
			length:  seconds(policy[1]),
		}
		// Answers may arrive out of order. Within a window the remaining quota only falls.
		if previous := t.windows[name]; previous != nil && w.resetAt.Sub(previous.resetAt) < 2*time.Second {
			w.leastRemaining = min(w.leastRemaining, previous.leastRemaining)
		}
		w.remaining = w.leastRemaining - t.inFlight // the server may not have counted requests in flight yet
		t.windows[name] = w
	}
}

// seconds converts an announced length, and caps it at a year.
func seconds(n int) time.Duration { return time.Duration(min(n, 366*24*60*60)) * time.Second }

// rateMember matches a member of a structured field, such as "minute";r=0;t=12.
var rateMember = regexp.MustCompile(`"([^"]*)"((?:;[a-z]+=[0-9]+)*)`)

var rateParameter = regexp.MustCompile(`;([a-z]+)=([0-9]+)`)

// rateMembers reads two parameters of each member of a structured field. It ignores members
// that lack one of them.
func rateMembers(field, first, second string) map[string][2]int {
	out := map[string][2]int{}
	for _, m := range rateMember.FindAllStringSubmatch(field, -1) {
		numbers := map[string]int{}
		for _, p := range rateParameter.FindAllStringSubmatch(m[2], -1) {
			if n, err := strconv.Atoi(p[2]); err == nil {
				numbers[p[1]] = n
			}
		}
		_, hasFirst := numbers[first]
		_, hasSecond := numbers[second]
		if hasFirst && hasSecond {
			out[m[1]] = [2]int{numbers[first], numbers[second]}
		}
	}
	return out
}

package worker

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// backoff keeps a pool from starting workers all the time that can't work. It
// locks itself, and calls nobody.
type backoff struct {
	mu       sync.Mutex
	failures int       // in a row
	retryAt  time.Time // when workers are started again; zero: now
	latest   string    // failure, until a worker is ready
	logged   []string  // the failures that the log has, as signatures
}

// fail notes that a worker could not work, and tells whether the log reconcileJobs that.
// A stale worker delays none of the next version. Workers that fail together
// count once.
func (b *backoff) fail(failure string, stale bool, now time.Time) (isNew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if same := signature(failure); !slices.Contains(b.logged, same) {
		isNew = true
		b.logged = append(b.logged, same)
		b.logged = b.logged[max(0, len(b.logged)-maxLogged):]
	}
	if stale {
		return isNew
	}
	b.latest = failure
	if !b.retryAt.IsZero() {
		return isNew
	}
	pause := lastRetry
	if b.failures < 10 {
		pause = min(firstRetry<<b.failures, lastRetry)
	}
	b.failures++
	b.retryAt = now.Add(pause)
	return isNew
}

// pause is how long no worker is started yet. One that is over is forgotten.
func (b *backoff) pause(now time.Time) (left time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left = b.retryAt.Sub(now); !b.retryAt.IsZero() && left > 0 {
		return left
	}
	b.retryAt = time.Time{}
	return 0
}

// ready notes that a worker asks for jobs.
func (b *backoff) ready() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest = ""
}

// serving notes that a worker takes requests.
func (b *backoff) serving() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
}

// jobDone notes that a worker did a job.
func (b *backoff) jobDone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.logged, b.latest = 0, nil, ""
}

// renew gives a new version of the endpoint a fresh start.
func (b *backoff) renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.logged, b.latest, b.retryAt = 0, nil, "", time.Time{}
}

// failure is the latest one, "" once a worker was ready after it.
func (b *backoff) failure() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latest
}

// signature is the same for failures that differ in an address, a time, an id or
// a count alone. An exit status is none of these.
func signature(failure string) string {
	return varyingWord.ReplaceAllStringFunc(failure, func(word string) string {
		if strings.HasPrefix(word, "exit status ") {
			return word
		}
		return "#"
	})
}

// varyingWord are words with a digit in them.
var varyingWord = regexp.MustCompile(`exit status \d+|[\w.:+-]*\d[\w.:+-]*`)

// maxLogged bounds the failures that are remembered as logged.
const maxLogged = 20

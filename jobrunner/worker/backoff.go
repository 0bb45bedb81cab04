package worker

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// backoff delays the start of workers after failures. It ignores reports from workers of other
// versions of the endpoint. It is safe for concurrent use.
type backoff struct {
	mu               sync.Mutex
	version          int64     // of the endpoint
	failures         int       // in a row
	retryAt          time.Time // when workers may start again; zero means now
	latestFailure    string    // until a worker is ready
	loggedSignatures []string  // of failures
}

// recordFailure records a failure, and reports whether to log it. A failure during a pause doesn't lengthen the pause.
func (b *backoff) recordFailure(version int64, failure string, now time.Time) (isNew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if version != b.version {
		return false
	}
	if s := signature(failure); !slices.Contains(b.loggedSignatures, s) {
		isNew = true
		b.loggedSignatures = append(b.loggedSignatures, s)
		b.loggedSignatures = b.loggedSignatures[max(0, len(b.loggedSignatures)-maxLoggedSignatures):]
	}
	b.latestFailure = failure
	if !b.retryAt.IsZero() {
		return isNew
	}
	b.retryAt = now.Add(min(minRetryPause<<min(b.failures, 10), maxRetryPause))
	b.failures++
	return isNew
}

// pause returns the time until workers may start again.
func (b *backoff) pause(now time.Time) (left time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left = b.retryAt.Sub(now); !b.retryAt.IsZero() && left > 0 {
		return left
	}
	b.retryAt = time.Time{}
	return 0
}

// ifCurrent calls change, with mu held, if version is the endpoint's current one.
func (b *backoff) ifCurrent(version int64, change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if version == b.version {
		change()
	}
}

// recordReady clears the failure that is shown. The failures still count until a job is done.
func (b *backoff) recordReady(version int64) { b.ifCurrent(version, func() { b.latestFailure = "" }) }

// recordServing ends the back-off: a worker behind a load balancer has passed its health check.
func (b *backoff) recordServing(version int64) { b.ifCurrent(version, func() { b.failures = 0 }) }

func (b *backoff) recordJobDone(version int64) {
	b.ifCurrent(version, func() { b.failures, b.loggedSignatures, b.latestFailure = 0, nil, "" })
}

func (b *backoff) reset(version int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version, b.failures, b.loggedSignatures, b.latestFailure, b.retryAt = version, 0, nil, "", time.Time{}
}

// failure returns the latest failure, or "" if a worker was ready after it.
func (b *backoff) failure() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latestFailure
}

// signature returns the same text for failures that differ only in an address, a time, an id, a count,
// or a note on other events on the machine. The exit status stays in it.
func signature(failure string) string {
	return varyingWord.ReplaceAllStringFunc(machineNote.ReplaceAllString(failure, ""), func(word string) string {
		if strings.HasPrefix(word, "exit status ") {
			return word
		}
		return "#"
	})
}

// varyingWord matches an exit status, or a word that contains a digit.
var varyingWord = regexp.MustCompile(`exit status \d+|[\w.:+-]*\d[\w.:+-]*`)

// machineNote matches procgroup's note about a process that the kernel killed meanwhile.
var machineNote = regexp.MustCompile(` \(meanwhile [^)]*\)`)

const maxLoggedSignatures = 20

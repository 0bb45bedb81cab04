package engine

import "time"

const (
	minTxJobs = 16
	maxTxJobs = 500

	txTarget = 3 * time.Millisecond
	// A sync.Mutex that a goroutine has waited for longer than a millisecond is handed from
	// waiter to waiter, each of which has to be scheduled first. Transactions in memory stay below that.
	txTargetInMemory = txTarget / 6
)

// txLimit limits how many jobs one transaction of a bulk change may change, so that each
// transaction takes about the target time and other writers don't wait for long.
type txLimit struct {
	jobs   int
	target time.Duration
}

func (e *Engine) newTxLimit() txLimit {
	if e.db.InMemory() {
		return txLimit{minTxJobs, txTargetInMemory}
	}
	return txLimit{minTxJobs, txTarget}
}

// adapt sets the limit of the next transaction, after n jobs took the time took. It at most
// doubles the limit.
func (l *txLimit) adapt(n int, took time.Duration) {
	fit := maxTxJobs
	if took > 0 {
		fit = int(min(int64(n)*int64(l.target)/int64(took), maxTxJobs))
	}
	l.jobs = max(minTxJobs, min(fit, 2*l.jobs))
}

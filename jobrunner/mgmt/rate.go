package mgmt

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// windows are the quotas of management API v2 (its document, RateLimit-Policy).
var windows = [...]struct {
	name   string
	quota  int
	length time.Duration
}{
	{"minute", 60, time.Minute},
	{"hour", 3000, time.Hour},
	{"day", 50000, 24 * time.Hour},
}

// countAgainstQuotas counts a request of a key's owner and writes the state of the quotas to h. If limits aren't
// enforced, it writes full quotas, so that clients which obey them don't wait.
func (s *server) countAgainstQuotas(ctx context.Context, owner string, h http.Header) error {
	if !s.Limits {
		l := &limiter{clock: s.Clock}
		l.writeHeaders(h, l.resetElapsed())
		return nil
	}
	if s.quotas != nil {
		return s.quotas.count(ctx, owner, h)
	}
	l, _ := s.limiters.LoadOrStore(owner, &limiter{clock: s.Clock}) // one per owner
	return l.(*limiter).count(h)
}

// limiter counts the requests of one owner in fixed windows. A window begins with its first request.
type limiter struct {
	clock *clock.Clock

	mu          sync.Mutex
	windowStart [len(windows)]time.Time
	counts      [len(windows)]int
}

// count counts a request and writes the windows' state to h. A rejected request doesn't count.
func (l *limiter) count(h http.Header) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.resetElapsed()
	exceededWindow, wait := "", int64(0)
	for i, w := range windows {
		if l.counts[i] >= w.quota {
			exceededWindow, wait = w.name, max(wait, l.secondsLeft(i, now))
		}
	}
	if exceededWindow == "" {
		for i := range windows {
			l.counts[i]++
		}
	}
	l.writeHeaders(h, now)
	if exceededWindow != "" {
		h.Set("Retry-After", strconv.FormatInt(wait, 10))
		return httpanswer.Refuse(http.StatusTooManyRequests, "rate limit exceeded for the %s window: try again in %d s", exceededWindow, wait)
	}
	return nil
}

// resetElapsed restarts the windows that have ended. It also restarts a window that a node with a wrong clock began
// far in the future.
func (l *limiter) resetElapsed() (now time.Time) {
	now = l.clock.Now()
	for i, w := range windows {
		if now.Sub(l.windowStart[i]).Abs() >= w.length {
			l.windowStart[i], l.counts[i] = now, 0
		}
	}
	return now
}

func (l *limiter) writeHeaders(h http.Header, now time.Time) {
	var policy, state []string
	for i, w := range windows {
		policy = append(policy, fmt.Sprintf("%q;q=%d;w=%d", w.name, w.quota, int64(w.length.Seconds())))
		state = append(state, fmt.Sprintf("%q;r=%d;t=%d", w.name, w.quota-l.counts[i], l.secondsLeft(i, now)))
	}
	h.Set("RateLimit-Policy", strings.Join(policy, ", "))
	h.Set("RateLimit", strings.Join(state, ", "))
}

// secondsLeft returns the seconds to a window's end, rounded up, at most its length: the clock of the
// node that started it may be ahead.
func (l *limiter) secondsLeft(i int, now time.Time) int64 {
	d := min(l.windowStart[i].Add(windows[i].length).Sub(now), windows[i].length)
	return int64((d + time.Second - 1) / time.Second)
}

// quotasSchema is the migration history of the table of sharedQuotas. The table is unlogged: commits
// don't wait for the disk, and a crash of the database server empties it.
var quotasSchema = []string{`
CREATE UNLOGGED TABLE management_quotas (
	owner   TEXT   NOT NULL,
	seconds BIGINT NOT NULL, -- length of the window
	began   BIGINT NOT NULL, -- Unix milliseconds
	n       BIGINT NOT NULL,
	PRIMARY KEY (owner, seconds)
);`}

const (
	selectQuotas = `SELECT seconds, began, n FROM management_quotas WHERE owner = ?`
	setQuota     = `INSERT INTO management_quotas (owner, seconds, began, n) VALUES (?, ?, ?, ?)
		ON CONFLICT (owner, seconds) DO UPDATE SET began = excluded.began, n = excluded.n`
)

// sharedQuotas counts requests for all nodes of a deployment in their common database.
type sharedQuotas struct {
	db    *sqldb.DB
	clock *clock.Clock
}

func (q *sharedQuotas) count(ctx context.Context, owner string, h http.Header) (err error) {
	var refusal error
	err = q.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Lock("management quota " + owner); err != nil {
			return err
		}
		l := &limiter{clock: q.clock}
		if err := l.load(tx, owner); err != nil {
			return err
		}
		refusal = l.count(h)
		for i, w := range windows {
			if err := tx.Pipeline(setQuota, owner, int64(w.length.Seconds()), l.windowStart[i].UnixMilli(), l.counts[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return refusal
}

func (l *limiter) load(tx *sqldb.Tx, owner string) error {
	return tx.Each(func(row sqldb.Row) error {
		var seconds, began int64
		var n int
		err := row.Scan(&seconds, &began, &n)
		for i, w := range windows {
			if int64(w.length.Seconds()) == seconds {
				l.windowStart[i], l.counts[i] = time.UnixMilli(began), n
			}
		}
		return err
	}, selectQuotas, owner)
}

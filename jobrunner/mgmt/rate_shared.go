package mgmt

import (
	"context"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// quotasSchema is the history of the table of SharedQuotas. A server that crashed
// empties it, and a commit waits for no disk.
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

// SharedQuotas counts requests for all deployments that share a database.
type SharedQuotas struct {
	db    *sqldb.DB
	clock *clock.Clock
}

// NewSharedQuotas prepares the table.
func NewSharedQuotas(ctx context.Context, db *sqldb.DB, c *clock.Clock) (*SharedQuotas, error) {
	return &SharedQuotas{db, c}, db.Migrate(ctx, "management quotas", quotasSchema)
}

// count is that of limiter.
func (q *SharedQuotas) count(ctx context.Context, owner string, h http.Header) (err error) {
	var refused error
	err = q.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Alone("management quota " + owner); err != nil {
			return err
		}
		l := newLimiter(q.clock)
		if err := l.load(tx, owner); err != nil {
			return err
		}
		refused = l.count(h)
		for i, w := range windows {
			if err := tx.Later(setQuota, owner, int64(w.length.Seconds()), l.windowStart[i].UnixMilli(), l.counts[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return refused
}

// load reads what an owner's requests were.
func (l *limiter) load(tx *sqldb.Tx, owner string) error {
	rows, err := tx.Query(selectQuotas, owner)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seconds, began int64
		var n int
		if err := rows.Scan(&seconds, &began, &n); err != nil {
			return err
		}
		for i, w := range windows {
			if int64(w.length.Seconds()) == seconds {
				l.windowStart[i], l.counts[i] = time.UnixMilli(began), n
			}
		}
	}
	return rows.Err()
}

package mgmt

import (
	"context"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// quotasSchema is the migration history of the table of SharedQuotas. The table is unlogged: commits
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

// SharedQuotas counts requests for all nodes of a deployment in their common database.
type SharedQuotas struct {
	db    *sqldb.DB
	clock *clock.Clock
}

// NewSharedQuotas prepares the table.
func NewSharedQuotas(ctx context.Context, db *sqldb.DB, c *clock.Clock) (*SharedQuotas, error) {
	return &SharedQuotas{db, c}, db.Migrate(ctx, "management quotas", quotasSchema)
}

// count does the same as limiter.count.
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

// load reads the counted requests of an owner.
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

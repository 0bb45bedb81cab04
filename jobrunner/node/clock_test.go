package node

import (
	"log/slog"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// A node that starts after a jump has the time of the running nodes, or else the database's.
func TestNodesIgnoreTheSameJump(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t) + ",pg_catalog" // so that the function below replaces PostgreSQL's
	pgtest.Exec(t, address, "CREATE TABLE machine AS SELECT interval '0' AS jump")
	pgtest.Exec(t, address, "CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + jump FROM machine'")
	start := func() (keeper *Timekeeper, stop func()) {
		log := slog.New(slog.NewTextHandler(t.Output(), nil))
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{URL: address}))(t)
		keeper = must.Do(KeepTime(t.Context(), db, new(clock.Clock), log))(t)
		process := must.Do(engine.Open(t.Context(), engine.Config{DB: db, Clock: keeper.clock, Logger: log}))(t)
		return keeper, func() {
			process.Close()
			keeper.Close()
			must.Succeed(t, db.Close())
		}
	}
	first, stopFirst := start()
	pgtest.Exec(t, address, "UPDATE machine SET jump = interval '2 hours'")
	must.Succeed(t, first.correct(t.Context()))
	second, stopSecond := start()
	ahead := second.clock.Now().Sub(first.clock.Now())
	must.Hold(t, ahead.Abs() <= time.Minute, "the second node is ahead by", ahead)
	stopFirst()
	stopSecond()
	third, stopThird := start()
	defer stopThird()
	ahead = time.Until(third.clock.Now())
	must.Hold(t, ahead >= time.Hour, "a node that starts alone is ahead by", ahead)
}

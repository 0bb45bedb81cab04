package jobrunner

import (
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// A node that starts after a jump of the database's clock has the same time as the nodes that run. Without
// them it uses the database's clock.
func TestNodesIgnoreTheSameJump(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t) + ",pg_catalog" // so that the function below replaces PostgreSQL's
	pgtest.Exec(t, address, "CREATE TABLE machine AS SELECT interval '0' AS jump")
	pgtest.Exec(t, address, "CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + jump FROM machine'")
	start := func() *Jobrunner { return must.Do(New(t.Context(), Config{APIKey: "k", Engine: address}))(t) }
	first := start()
	pgtest.Exec(t, address, "UPDATE machine SET jump = interval '2 hours'")
	must.Succeed(t, first.correctClock(t.Context()))
	second := start()
	ahead := second.clock.Now().Sub(first.clock.Now())
	must.Hold(t, ahead.Abs() <= time.Minute, "the second node is ahead by", ahead)
	must.Succeed(t, first.Close())
	must.Succeed(t, second.Close())
	third := start()
	ahead = time.Until(third.clock.Now())
	must.Hold(t, ahead >= time.Hour, "a node that starts alone is ahead by", ahead)
	must.Succeed(t, third.Close())
}

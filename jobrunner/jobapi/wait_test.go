package jobapi

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// A check that fails for lack of the database is repeated, whatever else it returned.
func TestWaitOutlastsOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{Clock: new(clock.Clock)}
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
		c.Engine = must.Do(engine.Open(t.Context(), engine.Config{DB: db, Clock: c.Clock, Logger: slog.New(slog.DiscardHandler)}))(t)
		results := []error{sqldb.ErrUnavailable, nil}
		err := (&api{Config: c}).waitUntil(t.Context(), target{}, time.Minute, func() (bool, error) {
			result := results[0]
			results = results[1:]
			return true, result
		})
		must.Hold(t, err == nil && len(results) == 0, "the wait ended with", err, "before", results)
		c.Engine.Close()
		must.Succeed(t, db.Close())
	})
}

package jobapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// A request after a change gets the new settings, even if an earlier read was under way during the change.
func TestEndpointsAreInvalidated(t *testing.T) {
	current, reads := store.Endpoint{WorkersMax: 1}, 0
	onRead := func() {}
	epoch, leads := int64(1), true
	var loadErr error
	cache := NewEndpoints(func(context.Context, string) (store.Endpoint, error) {
		reads++
		endpoint := current
		onRead()
		return endpoint, loadErr
	}, func(string) (int64, bool) { return epoch, leads })
	expectFind := func(workersMax, wantReads int) {
		t.Helper()
		got, err := cache.Find(t.Context(), "ep")
		must.Hold(t, err == nil && got.WorkersMax == workersMax && reads == wantReads, got.WorkersMax, "workers after", reads, "reads", err, "want", workersMax, "after", wantReads)
	}
	expectFind(1, 1)
	expectFind(1, 1)
	current.WorkersMax = 2
	cache.Invalidate("ep")
	onRead = func() { // a change during the read
		current.WorkersMax = 3
		cache.Invalidate("ep")
	}
	expectFind(2, 2)
	onRead = func() {}
	expectFind(3, 3)
	expectFind(3, 3)
	leads = false // another node leads the endpoint, and changes it
	expectFind(3, 4)
	current.WorkersMax = 4
	expectFind(4, 5)
	epoch, leads = 2, true
	expectFind(4, 6)
	expectFind(4, 6)
	cache.Invalidate("ep")
	current.Type = store.LoadBalancer
	must.ErrorIs(t, must.Err(cache.Find(t.Context(), "ep")), ErrNoEndpoint, "a load balancer")
	loadErr = store.ErrNotFound
	must.ErrorIs(t, must.Err(cache.Find(t.Context(), "ep")), ErrNoEndpoint, "no endpoint")
}

// A check that fails for lack of the database is repeated, whatever else it returned.
func TestWaitOutlastsOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{Clock: new(clock.Clock)}
		db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
		c.Engine = must.Do(engine.Open(t.Context(), engine.Config{DB: db, Clock: c.Clock, Logger: slog.New(slog.DiscardHandler)}))(t)
		results := []error{sqldb.ErrUnavailable, nil}
		err := (&api{Config: c}).waitUntil(t.Context(), c.Engine.Watch("", ""), time.Minute, func() (bool, error) {
			result := results[0]
			results = results[1:]
			return true, result
		})
		must.Hold(t, err == nil && len(results) == 0, "the wait ended with", err, "before", results)
		c.Engine.Close()
		must.Succeed(t, db.Close())
	})
}

// A client whose node loses the leadership of an endpoint, and so isn't notified of its job's end, waits for seconds.
func TestWaitOutlivesLeadership(t *testing.T) {
	file := sqldb.Config{Dir: t.TempDir(), NoSync: true}
	synctest.Test(t, func(t *testing.T) {
		c := Config{Clock: new(clock.Clock), Answers: httplimit.NewMemory(1 << 20)}
		db := must.Do(sqldb.Open(t.Context(), file))(t)
		c.Engine = must.Do(engine.Open(t.Context(), engine.Config{DB: db, Clock: c.Clock, Logger: slog.New(slog.DiscardHandler)}))(t)
		job := must.Do(c.Engine.Submit(t.Context(), engine.NewJob{Endpoint: "ep", Input: []byte("{}")}))(t)
		must.Do(c.Engine.Take(t.Context(), engine.Take{Endpoint: "ep", Worker: "w", Max: 1}))(t)
		time.AfterFunc(time.Minute, func() {
			must.Succeed(t, c.Engine.Release(t.Context(), "ep", engine.Leadership{}))
			must.Succeed(t, db.Write(t.Context(), func(tx *sqldb.Tx) error { return must.Err(tx.Exec("UPDATE jobs SET state = 'CANCELLED', done = 1")) }))
		})
		start, w, served := time.Now(), httptest.NewRecorder(), target{endpoint: "ep", job: job.ID}
		err := (&api{Config: c}).relay(t.Context(), &relayAnswer{memory: c.Answers}, served)
		must.Hold(t, err != nil && time.Since(start) <= 66*time.Second, "after", time.Since(start), "the relay ended with", err)
		must.Succeed(t, (&api{Config: c}).answerWhenEnded(w, httptest.NewRequest(http.MethodPost, "/", nil), served, engine.MaxWait, job, c.Engine.Watch("ep", job.ID)))
		must.Contain(t, w.Body.String(), "CANCELLED")
		must.Hold(t, time.Since(start) <= 72*time.Second, "runsync was answered after", time.Since(start))
		c.Engine.Close()
		must.Succeed(t, db.Close())
	})
}

func TestHeaderText(t *testing.T) {
	must.Equal(t, headerText("{…}\né\x7f"), "{...} ? ")
}

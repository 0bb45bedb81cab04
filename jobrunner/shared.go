package jobrunner

import (
	"context"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const (
	followEvery = time.Second // how soon what another process did counts here
	agreeEvery  = 60          // so often of that, clocks are compared
)

// agree corrects the clock to the database's, where processes of several
// machines share one: a deadline that one sets is for all.
func (j *Jobrunner) agree(ctx context.Context, c *clock.Clock) error {
	behind, err := j.db.Behind(ctx)
	if err == nil {
		c.Correct(behind)
	}
	return err
}

// follow makes count here what other processes change on a database that they
// share: endpoints, and jobs that wait while the process that accepted them is
// gone. It ends with stop.
func (j *Jobrunner) follow(ctx context.Context, c *clock.Clock) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(followEvery)
		defer ticker.Stop()
		known := map[string]bool{}
		failing := false
		for n := 1; ; n++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			endpoints, err := j.setAll(ctx)
			if err == nil && n%agreeEvery == 0 {
				err = j.agree(ctx, c)
			}
			if err != nil {
				if !failing && ctx.Err() == nil {
					j.log.ErrorContext(ctx, "what other processes change could not be read", "error", err)
				}
				failing = true
				continue
			}
			failing = false
			now := map[string]bool{}
			for _, e := range endpoints {
				now[e.ID] = true
				delete(known, e.ID)
			}
			for id := range known { // it was there a second ago
				j.sync(ctx, id)
			}
			known = now
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// setAll makes the settings of all endpoints count. As in sync, what is read
// last is set last.
func (j *Jobrunner) setAll(ctx context.Context) ([]store.Endpoint, error) {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	endpoints, err := j.store.Endpoints(ctx)
	for _, e := range endpoints {
		j.pools.Set(settings(e))
	}
	return endpoints, err
}

package jobrunner

import (
	"context"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

const (
	followEvery    = time.Second // how soon what another process did counts here
	agreeEvery     = 60          // so often of that, clocks are compared
	rebalanceEvery = 10          // and endpoints given up to processes that have fewer
)

// correctClock corrects the clock to the database's, where processes of several
// machines share one: a deadline that one sets is for all.
func (j *Jobrunner) correctClock(ctx context.Context, c *clock.Clock) error {
	behind, err := j.db.Behind(ctx, c.Passed)
	if err == nil {
		j.logJump(c.Correct(behind), "the database's machine")
	}
	return err
}

const lookEvery = time.Second

// watchClock notices jumps of this machine's clock until ctx ends. Where
// machines share a database its clock is the one that counts, and correctClock looks.
func (j *Jobrunner) watchClock(ctx context.Context, c *clock.Clock) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			j.logJump(c.Look(), "this machine")
		case <-ctx.Done():
			return
		}
	}
}

func (j *Jobrunner) logJump(jump time.Duration, whose string) {
	if jump != 0 {
		j.log.Warn("the clock of "+whose+" jumped: until the next start, time-outs, time to live and retention go by the time that passed, as if it had not",
			"jump", jump.Round(time.Millisecond))
	}
}

// follow makes count here what other processes change on a database that they
// share: endpoints, and jobs that wait while the process that accepted them is
// gone. It ends with stop.
func (j *Jobrunner) follow(ctx context.Context, c *clock.Clock) (stop func()) {
	return j.inBackground(ctx, c, func(ctx context.Context, c *clock.Clock) {
		ticker := time.NewTicker(followEvery)
		defer ticker.Stop()
		known, active := map[string]bool{}, map[string]engine.Counts{}
		failing := false
		for n := 1; ; n++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			err := j.checkVersions(ctx)
			if err == nil {
				err = j.syncPods(ctx)
			}
			var endpoints []store.Endpoint
			if err == nil {
				endpoints, err = j.setAll(ctx, n%rebalanceEvery == 0)
			}
			if err == nil {
				active, err = j.wakeActive(ctx, active)
			}
			if err == nil {
				err = j.added.Reload(ctx)
			}
			if err == nil {
				err = j.limits.Sweep(ctx, n%agreeEvery == 0)
			}
			if err == nil && n%agreeEvery == 0 {
				err = j.correctClock(ctx, c)
			}
			if err != nil {
				if !failing && ctx.Err() == nil && !engine.Temporary(err) {
					j.log.ErrorContext(ctx, "reading the changes of other processes failed", "error", err)
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
}

// inBackground runs f until stop is called, which waits for its end.
func (j *Jobrunner) inBackground(ctx context.Context, c *clock.Clock, f func(context.Context, *clock.Clock)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { f(ctx, c) })
	return func() {
		cancel()
		done.Wait()
	}
}

// wakeActive has the pools look at their load whose endpoints have jobs now or
// had some a moment ago. Those of idle endpoints cost the database nothing.
func (j *Jobrunner) wakeActive(ctx context.Context, before map[string]engine.Counts) (map[string]engine.Counts, error) {
	now, err := j.engine.Active(ctx)
	if err != nil {
		return before, err
	}
	for id := range before {
		j.pools.Queued(id)
	}
	for id := range now {
		if _, again := before[id]; !again {
			j.pools.Queued(id)
		}
	}
	return now, nil
}

// setAll makes the settings of all endpoints count. As in sync, what is read
// last is set last.
func (j *Jobrunner) setAll(ctx context.Context, rebalance bool) ([]store.Endpoint, error) {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	endpoints, err := j.store.Endpoints(ctx)
	if err == nil && j.db.Shared() {
		return endpoints, j.placeAll(ctx, endpoints, rebalance)
	}
	for _, e := range endpoints {
		j.pools.Set(settings(e))
	}
	return endpoints, err
}

// syncPods makes count what other processes changed of pods, and notes where they run.
func (j *Jobrunner) syncPods(ctx context.Context) error {
	all, err := j.store.Pods(ctx)
	if err != nil {
		return err
	}
	at := make(map[string]string, len(all))
	for _, p := range all {
		at[p.ID] = p.Machine
	}
	j.places.mu.Lock()
	j.places.pods = at
	j.places.mu.Unlock()
	j.pods.SyncAll(ctx, all)
	return nil
}

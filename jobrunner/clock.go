package jobrunner

import (
	"context"
	"sync"
	"time"
)

// correctClock sets the clock by that of a shared database, because deadlines must mean the
// same on all nodes.
func (j *Jobrunner) correctClock(ctx context.Context) error {
	behind, err := j.db.Behind(ctx, j.clock.Passed)
	if err == nil {
		j.logJump(j.clock.Correct(behind), "the database's machine")
	}
	return err
}

// watchClock logs jumps of this machine's clock until ctx ends. Nodes that share a database
// call correctClock instead.
func (j *Jobrunner) watchClock(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			j.logJump(j.clock.Look(), "this machine")
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

// inBackground runs f until Close.
func (j *Jobrunner) inBackground(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { f(ctx) })
	j.onClose(func() {
		cancel()
		done.Wait()
	})
}

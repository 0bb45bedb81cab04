package jobrunner

import (
	"context"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// clockSchema stores the jump of a shared database's clock, in microseconds, that the running nodes ignore.
var clockSchema = []string{`CREATE TABLE clock (jump BIGINT NOT NULL); INSERT INTO clock (jump) VALUES (0)`}

// startClock sets the clock for the first time. It ignores the same jump as the other nodes do.
func (j *Jobrunner) startClock(ctx context.Context) error {
	if !j.db.Shared() {
		return nil
	}
	if err := j.db.Migrate(ctx, "clock", clockSchema); err != nil {
		return err
	}
	jump, err := j.readJump(ctx)
	if err == nil && jump != 0 {
		jump, err = j.jumpOfOthers(ctx)
	}
	if err != nil {
		return err
	}
	if jump != 0 {
		behind, err := j.db.Behind(ctx, j.clock.MachineTime)
		if err != nil {
			return err
		}
		j.clock.Correct(behind - jump)
	}
	return j.correctClock(ctx)
}

// jumpOfOthers returns the jump that the other nodes ignore. If none is alive, it is 0 from now on.
func (j *Jobrunner) jumpOfOthers(ctx context.Context) (time.Duration, error) {
	alive, err := engine.OthersAlive(ctx, j.db)
	if err != nil {
		return 0, err
	}
	if alive == 0 {
		return 0, j.writeJump(ctx, 0)
	}
	return j.readJump(ctx)
}

func (j *Jobrunner) readJump(ctx context.Context) (jump time.Duration, err error) {
	err = j.db.Read(ctx, func(r *sqldb.Reader) error {
		var micros int64
		err := r.QueryRow("SELECT jump FROM clock").Scan(&micros)
		jump = time.Duration(micros) * time.Microsecond
		return err
	})
	return jump, err
}

func (j *Jobrunner) writeJump(ctx context.Context, jump time.Duration) error {
	return j.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec("UPDATE clock SET jump = ?", jump.Microseconds())
		return err
	})
}

// correctClock sets the clock by the shared database's clock, because deadlines must mean the
// same on all nodes.
func (j *Jobrunner) correctClock(ctx context.Context) error {
	behind, err := j.db.Behind(ctx, j.clock.MachineTime)
	if err != nil {
		return err
	}
	jump := j.clock.Correct(behind)
	if jump == 0 {
		return nil
	}
	j.logJump(jump, "the database's machine")
	return j.writeJump(ctx, j.clock.Ahead())
}

// watchClock logs jumps of this machine's clock until ctx ends. Nodes that share a database
// call correctClock instead.
func (j *Jobrunner) watchClock(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			j.logJump(j.clock.MeasureJump(), "this machine")
		case <-ctx.Done():
			return
		}
	}
}

func (j *Jobrunner) logJump(jump time.Duration, whose string) {
	if jump != 0 {
		j.log.Warn("the clock of "+whose+" jumped: until the deployment stops, time-outs, time to live and retention ignore the jump",
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

package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Timekeeper sets a node's clock by the clock of the shared database, because deadlines must mean the same
// on all nodes. It logs jumps of that clock or, if the database isn't shared, of this machine's clock.
type Timekeeper struct {
	db      *sqldb.DB
	clock   *clock.Clock
	log     *slog.Logger
	stop    context.CancelFunc
	watcher sync.WaitGroup // goroutine of watchMachine
}

// KeepTime sets the clock by a shared database's, and starts a Timekeeper. The caller must call Close.
func KeepTime(ctx context.Context, db *sqldb.DB, c *clock.Clock, log *slog.Logger) (*Timekeeper, error) {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	t := &Timekeeper{db: db, clock: c, log: log, stop: stop}
	if db.Shared() {
		return t, t.start(ctx)
	}
	t.watcher.Go(func() { t.watchMachine(background) })
	return t, nil
}

// Close stops watching this machine's clock.
func (t *Timekeeper) Close() {
	t.stop()
	t.watcher.Wait()
}

// watchMachine logs jumps of this machine's clock until ctx ends.
func (t *Timekeeper) watchMachine(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.logJump(t.clock.MeasureJump(), "this machine")
		case <-ctx.Done():
			return
		}
	}
}

func (t *Timekeeper) logJump(jump time.Duration, machine string) {
	if jump != 0 {
		t.log.Warn("the clock of "+machine+" jumped: until the deployment stops, time-outs, time to live and retention ignore the jump",
			"jump", jump.Round(time.Millisecond))
	}
}

// clockSchema stores the jump of the database's clock that the running nodes ignore, in microseconds.
var clockSchema = []string{`CREATE TABLE clock (jump BIGINT NOT NULL); INSERT INTO clock (jump) VALUES (0)`}

// start makes the clock ignore the same jump as the clocks of the running nodes.
func (t *Timekeeper) start(ctx context.Context) error {
	if err := t.db.Migrate(ctx, "clock", clockSchema); err != nil {
		return err
	}
	jump, err := t.ignoredJump(ctx)
	if err != nil {
		return err
	}
	lag, err := t.db.MeasureClockLag(ctx, t.clock.MachineTime)
	if err != nil {
		return err
	}
	t.clock.Correct(lag - jump)
	return t.correct(ctx)
}

// ignoredJump returns the jump that the running nodes ignore. If no node runs, the jump is 0 from now on.
func (t *Timekeeper) ignoredJump(ctx context.Context) (time.Duration, error) {
	jump, err := t.readJump(ctx)
	if err != nil || jump == 0 {
		return 0, err
	}
	alive, err := engine.OthersAlive(ctx, t.db)
	switch {
	case err != nil:
		return 0, err
	case alive == 0:
		return 0, t.writeJump(ctx, 0)
	}
	return t.readJump(ctx) // it may have changed while OthersAlive waited
}

func (t *Timekeeper) readJump(ctx context.Context) (time.Duration, error) {
	var micros int64
	err := t.db.Read(ctx, func(r *sqldb.Reader) error { return r.QueryRow("SELECT jump FROM clock").Scan(&micros) })
	return time.Duration(micros) * time.Microsecond, err
}

func (t *Timekeeper) writeJump(ctx context.Context, jump time.Duration) error {
	return t.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec("UPDATE clock SET jump = ?", jump.Microseconds())
		return err
	})
}

// correct corrects the clock's drift, and records jumps of the database's clock for later nodes.
func (t *Timekeeper) correct(ctx context.Context) error {
	lag, err := t.db.MeasureClockLag(ctx, t.clock.MachineTime)
	if err != nil {
		return err
	}
	jump := t.clock.Correct(lag)
	if jump == 0 {
		return nil
	}
	t.logJump(jump, "the database's machine")
	return t.writeJump(ctx, t.clock.Ahead())
}

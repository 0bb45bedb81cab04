package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Several processes can share a PostgreSQL database. A running job records the process
// that took it. At every poll a process sends a heartbeat: it increments a number in its
// row. If the number doesn't change during missedBeats polls of another process, the
// process counts as dead, and its jobs are treated as if their workers had died.
//
// This compares no clocks, and the polls of all processes stop while the database is
// unavailable. If a process was only slow, its reports are Stale.
const (
	defaultPoll = 500 * time.Millisecond
	missedBeats = 10

	leaveTimeout = 5 * time.Second
)

// process is another process that shares the database.
type process struct {
	node   Node
	beats  int64
	missed int // polls since beats last changed
}

// OthersAlive counts the live processes on a database that this process hasn't joined. To
// see whether their heartbeats change, it waits for the time of missedBeats polls.
func OthersAlive(ctx context.Context, db *sqldb.DB) (alive int, err error) {
	var before map[string]process
	for attempt := range 2 {
		var now map[string]process
		err := db.Read(ctx, func(r *sqldb.Reader) (err error) {
			now, err = processesBesides(r, "")
			return err
		})
		if err != nil {
			return 0, err
		}
		if attempt > 0 || len(now) == 0 {
			for id, p := range now {
				if old, known := before[id]; !known || p.beats != old.beats {
					alive++
				}
			}
			return alive, nil
		}
		before = now
		if err := clock.RealSleep(ctx, missedBeats*defaultPoll); err != nil {
			return 0, err
		}
	}
	return alive, nil
}

// enter adds this process to a shared database with a new id. It loses the jobs and leads of its
// earlier id.
func (e *Engine) enter(ctx context.Context) error {
	id, sent := uuid.NewString(), time.Now()
	_, err := execAlone(ctx, e.write, insertProcess, id, e.node.URL, e.node.Machine)
	if err == nil {
		e.id.Store(&id)
		e.beatAt.Store(&sent)
	}
	return err
}

// Process returns the id of this process on a shared database, or "". It changes if the other
// processes have removed this one.
func (e *Engine) Process() string {
	if id := e.id.Load(); id != nil {
		return *id
	}
	return ""
}

// leave removes this process and requeues its jobs. If it fails, another process or the
// next start requeues them, and counts a retry.
func (e *Engine) leave(ctx context.Context) {
	_, err := e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) ([]change, error) {
		if _, err := tx.Exec(deleteProcess, e.Process()); err != nil {
			return nil, err
		}
		changes, err := update(tx, InQueue, requeueOwn, e.now(), e.Process())
		return changes, errors.Join(err, deleteResults(tx, changes, deleteOutput, deleteChunks))
	})
	if err != nil && !sqldb.Temporary(err) {
		e.log.Error("giving the jobs of this process back", "error", err)
	}
}

// watchOthers calls checkProcesses at every poll until ctx ends.
func (e *Engine) watchOthers(ctx context.Context) {
	ticker := time.NewTicker(e.poll)
	defer ticker.Stop()
	seen, failing := map[string]process{}, false
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		err := e.checkProcesses(ctx, seen)
		if err != nil && !failing && ctx.Err() == nil && !sqldb.Temporary(err) {
			e.log.Error("checking the other processes that share the database", "error", err)
		}
		if failing = err != nil; failing {
			clear(seen) // the others may have failed to send their heartbeats, too
		}
	}
}

// checkProcesses sends a heartbeat, takes over the jobs of dead processes, and wakes
// everything that waits for changes of other processes.
func (e *Engine) checkProcesses(ctx context.Context, seen map[string]process) error {
	gone, err := e.beat(ctx, seen)
	if err != nil {
		return err
	}
	if gone {
		if err := e.takeOver(ctx); err != nil {
			return err
		}
	}
	notify.Signal(e.sweepNow)
	e.hub.recheckAll()
	return e.wakeTakers(ctx)
}

// wakeTakers wakes a waiting taker for each queued job. It runs at most one statement.
func (e *Engine) wakeTakers(ctx context.Context) error {
	takers := e.hub.waiting()
	if len(takers) == 0 {
		return nil
	}
	jobs := map[string]int{}
	err := e.db.Read(ctx, func(r *sqldb.Reader) error {
		clear(jobs)
		return each(r, func(rows sqldb.Rows) error {
			var endpoint string
			var n int
			err := rows.Scan(&endpoint, &n)
			jobs[endpoint] = n
			return err
		}, sumWaiting)
	})
	if err != nil {
		return err
	}
	for endpoint, n := range takers {
		for range min(n, jobs[endpoint]) {
			e.hub.wake(endpoint)
		}
	}
	return nil
}

// beat sends this process's heartbeat and removes dead processes. It reports whether any
// process is gone.
func (e *Engine) beat(ctx context.Context, seen map[string]process) (gone bool, err error) {
	var others map[string]process
	removed, sent := false, time.Now()
	err = e.write(ctx, func(tx *sqldb.Tx) (err error) {
		n, err := tx.Exec(beatProcess, e.Process())
		removed = n == 0
		if err != nil {
			return err
		}
		others, err = processesBesides(tx, e.Process())
		return err
	})
	if err != nil {
		return false, err
	}
	if removed {
		clear(seen)
		e.log.Warn("this process did not reach the database for so long that others took over its work: it joins them again")
		return true, e.enter(ctx) // this may be the only process left to requeue its jobs
	}
	e.beatAt.Store(&sent)
	nodes := make([]Node, 0, len(others))
	for _, other := range others {
		nodes = append(nodes, other.node)
	}
	e.others.Store(&nodes)
	for id := range seen {
		if _, there := others[id]; !there {
			delete(seen, id)
			gone = true // the process that removed it may have stopped before it took over
		}
	}
	for id, other := range others {
		p, known := seen[id]
		if known && p.beats == other.beats {
			p.missed++
		} else {
			p = other
		}
		seen[id] = p
		if p.missed < missedBeats {
			continue
		}
		n, err := execAlone(ctx, e.write, deleteStaleProcess, id, other.beats)
		if err != nil {
			return gone, err
		}
		if n == 0 { // it is alive, or another process has removed it: the next poll finds out
			continue
		}
		delete(seen, id)
		gone = true
		e.log.Warn("a process that shares the database died: its jobs are dispatched once more", "process", id)
	}
	return gone, nil
}

// processesBesides returns the processes on the database by id, without the one with the id own.
func processesBesides(q sqldb.Querier, own string) (map[string]process, error) {
	others := map[string]process{}
	err := each(q, func(rows sqldb.Rows) error {
		var id string
		var p process
		err := rows.Scan(&id, &p.beats, &p.node.URL, &p.node.Machine)
		others[id] = p
		return err
	}, otherProcesses, own)
	return others, err
}

// takeOver requeues the jobs of dead processes and signals webhook calls, which dead
// processes may have left.
func (e *Engine) takeOver(ctx context.Context) error {
	changes, err := e.resume(ctx)
	if err == nil {
		e.apply(changes...)
		notify.Signal(e.calls)
	}
	return err
}

// notifyOthers notifies the other processes of changes, except takes, for which no process
// waits.
func (e *Engine) notifyOthers(changes []change) {
	if !e.db.Shared() {
		return
	}
	for _, c := range changes {
		if c.from == InQueue && c.to == InProgress {
			continue
		}
		e.db.Notify(strings.Join([]string{c.endpoint, c.id, string(c.to)}, "\t"))
	}
}

// receiveHint handles a notification from notifyOthers or Announce of another process.
func (e *Engine) receiveHint(hint string) {
	switch parts := strings.Split(hint, "\t"); {
	case len(parts) == 3:
		c := change{endpoint: parts[0], id: parts[1], to: State(parts[2])}
		if c.to != InProgress {
			e.handedOut.remove(jobKey{c.endpoint, c.id})
		}
		e.hub.changed(c)
		if c.to == InQueue && e.news != nil {
			e.news(Queued, c.endpoint)
		}
	case len(parts) == 2 && e.news != nil:
		e.news(parts[0], parts[1])
	}
}

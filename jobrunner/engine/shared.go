package engine

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Several processes may work on one PostgreSQL. Each job that runs carries the
// name of the process through which it was taken, and each process counts up a
// number of its own at every poll. One whose number stands still while another
// process counts missedBeats times is gone, and its jobs are those of a worker
// that died.
// No clocks are compared, and a time in which the database served nobody counts
// against nobody. A process that was only held up finds its reports Stale.
const (
	defaultPoll = 500 * time.Millisecond
	missedBeats = 10

	leaveTimeout = 5 * time.Second
)

// process is one that shares the database, as another one sees it.
type process struct {
	beats int64
	still int // polls for which beats stood still
}

// join shows the others that this process is there, before it takes a job.
func (e *Engine) join(ctx context.Context) error {
	if !e.db.Shared() {
		return nil
	}
	if err := e.db.Migrate(ctx, "engine counts", countsSchema); err != nil {
		return err
	}
	e.process = uuid.NewString()
	return e.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(upsertProcess, e.process)
		return err
	})
}

// leave gives what ran through this process back. Where that fails its jobs are
// those of a process that died.
func (e *Engine) leave(ctx context.Context) {
	_, err := e.transition(ctx, e.db.WriteWithReserve, func(tx *sqldb.Tx) ([]change, error) {
		if _, err := tx.Exec(deleteProcess, e.process); err != nil {
			return nil, err
		}
		now := e.now()
		lease, err := e.leasesBefore(tx, now)
		if err != nil {
			return nil, err
		}
		changes, err := update(tx, InQueue, requeueOwn, now, lease, e.process)
		for _, c := range changes {
			for _, statement := range []string{deleteOutput, deleteChunks} {
				if _, err := tx.Exec(statement, c.k); err != nil {
					return nil, err
				}
			}
		}
		return changes, err
	})
	if err != nil && !sqldb.Temporary(err) {
		e.log.Error("giving the jobs of this process back", "error", err)
	}
}

// watchOthers looks at what other processes did, at every poll.
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
			e.log.Error("looking at what the other processes did", "error", err)
		}
		if failing = err != nil; failing {
			clear(seen) // who could not beat either is not counted out
		}
	}
}

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
	hint(e.poke)
	e.hub.lookAgain()
	for endpoint, takers := range e.hub.waiting() {
		var jobs int
		err := e.db.Read(ctx, func(r *sqldb.Reader) error {
			return r.QueryRow(countWaiting, endpoint, e.now(), takers).Scan(&jobs)
		})
		if err != nil {
			return err
		}
		for range jobs {
			e.hub.wake(endpoint)
		}
	}
	return nil
}

// beat shows that this process lives, and strikes off those that don't.
func (e *Engine) beat(ctx context.Context, seen map[string]process) (gone bool, err error) {
	var others map[string]int64
	err = e.db.Write(ctx, func(tx *sqldb.Tx) (err error) {
		if _, err = tx.Exec(upsertProcess, e.process); err != nil {
			return err
		}
		others, err = e.others(tx)
		return err
	})
	if err != nil {
		return false, err
	}
	for id := range seen {
		if _, there := others[id]; !there {
			delete(seen, id)
			gone = true // struck off by another one, which may have stopped before it took over
		}
	}
	for id, beats := range others {
		p, known := seen[id]
		if known && p.beats == beats {
			p.still++
		} else {
			p = process{beats: beats}
		}
		seen[id] = p
		if p.still < missedBeats {
			continue
		}
		var struck int64
		err := e.db.Write(ctx, func(tx *sqldb.Tx) (err error) {
			struck, err = tx.Exec(deleteStaleProcess, id, beats)
			return err
		})
		if err != nil {
			return gone, err
		}
		if struck == 0 { // it beats again, or another one was first: the next poll tells
			continue
		}
		delete(seen, id)
		gone = true
		e.log.Warn("a process that shares the database died: its jobs are dispatched once more", "process", id)
	}
	return gone, nil
}

// others are the other processes on the database.
func (e *Engine) others(tx *sqldb.Tx) (map[string]int64, error) {
	type row struct {
		id    string
		beats int64
	}
	rows, err := collect(tx, func(r sqldb.Rows) (one row, err error) {
		return one, r.Scan(&one.id, &one.beats)
	}, otherProcesses, e.process)
	others := map[string]int64{}
	for _, one := range rows {
		others[one.id] = one.beats
	}
	return others, err
}

// takeOver resumes the jobs of processes that died, and has the calls of
// webhooks made that they leave.
func (e *Engine) takeOver(ctx context.Context) error {
	changes, err := e.resume(ctx)
	if err == nil {
		e.apply(changes...)
		hint(e.calls)
	}
	return err
}

// notifyOthers hints to the other processes at what changed. That a job was taken is
// nothing that anybody waits for.
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

// receiveHint passes a hint of another process on to those who wait here.
func (e *Engine) receiveHint(what string) {
	if parts := strings.Split(what, "\t"); len(parts) == 3 {
		e.hub.changed(change{endpoint: parts[0], id: parts[1], to: State(parts[2])})
	}
}

package engine

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
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
	node  Node
	beats int64
	still int // polls for which beats stood still
}

// OthersAlive counts the processes that work on a database which this one has not joined
// yet: those whose numbers count up while it looks.
func OthersAlive(ctx context.Context, db *sqldb.DB) (alive int, err error) {
	var before map[string]process
	for look := range 2 {
		now := map[string]process{}
		err := db.Read(ctx, func(r *sqldb.Reader) error {
			clear(now)
			return each(r, otherProcesses, func(scan func(...any) error) error {
				var id string
				var p process
				err := scan(&id, &p.beats, &p.node.URL, &p.node.Machine)
				now[id] = p
				return err
			}, "")
		})
		if err != nil {
			return 0, err
		}
		if look > 0 || len(now) == 0 {
			for id, p := range now {
				if old, known := before[id]; !known || p.beats != old.beats {
					alive++
				}
			}
			return alive, nil
		}
		before = now
		select {
		case <-time.After(missedBeats * defaultPoll):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return alive, nil
}

// join shows the others that this process is there, before it takes a job.
func (e *Engine) join(ctx context.Context) error {
	if !e.db.Shared() {
		return nil
	}
	return e.enter(ctx)
}

// enter puts this process among the others under an id of its own. What it had under
// an earlier one, jobs and leads, is not its any more.
func (e *Engine) enter(ctx context.Context) error {
	id, asked := uuid.NewString(), time.Now()
	err := e.write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(insertProcess, id, e.node.URL, e.node.Machine)
		return err
	})
	if err == nil {
		e.id.Store(&id)
		e.beatAt.Store(&asked)
	}
	return err
}

// processID is the id of this process, which changes when the others struck it off;
// "" where the database is not shared.
func (e *Engine) processID() string {
	if id := e.id.Load(); id != nil {
		return *id
	}
	return ""
}

// leave gives what ran through this process back. Where that fails its jobs are
// those of a process that died.
func (e *Engine) leave(ctx context.Context) {
	_, err := e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) ([]change, error) {
		if _, err := tx.Exec(deleteProcess, e.processID()); err != nil {
			return nil, err
		}
		now := e.now()
		lease, err := e.leasesBefore(tx, now)
		if err != nil {
			return nil, err
		}
		changes, err := update(tx, InQueue, requeueOwn, now, lease, e.processID())
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
	notify.Signal(e.poke)
	e.hub.lookAgain()
	return e.wakeTakers(ctx)
}

// wakeTakers wakes those that wait for jobs which are there, in one statement however
// many endpoints there are.
func (e *Engine) wakeTakers(ctx context.Context) error {
	takers := e.hub.waiting()
	if len(takers) == 0 {
		return nil
	}
	jobs := map[string]int{}
	err := e.db.Read(ctx, func(r *sqldb.Reader) error {
		clear(jobs)
		return each(r, sumWaiting, func(scan func(...any) error) error {
			var endpoint string
			var n int
			err := scan(&endpoint, &n)
			jobs[endpoint] = n
			return err
		})
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

// beat shows that this process lives, and strikes off those that don't.
func (e *Engine) beat(ctx context.Context, seen map[string]process) (gone bool, err error) {
	var others map[string]process
	struck, asked := false, time.Now()
	err = e.write(ctx, func(tx *sqldb.Tx) (err error) {
		n, err := tx.Exec(beatProcess, e.processID())
		if struck = n == 0; err != nil {
			return err
		}
		others, err = e.otherProcesses(tx)
		return err
	})
	if err != nil {
		return false, err
	}
	if struck {
		clear(seen)
		e.log.Warn("this process did not reach the database for so long that others took over what it did: it joins them anew")
		return true, e.enter(ctx) // nobody else may be there to give back what it had
	}
	e.beatAt.Store(&asked)
	nodes := make([]Node, 0, len(others))
	for _, other := range others {
		nodes = append(nodes, other.node)
	}
	e.others.Store(&nodes)
	for id := range seen {
		if _, there := others[id]; !there {
			delete(seen, id)
			gone = true // struck off by another one, which may have stopped before it took over
		}
	}
	for id, other := range others {
		p, known := seen[id]
		if known && p.beats == other.beats {
			p.still++
		} else {
			p = other
		}
		seen[id] = p
		if p.still < missedBeats {
			continue
		}
		var n int64
		err := e.write(ctx, func(tx *sqldb.Tx) (err error) {
			n, err = tx.Exec(deleteStaleProcess, id, other.beats)
			return err
		})
		if err != nil {
			return gone, err
		}
		if n == 0 { // it beats again, or another one was first: the next poll tells
			continue
		}
		delete(seen, id)
		gone = true
		e.log.Warn("a process that shares the database died: its jobs are dispatched once more", "process", id)
	}
	return gone, nil
}

// otherProcesses are the other processes on the database.
func (e *Engine) otherProcesses(tx *sqldb.Tx) (map[string]process, error) {
	others := map[string]process{}
	_, err := collect(tx, func(r sqldb.Rows) (one process, err error) {
		var id string
		err = r.Scan(&id, &one.beats, &one.node.URL, &one.node.Machine)
		others[id] = one
		return one, err
	}, otherProcesses, e.processID())
	return others, err
}

// takeOver resumes the jobs of processes that died, and has the calls of
// webhooks made that they leave.
func (e *Engine) takeOver(ctx context.Context) error {
	changes, err := e.resume(ctx)
	if err == nil {
		e.apply(changes...)
		notify.Signal(e.calls)
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
	switch parts := strings.Split(what, "\t"); {
	case len(parts) == 3:
		c := change{endpoint: parts[0], id: parts[1], to: State(parts[2])}
		e.hub.changed(c)
		if c.to == InQueue && e.news != nil {
			e.news(Queued, c.endpoint)
		}
	case len(parts) == 2 && e.news != nil:
		e.news(parts[0], parts[1])
	}
}

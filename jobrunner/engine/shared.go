package engine

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Several processes can share a PostgreSQL database. At every poll a process sends a
// heartbeat: it increments a number in its row. If the number doesn't change during
// missedBeats polls of another process, the process counts as dead: other processes take over
// its endpoints, and its running jobs are treated as if their workers had died.
//
// So the clocks of the processes needn't agree. An outage of the database doesn't make a process
// count as dead, because it stops the polls of all processes. A process that was only slow can't commit after its removal.
const (
	defaultPoll = 500 * time.Millisecond
	missedBeats = 10

	leaveTimeout = 5 * time.Second
)

const (
	// insertProcess adds a process with a number that no other process has, and returns the number.
	// Arguments: the id, the URL and the data folder's id.
	insertProcess = `INSERT INTO processes (id, beats, url, machine, number)
		SELECT ?, 1, ?, ?, COALESCE((SELECT MIN(free) FROM generate_series(0, 511) AS free WHERE free NOT IN (SELECT number FROM processes)), 0) RETURNING number`
	beatProcess        = `UPDATE processes SET beats = beats + 1 WHERE id = ?`
	otherProcesses     = `SELECT id, beats, url, machine FROM processes WHERE id <> ?`
	deleteStaleProcess = `DELETE FROM processes WHERE id = ? AND beats = ?`
	deleteProcess      = `DELETE FROM processes WHERE id = ?`
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
	poll := func() (all map[string]process, err error) {
		err = db.Read(ctx, func(r *sqldb.Reader) (err error) {
			all, err = processesBesides(r, "")
			return err
		})
		return all, err
	}
	before, err := poll()
	if err != nil || len(before) == 0 {
		return 0, err
	}
	if err := clock.RealSleep(ctx, missedBeats*defaultPoll); err != nil {
		return 0, err
	}
	now, err := poll()
	for id, p := range now {
		if old, known := before[id]; !known || p.beats != old.beats {
			alive++
		}
	}
	return alive, err
}

// join adds this process to a shared database with a new id. The process loses the leadership of its earlier id.
func (e *Engine) join(ctx context.Context) error {
	id, sentAt, number := uuid.NewString(), time.Now(), int64(0)
	err := e.DB.Write(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Lock("processes"); err != nil {
			return err
		}
		return tx.QueryRow(insertProcess, id, e.Node.URL, e.Node.FolderID).Scan(&number)
	})
	if err == nil {
		e.loading.Lock()
		defer e.loading.Unlock()
		e.closeQueues() // before later changes have the new id
		e.number.Store(number)
		e.id.Store(&id)
		e.beatAt.Store(&sentAt)
	}
	return err
}

// Process returns this process's id on a shared database, or "". If other processes remove this process, it gets a
// new id.
func (e *Engine) Process() string { return *e.id.Load() }

// watchOthers calls beat at every poll until ctx ends.
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
		err := e.beat(ctx, seen)
		if err != nil && !failing && ctx.Err() == nil && !sqldb.Temporary(err) {
			e.Logger.Error("checking the other processes that share the database", "error", err)
		}
		if failing = err != nil; failing {
			clear(seen) // the other processes may also have failed to send their heartbeats
		}
	}
}

// beat sends this process's heartbeat, and removes dead processes.
func (e *Engine) beat(ctx context.Context, seen map[string]process) error {
	var others map[string]process
	wasRemoved, sentAt := false, time.Now()
	err := e.DB.Write(ctx, func(tx *sqldb.Tx) (err error) {
		n, err := tx.Exec(beatProcess, e.Process())
		wasRemoved = n == 0
		if err != nil {
			return err
		}
		others, err = processesBesides(tx, e.Process())
		return err
	})
	if err != nil {
		return err
	}
	if wasRemoved {
		clear(seen)
		e.Logger.Warn("this process did not reach the database for so long that others took over its work: it joins them again")
		if err := e.join(ctx); err != nil {
			return err
		}
		e.dropLeadership() // after join, so that later changes have the new id
		return nil
	}
	e.beatAt.Store(&sentAt)
	e.others.Store(&others)
	return e.removeDead(ctx, others, seen)
}

// removeDead removes processes without heartbeats. seen has the other processes with their missed beats.
func (e *Engine) removeDead(ctx context.Context, others, seen map[string]process) error {
	maps.DeleteFunc(seen, func(id string, _ process) bool { _, alive := others[id]; return !alive })
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
		n, err := e.exec(ctx, deleteStaleProcess, id, other.beats)
		if err != nil {
			return err
		}
		if n > 0 {
			delete(seen, id)
			e.Logger.Warn("a process that shares the database died: its jobs are dispatched once more", "process", id)
		}
	}
	return nil
}

// processesBesides returns the processes on the database by id, except the process ownID.
func processesBesides(q sqldb.Querier, ownID string) (map[string]process, error) {
	others := map[string]process{}
	err := q.Each(func(row sqldb.Row) error {
		var id string
		var p process
		err := row.Scan(&id, &p.beats, &p.node.URL, &p.node.FolderID)
		others[id] = p
		return err
	}, otherProcesses, ownID)
	return others, err
}

// Listen calls f for the announcements of other processes until the database is closed. f must not block. Call
// Listen once.
func (e *Engine) Listen(f func(kind, id string)) {
	e.DB.Listen(func(hint string) {
		if kind, id, ok := strings.Cut(hint, "\t"); ok {
			f(kind, id)
		}
	})
}

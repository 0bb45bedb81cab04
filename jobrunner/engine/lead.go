package engine

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// One of the processes that share a database leads an endpoint. Only the leader has the
// endpoint's queue and starts workers, so that the maximum number of workers holds for the
// whole deployment. The leadership is a row with the process and an epoch, which grows when
// another process becomes leader. A leadership ends by Release or Close, or if the process is removed
// because its heartbeats stopped (shared.go): the process's commits then fail. If that process
// comes back, it gets a new id.

const (
	// claimLeadership makes a live process the leader of an endpoint, unless another live
	// process leads it.
	// Arguments: the endpoint, and the process.
	claimLeadership = `INSERT INTO leads (endpoint, process, epoch) SELECT ?, id, 1 FROM processes WHERE id = ?
		ON CONFLICT (endpoint) DO UPDATE SET process = excluded.process, epoch = leads.epoch + CASE WHEN leads.process = excluded.process THEN 0 ELSE 1 END
		WHERE leads.process = excluded.process OR leads.process NOT IN (SELECT id FROM processes)
		RETURNING epoch`
	releaseLeadership = `UPDATE leads SET process = '' WHERE endpoint = ? AND process = ? AND epoch = ?`
	deleteLeadership  = `DELETE FROM leads WHERE endpoint = ?`
	selectLeaders     = `SELECT leads.endpoint, leads.process, leads.epoch, processes.url FROM leads JOIN processes ON processes.id = leads.process`
)

// Node is one of the processes that share a database.
type Node struct {
	URL      string // where the other processes reach it
	FolderID string // the id of its data folder
}

// Leadership is a process's right to run an endpoint. Its epoch is the fencing token.
type Leadership struct {
	Process string
	Epoch   int64
}

// Leader is the process that leads an endpoint.
type Leader struct {
	Leadership
	URL string
	Own bool // this process is the leader
}

const (
	EndpointChanged   = "endpoint" // an endpoint was created, changed or deleted
	LeadershipChanged = "lead"     // the leadership of an endpoint was released
	PodChanged        = "pod"
)

// Announce notifies the other processes of a change of an object.
func (e *Engine) Announce(kind, id string) {
	if e.DB.Shared() {
		e.DB.Notify(kind + "\t" + id)
	}
}

// Nodes returns the other processes that share the database.
func (e *Engine) Nodes() (nodes []Node) {
	for _, other := range *e.others.Load() {
		nodes = append(nodes, other.node)
	}
	return nodes
}

// Claim makes this process the leader of each given endpoint that no live process leads. It
// returns the given endpoints that this process leads now.
func (e *Engine) Claim(ctx context.Context, endpoints ...string) (map[string]Leadership, error) {
	claimed := map[string]Leadership{}
	slices.Sort(endpoints) // one order of locking prevents deadlocks
	id := e.Process()
	e.loading.Lock() // so that Release is not between the claim and the load
	defer e.loading.Unlock()
	err := e.DB.WriteWithReservedSpace(ctx, func(tx *sqldb.Tx) error {
		clear(claimed)
		for _, endpoint := range endpoints {
			var epoch int64
			err := tx.QueryRow(claimLeadership, endpoint, id).Scan(&epoch)
			switch {
			case err == nil:
				claimed[endpoint] = Leadership{id, epoch}
			case !errors.Is(err, sql.ErrNoRows):
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err // claims that weren't committed are in claimed, too
	}
	for endpoint, l := range claimed {
		err = errors.Join(err, e.loadQueues(ctx, l.Epoch, endpoint, BatchQueue(endpoint)))
	}
	return claimed, err
}

func (e *Engine) closeQueues() {
	for _, q := range e.loadedQueues() {
		q.mu.Lock()
		q.close()
		q.mu.Unlock()
	}
}

// dropLeadership closes all queues and drops their changes, pending and open, because other processes have removed
// this process. If it has joined again since the pending changes, it keeps its new queues.
func (e *Engine) dropLeadership(pending ...*commit) {
	if pending == nil || pending[0].process == e.Process() {
		e.closeQueues()
		e.commits.mu.Lock()
		pending = append(pending, e.commits.renew())
		e.commits.mu.Unlock()
	}
	for _, p := range pending {
		p.fail(ErrNotLeader)
		e.spool.removeOf(p)
	}
}

// Release ends the leadership of an endpoint, which any process can then claim.
func (e *Engine) Release(ctx context.Context, endpoint string, l Leadership) error {
	e.loading.Lock()
	defer e.loading.Unlock()
	for _, name := range []string{endpoint, BatchQueue(endpoint)} {
		if q := e.loadedQueue(name); q != nil {
			q.mu.Lock()
			q.close()
			q.unlock()
		}
	}
	if err := e.commits.flush(); err != nil {
		return err
	}
	_, err := e.exec(ctx, releaseLeadership, endpoint, l.Process, l.Epoch)
	if err == nil {
		e.Announce(LeadershipChanged, endpoint)
	}
	return err
}

// Epoch returns the epoch of this process's leadership of an endpoint. own is true if no other process can
// have taken over the endpoint. A process that doesn't share its database leads all endpoints.
func (e *Engine) Epoch(endpoint string) (epoch int64, own bool) {
	if !e.DB.Shared() {
		return 0, true
	}
	q := e.loadedQueue(endpoint)
	if q == nil {
		return 0, false
	}
	return q.epoch, e.isAlive()
}

// Leaders returns the live leaders by endpoint.
func (e *Engine) Leaders(ctx context.Context) (map[string]Leader, error) {
	leaders, id := map[string]Leader{}, e.Process()
	err := e.DB.Each(ctx, func(row sqldb.Row) error {
		var endpoint string
		var l Leader
		err := row.Scan(&endpoint, &l.Process, &l.Epoch, &l.URL)
		l.Own = l.Process == id
		leaders[endpoint] = l
		return err
	}, selectLeaders)
	return leaders, err
}

// MayScale reports whether a leadership still lets this process start workers, without asking the
// database. A process that doesn't share its database may always start workers.
func (e *Engine) MayScale(l Leadership) bool {
	return !e.DB.Shared() || l.Process == e.Process() && e.isAlive()
}

// isAlive reports whether the last heartbeat is younger than half the time to a takeover.
func (e *Engine) isAlive() bool {
	beat := e.beatAt.Load()
	return beat != nil && time.Since(*beat) < missedBeats*e.poll/2
}

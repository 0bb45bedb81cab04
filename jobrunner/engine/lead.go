package engine

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// One of the processes that share a database leads an endpoint. Only the leader starts
// workers, so that the maximum number of workers holds for the whole deployment. A lead is
// a row with the process and an epoch. The epoch is a fencing token: it grows when another
// process becomes leader, and a worker takes no job if its epoch is out of date. A lead
// ends when its process is removed because its heartbeat stopped (shared.go); a process
// that comes back gets a new id.

// Node is one of the processes that share a database.
type Node struct {
	URL     string // where the other processes reach it
	Machine string // the id of its data folder
}

// Lead is a process's right to scale an endpoint.
type Lead struct {
	Process string
	Epoch   int64
}

// Leader is the process that leads an endpoint.
type Leader struct {
	Lead
	URL     string
	Own     bool   // this process is the leader
	Failure string // why none of the endpoint's workers can run, or ""
}

// The kinds of announcements between processes.
const (
	Queued          = "queued"   // an endpoint has a new job
	EndpointChanged = "endpoint" // an endpoint was created, changed or deleted
	LeadChanged     = "lead"     // the lead of an endpoint was released
	PodChanged      = "pod"
)

// Announce notifies the other processes of a change of an object.
func (e *Engine) Announce(kind, id string) {
	if e.db.Shared() {
		e.db.Notify(kind + "\t" + id)
	}
}

// Nodes returns the other processes that share the database.
func (e *Engine) Nodes() []Node {
	if nodes := e.others.Load(); nodes != nil {
		return slices.Clone(*nodes)
	}
	return nil
}

// Claim makes this process the leader of the endpoints that no live process leads. It
// returns this process's leads of the given endpoints.
func (e *Engine) Claim(ctx context.Context, endpoints ...string) (map[string]Lead, error) {
	own := map[string]Lead{}
	if len(endpoints) == 0 {
		return own, nil
	}
	slices.Sort(endpoints) // one order of locking prevents deadlocks
	id := e.Process()
	err := e.writeWithReserve(ctx, func(tx *sqldb.Tx) error {
		clear(own)
		for _, endpoint := range endpoints {
			var epoch int64
			err := tx.QueryRow(claimLead, endpoint, id).Scan(&epoch)
			switch {
			case err == nil:
				own[endpoint] = Lead{id, epoch}
			case !errors.Is(err, sql.ErrNoRows):
				return err
			}
		}
		return nil
	})
	return own, err
}

// Release releases the lead of an endpoint, which any process can then claim.
func (e *Engine) Release(ctx context.Context, endpoint string, l Lead) error {
	_, err := execAlone(ctx, e.write, releaseLead, endpoint, l.Process, l.Epoch)
	if err == nil {
		e.Announce(LeadChanged, endpoint)
	}
	return err
}

// Leaders returns the live leaders by endpoint.
func (e *Engine) Leaders(ctx context.Context) (map[string]Leader, error) {
	leaders, id := map[string]Leader{}, e.Process()
	err := e.db.Read(ctx, func(r *sqldb.Reader) error {
		clear(leaders)
		return each(r, func(rows sqldb.Rows) error {
			var endpoint string
			var l Leader
			err := rows.Scan(&endpoint, &l.Process, &l.Epoch, &l.Failure, &l.URL)
			l.Own = l.Process == id
			leaders[endpoint] = l
			return err
		}, selectLeads)
	})
	return leaders, err
}

// SetFailure stores Leader.Failure of an endpoint that this process leads.
func (e *Engine) SetFailure(ctx context.Context, endpoint string, l Lead, failure string) error {
	_, err := execAlone(ctx, e.write, setLeadFailure, failure, endpoint, l.Process, l.Epoch)
	return err
}

// MayScale reports whether a lead still lets this process start workers, without asking the
// database. The last heartbeat must be younger than half the time after which other processes
// take over.
func (e *Engine) MayScale(l Lead) bool {
	beat := e.beatAt.Load()
	return beat != nil && l.Process == e.Process() && time.Since(*beat) < missedBeats*e.poll/2
}

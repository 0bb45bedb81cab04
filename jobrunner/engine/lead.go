package engine

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Of the processes that share a database one leads an endpoint: it alone starts
// workers, so that their maximum is the deployment's. A lead is a row with the
// process and an epoch, which counts up whenever another process takes over; a
// worker's take names both, and takes nothing where they are not the row's any more.
// A lead ends with its process: that is struck off when its number stands still
// (shared.go), and has another id when it comes back.

// Node is a process among those that share a database.
type Node struct {
	URL     string // at which the others reach it
	Machine string // the id of its data folder
}

// Lead is the right of a process to scale an endpoint.
type Lead struct {
	Process string
	Epoch   int64
}

// Leader is the process that leads an endpoint.
type Leader struct {
	Lead
	URL     string
	Own     bool   // it is this one
	Failure string // why no worker of the endpoint can work; "": one can, or may yet
}

// What processes announce to each other.
const (
	Queued          = "queued"   // a job at an endpoint
	EndpointChanged = "endpoint" // it was created, changed or deleted
	LeadChanged     = "lead"     // of an endpoint: it was given up
	PodChanged      = "pod"
	LimitReached    = "limit" // of requests, or it is near: what is reserved of it is needed
)

// Announce hints to the other processes at what happened to an object.
func (e *Engine) Announce(kind, id string) {
	if e.db.Shared() {
		e.db.Notify(kind + "\t" + id)
	}
}

// Nodes are the other processes that share the database.
func (e *Engine) Nodes() []Node {
	if nodes := e.others.Load(); nodes != nil {
		return slices.Clone(*nodes)
	}
	return nil
}

// Process is the id of this process among those that share the database; it changes
// when the others have struck it off.
func (e *Engine) Process() string { return e.processID() }

// Claim takes the lead of those endpoints that no living process leads, and answers
// the leads that this process has of them.
func (e *Engine) Claim(ctx context.Context, endpoints ...string) (map[string]Lead, error) {
	own := map[string]Lead{}
	if len(endpoints) == 0 {
		return own, nil
	}
	slices.Sort(endpoints) // two processes that claim the same wait for each other in one direction
	id := e.processID()
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

// Release gives the lead of an endpoint up, to whoever claims it next.
func (e *Engine) Release(ctx context.Context, endpoint string, l Lead) error {
	err := e.write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(releaseLead, endpoint, l.Process, l.Epoch)
		return err
	})
	if err == nil {
		e.Announce(LeadChanged, endpoint)
	}
	return err
}

// Leaders are the processes that lead endpoints, by endpoint. One that no living
// process leads has none.
func (e *Engine) Leaders(ctx context.Context) (map[string]Leader, error) {
	leaders, id := map[string]Leader{}, e.processID()
	err := e.db.Read(ctx, func(r *sqldb.Reader) error {
		clear(leaders)
		return each(r, selectLeads, func(scan func(...any) error) error {
			var endpoint string
			var l Leader
			err := scan(&endpoint, &l.Process, &l.Epoch, &l.Failure, &l.URL)
			l.Own = l.Process == id
			leaders[endpoint] = l
			return err
		})
	})
	return leaders, err
}

// SetFailure has the other processes know why no worker of an endpoint can work that
// this one leads; "": one can, or may yet.
func (e *Engine) SetFailure(ctx context.Context, endpoint string, l Lead, failure string) error {
	return e.write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(setLeadFailure, failure, endpoint, l.Process, l.Epoch)
		return err
	})
}

// MayScale tells whether this process may start workers by a lead: it has the lead as
// far as it knows, and has shown the others that it is there in less than half of the
// time after which they take over. It costs no statement.
func (e *Engine) MayScale(l Lead) bool {
	beat := e.beatAt.Load()
	return beat != nil && l.Process == e.processID() && time.Since(*beat) < missedBeats*e.poll/2
}

package engine

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// slots is the number of tally rows of an endpoint. Concurrent transactions rarely update
// the same row and then wait for each other.
const slots = 16

// transition runs fn in a transaction of write, which is a method of sqldb.DB or Engine. It
// updates the tallies in the same transaction and applies the changes after the commit.
func (e *Engine) transition(ctx context.Context, write func(context.Context, func(*sqldb.Tx) error) error, fn func(tx *sqldb.Tx) ([]change, error)) ([]change, error) {
	var changes []change
	err := write(ctx, func(tx *sqldb.Tx) (err error) {
		if changes, err = fn(tx); err == nil && len(changes) > 0 {
			tx.Note(tallyOf(changes))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	e.apply(changes...)
	return changes, nil
}

// beforeCommit writes the unwritten jobs and the tallies of the transactions that are
// committed together.
func (e *Engine) beforeCommit(tx *sqldb.Tx, notes []any) error {
	if err := e.writeOut(tx); err != nil {
		return err
	}
	return e.tally(tx, notes)
}

// tally is a note with the sums of a transaction's changes.
type tally []endpointTally

type endpointTally struct {
	endpoint string
	counts   Counts
}

func tallyOf(changes []change) (t tally) {
	for _, c := range changes {
		if len(t) == 0 || t[len(t)-1].endpoint != c.endpoint {
			t = append(t, endpointTally{endpoint: c.endpoint})
		}
		t[len(t)-1].counts.count(c)
	}
	return t
}

// droppedEndpoint is a note that an endpoint was deleted.
type droppedEndpoint string

// tally writes the notes of the transactions that are committed together.
func (e *Engine) tally(tx *sqldb.Tx, notes []any) error {
	sums := map[string]*Counts{}
	for _, note := range notes {
		if dropped, ok := note.(droppedEndpoint); ok {
			delete(sums, string(dropped))
			if err := tx.Later(deleteTallies, string(dropped)); err != nil {
				return err
			}
			if e.db.Shared() {
				if err := tx.Later(deleteLead, string(dropped)); err != nil {
					return err
				}
			}
			continue
		}
		for _, one := range note.(tally) {
			if sums[one.endpoint] == nil {
				sums[one.endpoint] = new(Counts)
			}
			sums[one.endpoint].sum(one.counts)
		}
	}
	slot := 0
	if e.db.Shared() {
		slot = rand.N(slots)
	}
	for _, endpoint := range slices.Sorted(maps.Keys(sums)) { // one order of locking prevents deadlocks
		n := sums[endpoint]
		if *n == (Counts{}) {
			continue
		}
		if err := tx.Later(addTally, endpoint, slot, n.InQueue, n.waiting, n.InProgress, n.Completed, n.Failed, n.Retried); err != nil {
			return err
		}
	}
	return nil
}

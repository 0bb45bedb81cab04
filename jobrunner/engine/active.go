package engine

import (
	"context"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Active counts the jobs of all endpoints that have some which wait or run, in
// one statement, however many endpoints there are.
func (e *Engine) Active(ctx context.Context) (map[string]Counts, error) {
	active := map[string]Counts{}
	note := func(endpoint string, c Counts) {
		if c.InQueue > 0 || c.InProgress > 0 {
			active[endpoint] = c
		}
	}
	if !e.db.Shared() {
		for _, endpoint := range e.Endpoints() {
			note(endpoint, e.localCounts(endpoint))
		}
		return active, nil
	}
	all := counts{all: map[string]*Counts{}}
	err := e.db.Read(ctx, func(r *sqldb.Reader) error {
		clear(all.all)
		return addTallies(r, all.of, selectTallies)
	})
	for endpoint, c := range all.all {
		note(endpoint, *c)
	}
	return active, err
}

package engine

import (
	"context"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Active returns the counts of all endpoints with queued or running jobs. It runs at most
// one statement.
func (e *Engine) Active(ctx context.Context) (map[string]Counts, error) {
	active := map[string]Counts{}
	add := func(endpoint string, c Counts) {
		if c.InQueue > 0 || c.InProgress > 0 {
			active[endpoint] = c
		}
	}
	if !e.db.Shared() {
		for _, endpoint := range e.Endpoints() {
			add(endpoint, e.localCounts(endpoint))
		}
		return active, nil
	}
	all := counts{byEndpoint: map[string]*Counts{}}
	err := e.db.Read(ctx, func(r *sqldb.Reader) error {
		clear(all.byEndpoint)
		return addTallies(r, all.entry, selectTallies)
	})
	for endpoint, c := range all.byEndpoint {
		add(endpoint, *c)
	}
	return active, err
}

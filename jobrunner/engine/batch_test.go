package engine

import (
	"errors"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Batches are listed in the order of their creation, whatever their ids. A change that can't be stored isn't shown, and
// the number of batches is limited.
func TestBatchList(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: t.TempDir(), NoSync: true})
	first := must.Do(e.CreateBatch(t.Context(), "ep", nil))(t)
	q := must.Do(e.lock(t.Context(), "ep-batch"))(t)
	b := must.Do(q.findBatch(first.ID))(t)
	b.id = "z"
	q.unlock()
	second := must.Do(e.CreateBatch(t.Context(), "ep", nil))(t)
	all, _, err := e.Batches(t.Context(), "ep", 0, 2)
	must.Hold(t, err == nil && len(all) == 2 && all[0].ID == second.ID, "after", first.ID, "and", second.ID, "the list is", all, err)
	q.mu.Lock()
	b.id, b.name = first.ID, "unstored"
	for k := range int64(maxBatches) {
		q.batches[k] = &batch{verdict: BatchCancelled, deleteAt: never}
	}
	q.mu.Unlock()
	_, err = e.CreateBatch(t.Context(), "ep", nil)
	refused, ok := errors.AsType[*BatchRefused](err)
	must.Hold(t, ok && refused.TooManyActive, "creating a batch above the limit returned", err)
	e.commits.currentErr.Store(&sqldb.ErrUnavailable)
	must.Equal(t, must.Do(e.Batch(t.Context(), "ep", first.ID))(t).Name, "", "the name of the batch")
	e.commits.currentErr.Store(nil)
}

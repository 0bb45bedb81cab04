package engine

import (
	"errors"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Batches are listed in the order of their creation, and without changes that aren't stored. Their number is limited.
func TestBatchList(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: t.TempDir(), NoSync: true})
	must.Do(e.CreateBatch(t.Context(), "ep", nil))(t)
	q := must.Do(e.lock(t.Context(), "ep-batch"))(t)
	for _, b := range q.batches {
		b.id, b.name = "z", "unstored"
	}
	for k := range int64(maxBatches - 2) {
		q.batches[-k-1] = &batch{verdict: BatchCancelled, deleteAt: never}
	}
	q.unlock()
	second := must.Do(e.CreateBatch(t.Context(), "ep", nil))(t)
	refused, ok := errors.AsType[*BatchRefused](must.Err(e.CreateBatch(t.Context(), "ep", nil)))
	must.Hold(t, ok && refused.TooManyActive, "creating a batch above the limit returned", refused)
	all, _, err := e.Batches(t.Context(), "ep", 0, 2)
	must.Hold(t, err == nil && len(all) == 2 && all[0].ID == second.ID && all[1].ID == "z", "the list is", all, err)
	e.commits.currentErr.Store(&sqldb.ErrUnavailable)
	all, total, err := e.Batches(t.Context(), "ep", 1, 1)
	must.Hold(t, err == nil && total == 2 && all[0].Name == "", "the stored list has", all, err)
	e.commits.currentErr.Store(nil)
}

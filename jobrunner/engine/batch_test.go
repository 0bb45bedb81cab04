package engine

import (
	"errors"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Batches are listed in the order of their creation, whatever their ids, and the list doesn't grow without a limit.
func TestBatchList(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{})
	first := must.Do(e.CreateBatch(t.Context(), "ep", nil))(t)
	q, b, err := e.lockBatch(t.Context(), "ep", first.ID)
	must.Succeed(t, err)
	b.id = "z"
	q.unlock()
	second := must.Do(e.CreateBatch(t.Context(), "ep", nil))(t)
	all, _, err := e.Batches(t.Context(), "ep", 0, 2)
	must.Hold(t, err == nil && len(all) == 2 && all[0].ID == second.ID, "after", first.ID, "and", second.ID, "the list is", all, err)
	q.mu.Lock()
	for k := range int64(maxBatches) {
		q.batches[k] = &batch{verdict: BatchCancelled, deleteAt: never}
	}
	q.mu.Unlock()
	_, err = e.CreateBatch(t.Context(), "ep", nil)
	refused, ok := errors.AsType[*BatchRefused](err)
	must.Hold(t, ok && refused.TooManyActive, "creating a batch above the limit returned", err)
}

package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// expectBatch checks a batch's state and its numbers of requests: "FINALIZED 4 1 2 0" means 4 requests, of which 1
// is running, 2 are completed and 0 have failed.
func (t *tester) expectBatch(id, want string) {
	t.Helper()
	b, err := t.Batch(t.ctx, "ep", id)
	got := fmt.Sprintf("%s %d %d %d %d", b.State, b.Total, b.InProgress, b.Completed, b.Failed)
	must.Hold(t, err == nil && got == want, "the batch is", got, err, "want", want)
}

func (t *tester) expectRequests(id string, want ...string) {
	t.Helper()
	all, total, err := t.Requests(t.ctx, "ep", id, 0, 100, 1<<20)
	var got []string
	for _, r := range all {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s%s", r.State, r.Output, r.Error)))
	}
	must.Hold(t, err == nil && total == len(want) && strings.Join(got, ", ") == strings.Join(want, ", "), "the requests are", got, "of", total, err, "want", want)
}

func testBatches(t *tester) {
	b, err := t.CreateBatch(t.ctx, "ep", inputs(2))
	must.Require(t, err == nil && b.State == engine.BatchDraft && b.Total == 2, "got", b, err)
	_, added, err := t.AddRequests(t.ctx, "ep", b.ID, inputs(3))
	must.Require(t, err == nil && len(added) == 3, "added", added, err)
	must.Do(t.RemoveRequest(t.ctx, "ep", b.ID, added[1]))(t)
	must.ErrorIs(t, must.Err(t.RemoveRequest(t.ctx, "ep", b.ID, added[1])), engine.ErrNoRequest, "the same call again")
	t.expectBatch(b.ID, "DRAFT 4 0 0 0")
	t.expectEmptyQueue("ep-batch")
	t.restart()
	t.expectBatch(b.ID, "DRAFT 4 0 0 0")
	for range 2 { // the second call is a no-op
		must.Do(t.FinalizeBatch(t.ctx, "ep", b.ID))(t)
	}
	t.expectBatch(b.ID, "FINALIZED 4 0 0 0")
	t.expectEmptyQueue("ep") // the queue of /run doesn't have the requests
	must.Equal(t, t.Counts("ep"), engine.Counts{}, "the endpoint's own counts")
	var refused *engine.BatchRefused
	_, _, err = t.AddRequests(t.ctx, "ep", b.ID, inputs(1))
	must.Hold(t, errors.As(err, &refused), "adding a request to a finalized batch returned", err)
	_, err = t.RemoveRequest(t.ctx, "ep", b.ID, added[0])
	must.Hold(t, errors.As(err, &refused), "removing a request of a finalized batch returned", err)
	for i, report := range []engine.Report{engine.Done([]byte(`"out"`)), engine.Fail("no", nil)} {
		job := t.take(batchTake)
		t.expectBatch(b.ID, fmt.Sprintf("FINALIZED 4 1 %d 0", i))
		t.report(job.Ref, report, engine.Accepted)
	}
	t.report(t.take(batchTake).Ref, engine.Lost(""), engine.Accepted)
	t.expectRequests(b.ID, `COMPLETED "out"`, "FAILED no", "IN_QUEUE", "IN_QUEUE")
	t.report(t.take(batchTake).Ref, engine.Lost(""), engine.Accepted)
	t.report(t.take(batchTake).Ref, engine.Done(nil), engine.Accepted)
	t.expectEmptyQueue("ep-batch")
	t.expectBatch(b.ID, "FINALIZED 4 0 2 2")
	must.Equal(t, must.Do(t.CancelBatch(t.ctx, "ep", b.ID))(t).State, engine.BatchFinalized, "the cancelled batch, whose requests had ended")
	t.advance(24 * time.Hour)
	t.expectBatch(b.ID, "FINALIZED 4 0 2 2") // results are kept
	t.advance(7 * 24 * time.Hour)
	must.ErrorIs(t, must.Err(t.Batch(t.ctx, "ep", b.ID)), engine.ErrNoBatch, "reading a batch after its retention")
}

// A cancelled or failed batch cancels its queued requests, and is CANCELLED or FAILED when its running ones have ended.
func testBatchEndsEarly(t *tester) {
	for _, verdict := range []engine.BatchState{engine.BatchCancelled, engine.BatchFailed} {
		b := must.Do(t.CreateBatch(t.ctx, "ep", inputs(3)))(t)
		must.Do(t.FinalizeBatch(t.ctx, "ep", b.ID))(t)
		long := batchTake
		long.Timeout = 7 * 24 * time.Hour
		if verdict == engine.BatchFailed {
			t.advance(6 * 24 * time.Hour)
		}
		t.take(long)
		if verdict == engine.BatchFailed {
			t.advance(24 * time.Hour)
		} else {
			for range 2 {
				must.Do(t.CancelBatch(t.ctx, "ep", b.ID))(t)
			}
		}
		t.expectBatch(b.ID, "FINALIZED 3 1 0 0")
		t.expectEmptyQueue("ep-batch")
		c := t.Counts("ep-batch")
		must.Hold(t, c.InQueue == 0 && c.InProgress == 1, "the queue counts", c)
		must.Hold(t, must.Err(t.FinalizeBatch(t.ctx, "ep", b.ID)) != nil, "a batch that will be", verdict, "was finalized again")
		t.restart()
		t.report(t.take(long).Ref, engine.Done([]byte(`1`)), engine.Accepted) // requeued after the restart
		t.expectBatch(b.ID, string(verdict)+" 3 0 1 0")
		t.expectRequests(b.ID, "COMPLETED 1", "CANCELLED", "CANCELLED")
		must.Succeed(t, t.DropEndpoint(t.ctx, "ep"))
		must.ErrorIs(t, must.Err(t.Batch(t.ctx, "ep", b.ID)), engine.ErrNoBatch, "a batch of a deleted endpoint")
	}
	draft := must.Do(t.CreateBatch(t.ctx, "ep", inputs(1)))(t)
	must.Equal(t, must.Do(t.CancelBatch(t.ctx, "ep", draft.ID))(t).State, engine.BatchCancelled, "the cancelled draft")
	c := t.Counts("ep-batch")
	must.Hold(t, c.InQueue == 0 && c.InProgress == 0, "the queue counts", c)
}

func inputs(n int) (all [][]byte) {
	for i := range n {
		all = append(all, fmt.Appendf(nil, `{"n":%d}`, i))
	}
	return all
}

var batchTake = engine.Take{Endpoint: "ep-batch"}

func testBatchLimits(t *tester) {
	var refused *engine.BatchRefused
	err := must.Err(t.CreateBatch(t.ctx, "ep", inputs(engine.MaxBatchRequests+1)))
	must.Hold(t, errors.As(err, &refused) && !refused.TooManyActive, "creating a batch with too many requests returned", err)
	var ids []string
	for range engine.MaxActiveBatches {
		ids = append(ids, must.Do(t.CreateBatch(t.ctx, "ep", inputs(1)))(t).ID)
	}
	expectFull := func() {
		t.Helper()
		_, err := t.CreateBatch(t.ctx, "ep", nil)
		must.Hold(t, errors.As(err, &refused) && refused.TooManyActive, "creating a batch above the limit returned", err)
	}
	expectFull()
	must.Do(t.CreateBatch(t.ctx, "other", nil))(t)
	_, _, err = t.AddRequests(t.ctx, "ep", ids[0], inputs(engine.MaxBatchRequests))
	must.Hold(t, errors.As(err, &refused), "adding too many requests returned", err)
	t.expectBatch(ids[0], "DRAFT 1 0 0 0") // nothing was added
	_, _, err = t.AddRequests(t.ctx, "ep", ids[0], inputs(engine.MaxBatchRequests-1))
	must.Succeed(t, err)
	t.expectBatch(ids[0], "DRAFT 5000 0 0 0")
	must.Do(t.FinalizeBatch(t.ctx, "ep", ids[1]))(t)
	expectFull()
	t.report(t.take(batchTake).Ref, engine.Fail("no", nil), engine.Accepted)
	must.Do(t.CreateBatch(t.ctx, "ep", nil))(t)
	expectFull()
	must.Do(t.CancelBatch(t.ctx, "ep", ids[2]))(t)
	batches, total, err := t.Batches(t.ctx, "ep", 1, 2)
	must.Hold(t, err == nil && total == 11 && len(batches) == 2 && batches[0].ID == ids[9] && batches[1].ID == ids[8], "the second and third batch are", batches, "of", total, err)
	t.advance(7 * 24 * time.Hour) // the retention of drafts
	batches, total, err = t.Batches(t.ctx, "ep", 0, 20)
	must.Hold(t, err == nil && total == 1 && batches[0].ID == ids[1], "after the retention of drafts, the batches are", batches, "of", total, err)
	c := t.Counts("ep-batch")
	must.Hold(t, c.InQueue == 0 && c.InProgress == 0, "the queue counts", c)
}

package engine

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// settleBatches settles all due batches.
func (e *Engine) settleBatches(ctx context.Context) error {
	for {
		due, err := readAll(ctx, e.db, func(rows sqldb.Rows) (k int64, err error) {
			err = rows.Scan(&k)
			return k, err
		}, selectDueBatches, e.now())
		if err != nil || len(due) == 0 {
			return err
		}
		for _, k := range due {
			if err := e.settleBatch(ctx, k); err != nil {
				return err
			}
		}
	}
}

// settleBatch queues the requests of a FINALIZED batch, cancels the requests of a batch that ends,
// and deletes an expired batch. It does nothing unless the batch is due. It uses several
// short transactions so that others don't wait for long.
func (e *Engine) settleBatch(ctx context.Context, k int64) error {
	limit := e.newTxLimit()
	for settled := false; !settled; {
		var took time.Duration
		changes, err := e.transition(ctx, e.writeWithReserve, func(tx *sqldb.Tx) (changes []change, err error) {
			now, begin := e.now(), time.Now()
			b, err := lockBatch(tx, dueBatch, k, now)
			if errors.Is(err, sql.ErrNoRows) {
				settled = true
				return nil, nil
			}
			if err == nil {
				changes, settled, err = b.settle(tx, now, limit.jobs)
			}
			took = time.Since(begin)
			return changes, err
		})
		if err != nil {
			return err
		}
		limit.adapt(max(1, len(changes)), took)
	}
	return nil
}

// settle updates at most limit requests and reports whether the batch is settled.
func (b batchRow) settle(tx *sqldb.Tx, now int64, limit int) (changes []change, settled bool, err error) {
	if b.gone <= now {
		_, err = tx.Exec(deleteBatch, b.k)
		return nil, true, err
	}
	if b.verdict == "" && b.state == BatchFinalized && b.ends <= now && b.unfinished > 0 {
		b.verdict = BatchFailed
		if _, err := tx.Exec(endBatch, b.verdict, now, b.k); err != nil {
			return nil, false, err
		}
	}
	var moved []change
	next := b.gone
	switch {
	case b.verdict != "":
		if changes, err = update(tx, Cancelled, cancelRequests, now, now, b.k, InQueue, limit); err != nil {
			return nil, false, err
		}
		for i := range changes {
			changes[i].from = InQueue
		}
		moved, err = update(tx, Cancelled, cancelRequests, now, now, b.k, draft, limit) // drafts aren't in any count
		moved = append(moved, changes...)
	case b.state == BatchFinalized && b.ends > now:
		next = b.ends
		changes, err = update(tx, InQueue, releaseRequests, now, now, now, b.gone, b.gone, b.k, limit)
		for i := range changes {
			changes[i].from = absent
		}
		moved = changes
	}
	if err != nil || len(moved) > 0 {
		return changes, false, err
	}
	_, err = tx.Exec(setBatchDue, next, b.k)
	return nil, true, err
}

// dropBatches deletes a deleted endpoint's batches and their requests.
func (e *Engine) dropBatches(ctx context.Context, endpoint string) error {
	if IsBatchQueue(endpoint) {
		return nil
	}
	if _, err := execAlone(ctx, e.writeWithReserve, deleteBatchesOf, endpoint); err != nil {
		return err
	}
	return e.DropEndpoint(ctx, BatchQueue(endpoint))
}

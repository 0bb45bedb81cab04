package engine

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// A batch is a row, and each of its requests is a job in the endpoint's second queue
// (BatchQueue), which has its own workers. Until the batch is FINALIZED, its requests are
// DRAFT jobs, which no worker takes. Finalizing and cancelling change the requests in
// several transactions (settleBatch). After a crash any process continues them, because
// the row records when settleBatch is due.
//
//	DRAFT ──finalize──> FINALIZED ──cancel, and the running requests end──> CANCELLED
//	  └────────────────cancel────────────────────────────────────────────> CANCELLED
//	                    FINALIZED ──its time is over──────────────────────> FAILED
//
// A FINALIZED batch is done when all its requests have ended in any state.

// BatchState is a batch's status, as in the API.
type BatchState string

// The four statuses.
const (
	BatchDraft     BatchState = "DRAFT"
	BatchFinalized BatchState = "FINALIZED"
	BatchFailed    BatchState = "FAILED"
	BatchCancelled BatchState = "CANCELLED"
)

// draft is the state of a request until its batch is finalized.
const draft State = "DRAFT"

// Limits of batches.
const (
	MaxActiveBatches = 10 // per endpoint: drafts, and batches with requests that have not ended
	MaxBatchRequests = 5000

	batchTimeout   = 7 * 24 * time.Hour          // from finalize until the batch FAILED
	batchRetention = batchTimeout + 24*time.Hour // from finalize until the batch is deleted
	draftRetention = 7 * 24 * time.Hour          // from creation
	queueSuffix    = "-batch"                    // no endpoint's id ends like this
)

// BatchQueue returns the name of an endpoint's batch queue. It is the Endpoint of the
// queue's jobs and workers.
func BatchQueue(endpoint string) string { return endpoint + queueSuffix }

// IsBatchQueue reports whether a queue is a batch queue.
func IsBatchQueue(queue string) bool { return strings.HasSuffix(queue, queueSuffix) }

// EndpointOf returns the endpoint of a queue.
func EndpointOf(queue string) string { return strings.TrimSuffix(queue, queueSuffix) }

// Batch is a batch's current state, in the JSON of the job API.
type Batch struct {
	ID         string     `json:"id"`
	Endpoint   string     `json:"endpointId"`
	Name       string     `json:"name,omitempty"`
	State      BatchState `json:"status"`
	Created    time.Time  `json:"-"`
	Total      int        `json:"requestTotal"`
	InProgress int        `json:"requestInProgress"`
	Completed  int        `json:"requestCompleted"`
	Failed     int        `json:"requestFailed"` // or timed out
}

// Request is the current state of a batch's request.
type Request struct {
	Job
	Size               int       // of the output in bytes, even if Output is left out
	Started, Completed time.Time // zero: not yet
}

// Errors of batches.
var (
	ErrNoBatch   = errors.New("no such batch: its id is unknown on this endpoint, or it is deleted")
	ErrNoRequest = errors.New("the batch has no such request")
)

// BatchRefused explains why a change of a batch was rejected.
type BatchRefused struct {
	Reason string
	Active bool // the endpoint has too many active batches at the moment
}

func (e *BatchRefused) Error() string { return e.Reason }

// batchRow has the columns of a batch that its changes depend on. The schema explains them.
type batchRow struct {
	k                 int64
	state, verdict    BatchState
	ends, gone        int64
	total, unfinished int // requests
}

func (b batchRow) checkDraft() error {
	if b.verdict != "" || b.state != BatchDraft {
		return &BatchRefused{Reason: fmt.Sprintf("only a batch that is %s can be changed; this one is %s", BatchDraft, cmp.Or(b.verdict, b.state))}
	}
	return nil
}

// CreateBatch creates a DRAFT with a request for each input.
func (e *Engine) CreateBatch(ctx context.Context, endpoint string, inputs [][]byte) (Batch, error) {
	id := uuid.Must(uuid.NewV7()).String()
	err := e.write(ctx, func(tx *sqldb.Tx) error {
		now := e.now()
		if e.db.Shared() { // else concurrent creates could exceed the limit
			if _, err := tx.Exec(lockLead, endpoint); err != nil {
				return err
			}
		}
		var active int
		if err := tx.QueryRow(countActive, endpoint, now).Scan(&active); err != nil {
			return err
		}
		if active >= MaxActiveBatches {
			return &BatchRefused{Active: true, Reason: fmt.Sprintf("this endpoint has %d active batches, which is the most: finalize or cancel drafts, or wait until the requests of a batch have ended", active)}
		}
		gone := now + draftRetention.Milliseconds()
		k, err := tx.Insert(insertBatch, endpoint, id, now, gone, gone)
		if err != nil {
			return err
		}
		_, err = e.insertRequests(tx, endpoint, batchRow{k: k, gone: gone}, inputs, now)
		return err
	})
	if err != nil {
		return Batch{}, err
	}
	return e.Batch(ctx, endpoint, id)
}

// AddRequests adds requests to a DRAFT and returns their ids. If it fails, it adds none.
func (e *Engine) AddRequests(ctx context.Context, endpoint, id string, inputs [][]byte) (b Batch, ids []string, err error) {
	b, err = e.changeBatch(ctx, endpoint, id, func(tx *sqldb.Tx, row batchRow, now int64) (err error) {
		if err := row.checkDraft(); err != nil {
			return err
		}
		ids, err = e.insertRequests(tx, endpoint, row, inputs, now)
		return err
	})
	return b, ids, err
}

func (e *Engine) insertRequests(tx *sqldb.Tx, endpoint string, b batchRow, inputs [][]byte, now int64) (ids []string, err error) {
	if n := b.total + len(inputs); n > MaxBatchRequests {
		return nil, &BatchRefused{Reason: fmt.Sprintf("a batch has at most %d requests: with these it would have %d", MaxBatchRequests, n)}
	}
	size := 0
	for _, input := range inputs {
		size += len(input)
	}
	if err := tx.CheckRoom(size, sqldb.ForJobs); err != nil {
		return nil, err
	}
	queue := BatchQueue(endpoint)
	var requests, contents [][]any
	for _, input := range inputs {
		id := NewJob{}.newID()
		requests = append(requests, []any{queue, id, batchRetention.Milliseconds(), now, now, now, b.gone, b.gone, b.k})
		contents = append(contents, []any{queue, id, input, []byte(nil)})
		ids = append(ids, id)
	}
	err = tx.LaterEach(insertRequest, requests)
	return ids, errors.Join(err, tx.LaterEach(insertInput, contents))
}

// RemoveRequest removes a request from a DRAFT.
func (e *Engine) RemoveRequest(ctx context.Context, endpoint, id, request string) (Batch, error) {
	return e.changeBatch(ctx, endpoint, id, func(tx *sqldb.Tx, row batchRow, _ int64) error {
		if err := row.checkDraft(); err != nil {
			return err
		}
		n, err := tx.Exec(deleteRequest, BatchQueue(endpoint), request, row.k)
		if err == nil && n == 0 {
			err = ErrNoRequest
		}
		return err
	})
}

// RenameBatch names a batch, in any state.
func (e *Engine) RenameBatch(ctx context.Context, endpoint, id, name string) (Batch, error) {
	return e.changeBatch(ctx, endpoint, id, func(tx *sqldb.Tx, row batchRow, _ int64) error {
		_, err := tx.Exec(renameBatch, name, row.k)
		return err
	})
}

// FinalizeBatch locks a DRAFT and queues its requests: DRAFT → FINALIZED. It does nothing
// if the batch is FINALIZED already.
func (e *Engine) FinalizeBatch(ctx context.Context, endpoint, id string) (Batch, error) {
	return e.changeBatch(ctx, endpoint, id, func(tx *sqldb.Tx, row batchRow, now int64) error {
		if row.verdict == "" && row.state == BatchFinalized {
			return nil
		}
		if err := row.checkDraft(); err != nil {
			return err
		}
		_, err := tx.Exec(finalizeBatch, now+batchTimeout.Milliseconds(), now+batchRetention.Milliseconds(), now, row.k)
		return err
	})
}

// CancelBatch cancels the queued requests. When the running requests have ended, the batch
// is CANCELLED. It does nothing if all requests have ended already.
func (e *Engine) CancelBatch(ctx context.Context, endpoint, id string) (Batch, error) {
	return e.changeBatch(ctx, endpoint, id, func(tx *sqldb.Tx, row batchRow, now int64) error {
		if row.verdict != "" || row.state == BatchFinalized && row.unfinished == 0 {
			return nil
		}
		_, err := tx.Exec(endBatch, BatchCancelled, now, row.k)
		return err
	})
}

// changeBatch locks a batch, changes it, updates its requests, and returns the batch.
func (e *Engine) changeBatch(ctx context.Context, endpoint, id string, change func(tx *sqldb.Tx, b batchRow, now int64) error) (Batch, error) {
	var row batchRow
	err := e.write(ctx, func(tx *sqldb.Tx) (err error) {
		now := e.now()
		row, err = lockBatch(tx, batchByID, endpoint, id, now)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoBatch
		}
		if err == nil {
			err = change(tx, row, now)
		}
		return err
	})
	if err != nil {
		return Batch{}, err
	}
	e.wake(e.now()) // the sweeper continues if settleBatch fails
	if err := e.settleBatch(ctx, row.k); err != nil {
		return Batch{}, err
	}
	return e.Batch(ctx, endpoint, id)
}

// lockBatch locks and reads the batch that matches a condition.
func lockBatch(tx *sqldb.Tx, which string, args ...any) (b batchRow, err error) {
	if _, err := tx.Exec(lockBatchRow+which+`{lock}`, args...); err != nil {
		return b, err
	}
	err = tx.QueryRow(selectBatchRow+which, args...).Scan(&b.k, &b.state, &b.verdict, &b.ends, &b.gone, &b.total, &b.unfinished)
	return b, err
}

// Batch reads a batch. It returns ErrNoBatch if the batch doesn't exist.
func (e *Engine) Batch(ctx context.Context, endpoint, id string) (Batch, error) {
	batches, err := e.readBatches(ctx, selectBatch, endpoint, id, e.now())
	if err == nil && len(batches) == 0 {
		err = ErrNoBatch
	}
	if err != nil {
		return Batch{}, err
	}
	return batches[0], nil
}

// Batches reads a page of an endpoint's batches, the newest first, and their total number.
func (e *Engine) Batches(ctx context.Context, endpoint string, offset, limit int) (batches []Batch, total int, err error) {
	now := e.now()
	err = e.db.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(countBatches, endpoint, now).Scan(&total)
	})
	if err == nil {
		batches, err = e.readBatches(ctx, selectBatches, endpoint, now, limit, offset)
	}
	return batches, total, err
}

func (e *Engine) readBatches(ctx context.Context, query string, args ...any) ([]Batch, error) {
	return readAll(ctx, e.db, func(rows sqldb.Rows) (b Batch, err error) {
		var verdict BatchState
		var created int64
		var left int
		err = rows.Scan(&b.Endpoint, &b.ID, &b.Name, &b.State, &verdict, &created, &b.Total, &b.InProgress, &b.Completed, &b.Failed, &left)
		if verdict != "" && left == 0 {
			b.State = verdict
		}
		b.Created = fromMillis(created)
		return b, err
	}, query, args...)
}

// Requests reads a page of a batch's requests, the oldest first, and their total number.
// It leaves out outputs of more than maxOutput bytes.
func (e *Engine) Requests(ctx context.Context, endpoint, id string, offset, limit, maxOutput int) (requests []Request, total int, err error) {
	b, err := e.Batch(ctx, endpoint, id)
	if err != nil {
		return nil, 0, err
	}
	requests, err = readAll(ctx, e.db, func(rows sqldb.Rows) (q Request, err error) {
		var started, finished int64
		err = rows.Scan(&q.ID, &q.State, &started, &finished, &q.Output, &q.Size, &q.Error)
		if q.State == draft {
			q.State = InQueue
		}
		if started > 0 {
			q.Started = fromMillis(started)
		}
		if finished > 0 {
			q.Completed = fromMillis(finished)
		}
		return q, err
	}, selectRequests, maxOutput, endpoint, id, limit, offset)
	return slices.Clip(requests), b.Total, err
}

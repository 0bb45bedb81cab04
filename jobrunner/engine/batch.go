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

// A batch is a row, and each of its requests is a job of a second queue of the endpoint
// (BatchQueue), which has workers of its own. A request is a DRAFT job, which no worker
// takes, until the batch is FINALIZED. Requests that are queued or dropped in many
// transactions go on after a crash, in any process: the row says until when it is to be
// looked at (settleBatch).
//
//	DRAFT ──finalize──> FINALIZED ──cancel, and the running requests end──> CANCELLED
//	  └────────────────cancel────────────────────────────────────────────> CANCELLED
//	                    FINALIZED ──its time is over──────────────────────> FAILED
//
// A FINALIZED batch is done when all its requests have ended, however they ended.

// BatchState is a batch's status, in the words of the API.
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
	MaxActiveBatches = 10 // of an endpoint: drafts, and those with requests that have not ended
	MaxBatchRequests = 5000

	batchRun  = 7 * 24 * time.Hour      // from finalize: then it FAILED
	batchKeep = batchRun + 24*time.Hour // from finalize: then it is deleted
	draftKeep = 7 * 24 * time.Hour      // from creation
	queueTail = "-batch"                // no endpoint's id ends so
)

// BatchQueue is the queue of the batches of an endpoint, which jobs and workers have as
// their endpoint.
func BatchQueue(endpoint string) string { return endpoint + queueTail }

// IsBatchQueue reports whether a queue is that of an endpoint's batches.
func IsBatchQueue(queue string) bool { return strings.HasSuffix(queue, queueTail) }

// EndpointOf is the endpoint of a queue.
func EndpointOf(queue string) string { return strings.TrimSuffix(queue, queueTail) }

// Batch is a batch as it stands.
type Batch struct {
	Endpoint, ID, Name string
	State              BatchState
	Created            time.Time
	Total              int // requests
	InProgress         int
	Completed          int
	Failed             int // also those that timed out
}

// Request is a request of a batch as it stands.
type Request struct {
	Job
	Size               int       // of the output, also if that is left out
	Started, Completed time.Time // zero: not yet
}

var (
	// ErrNoBatch says that there is no such batch.
	ErrNoBatch = errors.New("no such batch: its id is unknown on this endpoint, or it is deleted")
	// ErrNoRequest says that a batch has no such request.
	ErrNoRequest = errors.New("the batch has no such request")
)

// BatchRefused says why a batch can't be changed so.
type BatchRefused struct {
	Reason string
	Active bool // the endpoint has too many active batches at the moment
}

func (e *BatchRefused) Error() string { return e.Reason }

// batchRow is what a change of a batch depends on.
type batchRow struct {
	k              int64
	state, verdict BatchState
	ends, gone     int64
	total, left    int // requests, and those that have not ended
}

func (b batchRow) checkDraft() error {
	if b.verdict != "" || b.state != BatchDraft {
		return &BatchRefused{Reason: fmt.Sprintf("only a batch that is %s can be changed; this one is %s", BatchDraft, cmp.Or(b.verdict, b.state))}
	}
	return nil
}

// CreateBatch makes a DRAFT with requests, given by their inputs.
func (e *Engine) CreateBatch(ctx context.Context, endpoint string, inputs [][]byte) (Batch, error) {
	id := uuid.Must(uuid.NewV7()).String()
	err := e.write(ctx, func(tx *sqldb.Tx) error {
		now := e.now()
		if e.db.Shared() { // one create at a time
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
		gone := now + draftKeep.Milliseconds()
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

// AddRequests adds requests to a DRAFT, all or none, and returns their ids.
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
	if err := tx.Room(size, sqldb.ForJobs); err != nil {
		return nil, err
	}
	queue := BatchQueue(endpoint)
	var requests, contents [][]any
	for _, input := range inputs {
		id := NewJob{}.newID()
		requests = append(requests, []any{queue, id, batchKeep.Milliseconds(), now, now, now, b.gone, b.gone, b.k})
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

// FinalizeBatch locks a DRAFT and queues its requests: DRAFT → FINALIZED. One that is
// FINALIZED stays as it is.
func (e *Engine) FinalizeBatch(ctx context.Context, endpoint, id string) (Batch, error) {
	return e.changeBatch(ctx, endpoint, id, func(tx *sqldb.Tx, row batchRow, now int64) error {
		if row.verdict == "" && row.state == BatchFinalized {
			return nil
		}
		if err := row.checkDraft(); err != nil {
			return err
		}
		_, err := tx.Exec(finalizeBatch, now+batchRun.Milliseconds(), now+batchKeep.Milliseconds(), now, row.k)
		return err
	})
}

// CancelBatch drops the requests that wait; those that run end, and then the batch is
// CANCELLED. One whose requests have all ended stays as it is.
func (e *Engine) CancelBatch(ctx context.Context, endpoint, id string) (Batch, error) {
	return e.changeBatch(ctx, endpoint, id, func(tx *sqldb.Tx, row batchRow, now int64) error {
		if row.verdict != "" || row.state == BatchFinalized && row.left == 0 {
			return nil
		}
		_, err := tx.Exec(endBatch, BatchCancelled, now, row.k)
		return err
	})
}

// changeBatch runs a change in a transaction that has locked the batch, does what follows
// of it, and returns the batch as it is then.
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
	e.wake(e.now()) // if the process, or the database, does not get through
	if err := e.settleBatch(ctx, row.k); err != nil {
		return Batch{}, err
	}
	return e.Batch(ctx, endpoint, id)
}

// lockBatch waits for other changes of a batch before it counts the requests.
func lockBatch(tx *sqldb.Tx, which string, args ...any) (b batchRow, err error) {
	if _, err := tx.Exec(lockBatchRow+which+`{lock}`, args...); err != nil {
		return b, err
	}
	err = tx.QueryRow(selectBatchRow+which, args...).Scan(&b.k, &b.state, &b.verdict, &b.ends, &b.gone, &b.total, &b.left)
	return b, err
}

// Batch reads a batch: ErrNoBatch if there is none.
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

// Batches reads the batches of an endpoint, the newest first, and how many it has.
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

func (e *Engine) readBatches(ctx context.Context, query string, args ...any) (batches []Batch, err error) {
	err = e.db.Read(ctx, func(r *sqldb.Reader) (err error) {
		batches, err = collect(r, func(rows sqldb.Rows) (b Batch, err error) {
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
		return err
	})
	return batches, err
}

// Requests reads requests of a batch, in the order in which they were added, and how many
// it has. Outputs that are larger than most bytes are left out.
func (e *Engine) Requests(ctx context.Context, endpoint, id string, offset, limit, most int) (requests []Request, total int, err error) {
	b, err := e.Batch(ctx, endpoint, id)
	if err != nil {
		return nil, 0, err
	}
	err = e.db.Read(ctx, func(r *sqldb.Reader) (err error) {
		requests, err = collect(r, func(rows sqldb.Rows) (q Request, err error) {
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
		}, selectRequests, most, endpoint, id, limit, offset)
		return err
	})
	return slices.Clip(requests), b.Total, err
}

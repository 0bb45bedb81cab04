package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// A batch is a row, and each of its requests is a job in the endpoint's second queue
// (BatchQueue), which has its own workers. Until the batch is FINALIZED, its requests are
// DRAFT jobs, which no worker takes. Finalizing and cancelling change all its requests
// (queue.reconcile). If the process is killed before a commit, the next start or leader does this, because the
// stored batch shows what is left.
//
//	DRAFT ──finalize──> FINALIZED ──cancel, and the running requests end────────> CANCELLED
//	  └────────────────cancel──────────────────────────────────────────────────> CANCELLED
//	                    FINALIZED ──batchTimeout, and the running requests end──> FAILED
//
// A FINALIZED batch is done when all its requests have ended in any state.

// BatchState is a batch's status, as in the API.
type BatchState string

const (
	BatchDraft     BatchState = "DRAFT"
	BatchFinalized BatchState = "FINALIZED"
	BatchFailed    BatchState = "FAILED"
	BatchCancelled BatchState = "CANCELLED"
)

// draft is the state of a request until its batch is finalized.
const draft State = "DRAFT"

const (
	MaxActiveBatches = 10     // per endpoint: drafts, and batches with requests that have not ended
	maxBatches       = 20_000 // per endpoint: a batch is in memory until it is deleted
	MaxBatchRequests = 5000

	batchTimeout   = 7 * 24 * time.Hour          // from finalize until the batch FAILED
	batchRetention = batchTimeout + 24*time.Hour // from finalize until the batch is deleted
	draftRetention = 7 * 24 * time.Hour          // from creation
	queueSuffix    = "-batch"                    // no endpoint's id ends like this
)

// BatchQueue returns the name of an endpoint's batch queue: the Endpoint of its jobs and workers.
func BatchQueue(endpoint string) string { return endpoint + queueSuffix }

func IsBatchQueue(queue string) bool { return strings.HasSuffix(queue, queueSuffix) }

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

	key int64
}

var (
	ErrNoBatch   = errors.New("no such batch: its id is unknown on this endpoint, or it is deleted")
	ErrNoRequest = errors.New("the batch has no such request")
)

// BatchRefused explains why a change of a batch was rejected.
type BatchRefused struct {
	Reason        string
	TooManyActive bool // the endpoint has MaxActiveBatches active batches, or maxBatches batches
}

func (e *BatchRefused) Error() string { return e.Reason }

// batch is a batch in the memory of the process that leads its endpoint. schema.go explains the
// columns. createdAt, endsAt and deleteAt are in the columns created, ends and gone. After a verdict, endsAt is 0 once the queued requests are cancelled.
type batch struct {
	key                         int64
	endpoint, id, name          string
	state, verdict              BatchState
	createdAt, endsAt, deleteAt int64
	requests                    map[State]int
}

func (b *batch) unfinished() int {
	return b.requests[draft] + b.requests[InQueue] + b.requests[InProgress]
}

func (b *batch) view() Batch {
	v := Batch{
		ID: b.id, Endpoint: b.endpoint, Name: b.name, State: b.state, Created: time.UnixMilli(b.createdAt),
		InProgress: b.requests[InProgress], Completed: b.requests[Completed], Failed: b.requests[Failed] + b.requests[TimedOut], key: b.key,
	}
	v.Total = b.unfinished() + v.Completed + v.Failed + b.requests[Cancelled]
	if b.verdict != "" && b.unfinished() == 0 {
		v.State = b.verdict
	}
	return v
}

func (b *batch) checkDraft() error {
	if b.verdict != "" || b.state != BatchDraft {
		return &BatchRefused{Reason: fmt.Sprintf("only a batch that is %s can be changed; this one is %s", BatchDraft, cmp.Or(b.verdict, b.state))}
	}
	return nil
}

const (
	upsertBatch = `INSERT INTO batches (k, endpoint, id, name, state, verdict, created, ends, gone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (k) DO UPDATE SET name = excluded.name, state = excluded.state, verdict = excluded.verdict, ends = excluded.ends, gone = excluded.gone`
	deleteBatch     = `DELETE FROM batches WHERE k = ?`
	deleteBatchesOf = `DELETE FROM batches WHERE endpoint = REPLACE(?, '` + queueSuffix + `', '')`
	selectBatches   = `SELECT k, endpoint, id, name, state, verdict, created, ends, gone FROM batches WHERE endpoint = ?`
	countRequests   = `SELECT batch, state, COUNT(*) FROM jobs WHERE batch > 0 AND endpoint = ? GROUP BY batch, state`
	// Arguments: the maximum size of an output, the batch's key, and the limit and offset of the page.
	selectRequests = selectJob + `jobs.k {in (}SELECT k FROM jobs WHERE batch = ? AND batch > 0 ORDER BY k LIMIT ? OFFSET ?{)} ORDER BY jobs.k`
)

func (w writes) addBatch(b *batch) {
	if b.state == "" { // deleted
		w.add(deleteBatch, b.key)
		return
	}
	// One statement can't upsert the same row twice.
	w[upsertBatch] = slices.DeleteFunc(w[upsertBatch], func(args []any) bool { return args[0] == b.key })
	w.add(upsertBatch, b.key, b.endpoint, b.id, b.name, b.state, b.verdict, b.createdAt, b.endsAt, b.deleteAt)
}

func (q *queue) loadBatches(ctx context.Context) error {
	if !IsBatchQueue(q.name) || q.engine.store == nil {
		return nil
	}
	db := q.engine.DB
	err := db.Each(ctx, func(row sqldb.Row) error {
		b := &batch{requests: map[State]int{}}
		err := row.Scan(&b.key, &b.endpoint, &b.id, &b.name, &b.state, &b.verdict, &b.createdAt, &b.endsAt, &b.deleteAt)
		q.batches[b.key] = b
		return err
	}, selectBatches, EndpointOf(q.name))
	if err != nil {
		return err
	}
	return db.Each(ctx, func(row sqldb.Row) error {
		var k int64
		var s State
		var n int
		err := row.Scan(&k, &s, &n)
		if b := q.batches[k]; b != nil {
			b.requests[s] = n
		}
		return err
	}, countRequests, q.name)
}

func (e *Engine) CreateBatch(ctx context.Context, endpoint string, inputs [][]byte) (Batch, error) {
	var created *batch
	v, err := e.writeBatch(ctx, endpoint, func(q *queue, now int64) (*batch, error) {
		active := 0
		for _, b := range q.batches {
			if b.state == BatchDraft && b.verdict == "" || b.unfinished() > 0 {
				active++
			}
		}
		if active >= MaxActiveBatches {
			return nil, &BatchRefused{TooManyActive: true, Reason: fmt.Sprintf("this endpoint has %d active batches, which is the most: finalize or cancel drafts, or wait until the requests of a batch have ended", active)}
		}
		if len(q.batches) >= maxBatches {
			return nil, &BatchRefused{TooManyActive: true, Reason: fmt.Sprintf("this endpoint has %d batches, which is the most: drafts are deleted 7 days after their creation, other batches 8 days after finalize", maxBatches)}
		}
		b := &batch{
			key: e.newKey(), endpoint: endpoint, id: uuid.Must(uuid.NewV7()).String(), state: BatchDraft, createdAt: now, deleteAt: now + draftRetention.Milliseconds(),
			requests: map[State]int{},
		}
		created = b
		_, err := q.addRequests(b, inputs)
		return b, err
	})
	if err != nil && created != nil { // without its requests, the batch would stay as an active draft
		if q, lockErr := e.lock(ctx, BatchQueue(endpoint)); lockErr == nil {
			created.deleteAt = e.now()
			q.reconcile(created)
			q.unlock()
		}
	}
	return v, err
}

func (e *Engine) RenameBatch(ctx context.Context, endpoint, id, name string) (Batch, error) {
	return e.changeBatch(ctx, endpoint, id, func(_ *queue, b *batch, _ int64) error {
		b.name = name
		return nil
	})
}

// FinalizeBatch queues a DRAFT's requests: DRAFT → FINALIZED. A FINALIZED batch stays as it is.
func (e *Engine) FinalizeBatch(ctx context.Context, endpoint, id string) (Batch, error) {
	return e.changeBatch(ctx, endpoint, id, func(_ *queue, b *batch, now int64) error {
		if b.verdict == "" && b.state == BatchFinalized {
			return nil
		}
		if err := b.checkDraft(); err != nil {
			return err
		}
		b.state, b.endsAt, b.deleteAt = BatchFinalized, now+batchTimeout.Milliseconds(), now+batchRetention.Milliseconds()
		return nil
	})
}

// CancelBatch cancels the queued requests. When the running requests have ended, the batch
// is CANCELLED. It does nothing if all requests have ended already.
func (e *Engine) CancelBatch(ctx context.Context, endpoint, id string) (Batch, error) {
	return e.changeBatch(ctx, endpoint, id, func(_ *queue, b *batch, now int64) error {
		if b.verdict == "" && (b.state == BatchDraft || b.unfinished() > 0) {
			b.verdict, b.endsAt = BatchCancelled, now
		}
		return nil
	})
}

func (e *Engine) changeBatch(ctx context.Context, endpoint, id string, change func(q *queue, b *batch, now int64) error) (Batch, error) {
	return e.writeBatch(ctx, endpoint, func(q *queue, now int64) (*batch, error) {
		b, err := q.findBatch(id)
		if err == nil {
			err = change(q, b, now)
		}
		return b, err
	})
}

// writeBatch stores the batch that change returns, updates its requests, and returns it.
func (e *Engine) writeBatch(ctx context.Context, endpoint string, change func(q *queue, now int64) (*batch, error)) (Batch, error) {
	if err := e.commits.failure(); err != nil {
		return Batch{}, err
	}
	q, err := e.lock(ctx, BatchQueue(endpoint))
	if err != nil {
		return Batch{}, err
	}
	b, err := change(q, e.now())
	if err != nil {
		q.unlock()
		return Batch{}, err
	}
	if q.open == nil { // otherwise change has recorded the batch
		q.recordBatch(b)
	}
	e.wake(q.reconcile(b))
	v := b.view()
	return v, q.unlock().wait()
}

// recordBatch adds a batch to the changes that are committed next.
func (q *queue) recordBatch(b *batch) {
	c := &q.engine.commits
	if q.engine.store == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := *b
	c.open.batches = append(c.open.batches, &copied)
	c.open.counts[q.name] = q.counts // so that the next start knows the queue
	q.open = c.open
	notify.Signal(c.changed)
}

func (q *queue) findBatch(id string) (*batch, error) {
	for _, b := range q.batches {
		if b.id == id && b.deleteAt > q.engine.now() {
			return b, nil
		}
	}
	return nil, ErrNoBatch
}

// Batch reads a batch. It returns ErrNoBatch if the batch doesn't exist.
func (e *Engine) Batch(ctx context.Context, endpoint, id string) (v Batch, err error) {
	readErr := e.readBatches(ctx, endpoint, func(q *queue) {
		var b *batch
		if b, err = q.findBatch(id); err == nil {
			v = b.view()
		}
	})
	return v, cmp.Or(readErr, err)
}

// readBatches calls read with an endpoint's batches. If their changes can't be stored now, or another process leads
// the endpoint, it calls read again, with the stored batches.
func (e *Engine) readBatches(ctx context.Context, endpoint string, read func(q *queue)) error {
	if q := e.loadedQueue(BatchQueue(endpoint)); q != nil {
		q.mu.Lock()
		read(q)
		q.mu.Unlock()
		if e.commits.flush() == nil {
			return nil
		}
	}
	q := newQueue(e, BatchQueue(endpoint), 0)
	err := q.loadBatches(ctx)
	read(q)
	return err
}

// Batches reads a page of an endpoint's batches, the newest first, and their total number.
func (e *Engine) Batches(ctx context.Context, endpoint string, offset, limit int) (batches []Batch, total int, err error) {
	err = e.readBatches(ctx, endpoint, func(q *queue) {
		batches = nil
		// By key: ids have the time of the machine that created the batch, which may be wrong.
		for _, b := range slices.SortedFunc(maps.Values(q.batches), func(a, b *batch) int { return cmp.Compare(b.key, a.key) }) {
			if b.deleteAt > e.now() {
				batches = append(batches, b.view())
			}
		}
	})
	return page(batches, offset, limit), len(batches), err
}

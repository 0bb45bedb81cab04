package billing

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// CheckpointEvery is in real time. If a process is killed, at most this much of each span isn't billed.
const CheckpointEvery = 5 * time.Second

// closeTimeout limits the last write of Close.
const closeTimeout = 3 * time.Second

// schema is the history of the tables. Times are milliseconds since 1970. until is the end of a span. If the span is
// running, it is the last checkpoint of its process. A running span of a volume has no process; its until is endless.
var schema = []string{`
CREATE TABLE billing_spans (
	span     TEXT   PRIMARY KEY,
	kind     TEXT   NOT NULL,
	resource TEXT   NOT NULL,
	owner    TEXT   NOT NULL,
	process  TEXT   NOT NULL,
	started  BIGINT NOT NULL,
	until    BIGINT NOT NULL,
	doc      TEXT   NOT NULL
);
CREATE INDEX billing_spans_time ON billing_spans (kind, until, started);
CREATE INDEX billing_spans_process ON billing_spans (process) WHERE process <> '';
`, `
CREATE INDEX billing_spans_resource ON billing_spans (resource);
`}

const endless = math.MaxInt64

// Statements. A span is written when it starts, when it ends, and again if it isn't known whether a write succeeded.
const (
	writeSpan = `INSERT INTO billing_spans (span, kind, resource, owner, process, started, until, doc) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (span) DO UPDATE SET process = excluded.process, started = excluded.started, until = excluded.until`
	checkpoint = `UPDATE billing_spans SET until = ? WHERE process = ? AND process <> ''` // <> '' makes it use the partial index
	endSpan    = `UPDATE billing_spans SET until = ? WHERE resource = ? AND kind = ? AND until = ?`
	spansOf    = `SELECT span, resource, owner, started, until, doc FROM billing_spans WHERE kind = ? AND until > ? AND started < ? ORDER BY resource`
	readSpan   = `SELECT doc FROM billing_spans WHERE span = ?`
	hasVolume  = `SELECT EXISTS (SELECT 1 FROM billing_spans WHERE resource = ? AND kind = ?)`
	openSpans  = `SELECT resource, doc FROM billing_spans WHERE kind = ? AND until = ?`
)

type Config struct {
	DB     *sqldb.DB
	Clock  *clock.Clock
	Logger *slog.Logger
}

// Meter records spans. It is safe for concurrent use.
type Meter struct {
	Config
	process    string
	unwritten  chan struct{} // signals that pending has spans
	stop       context.CancelFunc
	goroutines sync.WaitGroup

	flushMu       sync.Mutex // serializes flush
	mu            sync.Mutex // guards the fields below
	running       map[key]*span
	pending       map[string]*span // by id: started or ended since they were last written
	failureLogged bool             // since the last successful flush
}

type key struct {
	kind Kind
	id   string
}

type span struct {
	Resource
	id             string
	started, until int64 // until is endless while the span is running
}

// Open migrates the tables and starts a Meter. The caller must close the Meter, and then the database.
func Open(ctx context.Context, c Config) (*Meter, error) {
	if err := c.DB.Migrate(ctx, "billing", schema); err != nil {
		return nil, err
	}
	m := &Meter{Config: c, process: uuid.NewString(), unwritten: make(chan struct{}, 1), running: map[key]*span{}, pending: map[string]*span{}}
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.goroutines.Go(func() { m.run(ctx) })
	return m, nil
}

// Close ends the running spans and writes them.
func (m *Meter) Close() {
	m.mu.Lock()
	for _, s := range m.running {
		m.end(s)
	}
	m.mu.Unlock()
	m.stop()
	m.goroutines.Wait()
	ctx, done := context.WithTimeout(context.Background(), closeTimeout)
	defer done()
	if err := m.flush(ctx, false); err != nil {
		m.Logger.Error("the end of billed resources could not be recorded", "error", err)
	}
}

func (m *Meter) now() int64 { return m.Clock.Now().UnixMilli() }

// Start starts a span of a resource. It doesn't block.
func (m *Meter) Start(r Resource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start(r, m.now(), uuid.NewString())
}

// start starts a span. m is locked.
func (m *Meter) start(r Resource, at int64, id string) {
	if s := m.running[key{r.Kind, r.ID}]; s != nil {
		m.end(s)
	}
	s := &span{Resource: r, id: id, started: at, until: endless}
	m.running[key{r.Kind, r.ID}], m.pending[s.id] = s, s
	notify.Signal(m.unwritten)
}

// Continue starts the span of a resource that has been running since a time of Clock.Wall. If a killed
// process has billed the same run, Continue continues its span at the same rates, so that
// the time in between is billed, too.
func (m *Meter) Continue(ctx context.Context, r Resource, since time.Time) error {
	id := fmt.Sprintf("%s %s %d", r.Kind, r.ID, since.UnixMilli())
	var doc []byte
	err := m.DB.Read(ctx, func(q *sqldb.Reader) error { return q.QueryRow(readSpan, id).Scan(&doc) })
	switch {
	case err == nil:
		previous := Resource{Kind: r.Kind, ID: r.ID, Owner: r.Owner}
		if err = json.Unmarshal(doc, &previous); err == nil {
			r = previous
		}
	case errors.Is(err, sql.ErrNoRows):
		err = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start(r, since.Add(-m.Clock.Ahead()).UnixMilli(), id) // like m.now(), without jumps of the clock
	return err
}

// Stop ends the span of a resource, if it has one. It doesn't block.
func (m *Meter) Stop(kind Kind, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.running[key{kind, id}]; s != nil {
		m.end(s)
	}
}

// end ends a span. m is locked.
func (m *Meter) end(s *span) {
	s.until = max(m.now(), s.started)
	delete(m.running, key{s.Kind, s.ID})
	m.pending[s.id] = s
	notify.Signal(m.unwritten)
}

// run writes spans when they start and end, and checkpoints, until ctx ends.
func (m *Meter) run(ctx context.Context) {
	timer := time.NewTimer(CheckpointEvery)
	defer timer.Stop()
	timerArmed := true
	for {
		if !timerArmed && m.needsCheckpoint() {
			timer.Reset(CheckpointEvery)
			timerArmed = true
		}
		select {
		case <-ctx.Done():
			return
		case <-m.unwritten:
			m.flushAndLog(ctx, false)
		case <-timer.C:
			timerArmed = false
			m.flushAndLog(ctx, true)
		}
	}
}

func (m *Meter) needsCheckpoint() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.running) > 0 || len(m.pending) > 0
}

// Checkpoint writes a checkpoint now. If that fails, the Meter tries again later.
func (m *Meter) Checkpoint(ctx context.Context) { m.flushAndLog(ctx, true) }

// flushAndLog calls flush, and logs the first of consecutive failures, except temporary ones, which the database logs.
func (m *Meter) flushAndLog(ctx context.Context, withCheckpoint bool) {
	err := m.flush(ctx, withCheckpoint)
	m.mu.Lock()
	isFirst := err != nil && !m.failureLogged && ctx.Err() == nil && !sqldb.Temporary(err)
	m.failureLogged = m.failureLogged || isFirst
	m.mu.Unlock()
	if isFirst {
		m.Logger.ErrorContext(ctx, "usage could not be recorded for billing: trying again", "error", err)
	}
}

// flush writes the started and ended spans and, if withCheckpoint is set, a checkpoint of the running ones.
func (m *Meter) flush(ctx context.Context, withCheckpoint bool) error {
	m.flushMu.Lock()
	defer m.flushMu.Unlock()
	m.mu.Lock()
	now := m.now()
	var spans []span
	for _, s := range m.pending {
		spans = append(spans, *s)
	}
	withCheckpoint = withCheckpoint && len(m.running) > 0
	m.mu.Unlock()
	if len(spans) == 0 && !withCheckpoint {
		return nil
	}
	err := m.DB.Write(ctx, func(tx *sqldb.Tx) error {
		for _, s := range spans {
			process, until := m.process, now
			if s.until != endless {
				process, until = "", s.until
			}
			if err := s.write(tx, process, max(until, s.started)); err != nil {
				return err
			}
		}
		if !withCheckpoint {
			return nil
		}
		_, err := tx.Exec(checkpoint, now, m.process)
		return err
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		return err
	}
	m.failureLogged = false
	for _, s := range spans {
		if latest := m.pending[s.id]; latest != nil && latest.until == s.until { // unless the span has just ended
			delete(m.pending, s.id)
		}
	}
	return nil
}

func (s *span) write(tx *sqldb.Tx, process string, until int64) error {
	doc, err := json.Marshal(s.Resource)
	if err != nil {
		return err
	}
	_, err = tx.Exec(writeSpan, s.id, string(s.Kind), s.ID, s.Owner, process, s.started, until, string(doc))
	if err != nil {
		return fmt.Errorf("recording the usage of a %s: %w", s.Kind, err)
	}
	return nil
}

// A volume is billed from its creation to its deletion, even while no jobrunner runs. The
// transactions that change a volume also start and end its spans.

// StartVolume starts the span of a volume, which belongs to no process.
func StartVolume(tx *sqldb.Tx, at time.Time, r Resource) error {
	s := span{Resource: r, id: uuid.NewString(), started: at.UnixMilli()}
	return s.write(tx, "", endless)
}

func StopVolume(tx *sqldb.Tx, at time.Time, id string) error {
	_, err := tx.Exec(endSpan, at.UnixMilli(), id, string(Volume), int64(endless))
	return err
}

// ReconcileVolumes starts and ends spans so that exactly the given volumes are billed, at their
// rates. Prices may have changed, and volumes of an old data folder have no span yet.
func ReconcileVolumes(tx *sqldb.Tx, at time.Time, volumes []Resource) error {
	open, err := openVolumes(tx)
	if err != nil {
		return err
	}
	for id, r := range open {
		if i := slices.IndexFunc(volumes, func(v Resource) bool { return v.ID == id }); i >= 0 && volumes[i].Rates == r.Rates {
			continue
		}
		if err := StopVolume(tx, at, id); err != nil {
			return err
		}
		delete(open, id)
	}
	for _, v := range volumes {
		if _, ok := open[v.ID]; ok {
			continue
		}
		if err := StartVolume(tx, at, v); err != nil {
			return err
		}
	}
	return nil
}

// openVolumes returns the volumes with running spans, by id.
func openVolumes(tx *sqldb.Tx) (open map[string]Resource, err error) {
	open = map[string]Resource{}
	err = tx.Each(func(row sqldb.Row) error {
		var id string
		var doc []byte
		var r Resource
		if err := row.Scan(&id, &doc); err != nil {
			return err
		}
		err := json.Unmarshal(doc, &r)
		open[id] = r
		return err
	}, openSpans, string(Volume), int64(endless))
	return open, err
}

// EverHadVolume reports whether a network volume with this id exists or existed.
func (m *Meter) EverHadVolume(ctx context.Context, id string) (exists bool, err error) {
	err = m.DB.Read(ctx, func(r *sqldb.Reader) error {
		return r.QueryRow(hasVolume, id, string(Volume)).Scan(&exists)
	})
	return exists, err
}

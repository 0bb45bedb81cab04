package sqldb

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

const (
	hintPause   = 10 * time.Millisecond // between two notifications
	hintTimeout = 5 * time.Second       // for sending a notification
	maxNotice   = 7000                  // bytes; the server accepts less than 8000
	maxHints    = 10_000                // pending hints; further ones are dropped

	minRelisten = 250 * time.Millisecond // backoff after the connection broke
	maxRelisten = 4 * time.Second
)

// hints exchanges hints (DB.Notify) between the processes on one database. The payload of a notification
// is the id of its sender and hints, one per line. Notifications have their own
// transactions, because the server serializes the commits of transactions that notify.
type hints struct {
	off    bool
	sender string
	stop   context.CancelFunc
	ctx    context.Context
	busy   sync.WaitGroup

	mu        sync.Mutex
	pending   []string
	isPending map[string]bool // by hint
	added     chan struct{}   // signals a pending hint
}

func newHints(off bool) *hints {
	h := &hints{off: off, sender: uuid.NewString(), isPending: map[string]bool{}, added: make(chan struct{}, 1)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

func (h *hints) add(hint string) {
	if h.off {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isPending[hint] || len(h.pending) >= maxHints || len(hint) > maxNotice-len(h.sender)-1 {
		return
	}
	h.isPending[hint] = true
	h.pending = append(h.pending, hint)
	notify.Signal(h.added)
}

// takeNotices removes the pending hints and returns them as payloads of notifications.
func (h *hints) takeNotices() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var notice strings.Builder
	for _, hint := range h.pending {
		if notice.Len() > 0 && notice.Len()+1+len(hint) > maxNotice {
			out = append(out, notice.String())
			notice.Reset()
		}
		if notice.Len() == 0 {
			notice.WriteString(h.sender)
		}
		notice.WriteString("\n" + hint)
	}
	if notice.Len() > 0 {
		out = append(out, notice.String())
	}
	h.pending, h.isPending = nil, map[string]bool{}
	return out
}

// listen starts to exchange hints with the processes on the same schema of the same database.
func (p *postgres) listen(f func(hint string)) {
	if p.hints.off {
		return
	}
	p.hints.busy.Go(p.send)
	p.hints.busy.Go(func() {
		for pause := minRelisten; p.hints.ctx.Err() == nil; pause = min(pause*2, maxRelisten) {
			if p.receiveHints(f) {
				pause = minRelisten
			}
			_ = clock.RealSleep(p.hints.ctx, pause)
		}
	})
}

const selectChannel = "SELECT 'gpucloud ' || oid FROM pg_namespace WHERE nspname = current_schema()"

// send sends hints until close. It drops the ones that fail, because the others also poll.
func (p *postgres) send() {
	h := p.hints
	for {
		select {
		case <-h.added:
		case <-h.ctx.Done():
			return
		}
		for _, notice := range h.takeNotices() {
			ctx, cancel := context.WithTimeout(h.ctx, hintTimeout)
			_, _ = p.writers.ExecContext(ctx, "SELECT pg_notify(("+selectChannel+"), $1)", notice)
			cancel()
		}
		_ = clock.RealSleep(h.ctx, hintPause)
	}
}

// receiveHints calls f with others' hints until the connection breaks. It reports whether there was one.
func (p *postgres) receiveHints(f func(hint string)) (connected bool) {
	ctx := p.hints.ctx
	config := p.config.Copy()
	config.DialFunc = p.dial // without a read time-out, because a notification may take any time
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // ctx has ended, or the connection is broken
	var name string
	if err := conn.QueryRow(ctx, selectChannel).Scan(&name); err != nil {
		return false
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{name}.Sanitize()); err != nil {
		return false
	}
	for {
		notice, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		from, lines, _ := strings.Cut(notice.Payload, "\n")
		if from == p.hints.sender {
			continue
		}
		for hint := range strings.SplitSeq(lines, "\n") {
			f(hint)
		}
	}
}

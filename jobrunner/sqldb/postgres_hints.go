package sqldb

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

const (
	hintPause   = 10 * time.Millisecond // between two notifications
	hintTimeout = 5 * time.Second       // for sending notifications
	maxPayload  = 7000                  // bytes; the server accepts less than 8000
	maxHints    = 10_000                // pending hints; more hints are dropped

	minRelisten = 250 * time.Millisecond // backoff after the connection broke
	maxRelisten = 4 * time.Second
)

// hints exchanges hints (DB.Notify) between the processes on one database. The payload of a notification
// has the id of its sender and, on the next line, the hint; earlier versions sent several hints, one per line.
// Notifications have their own transactions, because the server serializes the commits of transactions that notify.
type hints struct {
	disabled   bool
	sender     string
	stop       context.CancelFunc
	ctx        context.Context
	goroutines sync.WaitGroup

	mu        sync.Mutex
	pending   []string
	isPending map[string]bool // by hint
	added     chan struct{}   // signals a pending hint
}

func (h *hints) add(hint string) {
	if h.disabled {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isPending[hint] || len(h.pending) >= maxHints || len(hint) > maxPayload-len(h.sender)-1 {
		return
	}
	h.isPending[hint] = true
	h.pending = append(h.pending, hint)
	notify.Signal(h.added)
}

// take removes and returns the pending hints.
func (h *hints) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	pending := h.pending
	h.pending, h.isPending = nil, map[string]bool{}
	return pending
}

// listen starts to exchange hints with the processes on the same schema of the same database.
func (p *postgres) listen(f func(hint string)) {
	if p.hints.disabled {
		return
	}
	p.hints.goroutines.Go(p.sendHints)
	p.hints.goroutines.Go(func() {
		for pause := minRelisten; p.hints.ctx.Err() == nil; pause = min(pause*2, maxRelisten) {
			if p.receiveHints(f) {
				pause = minRelisten
			}
			_ = clock.RealSleep(p.hints.ctx, pause)
		}
	})
}

const selectChannel = "SELECT 'gpucloud ' || oid FROM pg_namespace WHERE nspname = current_schema()"

// sendHints sends hints until close. It drops hints that it can't send, because the other processes also poll.
func (p *postgres) sendHints() {
	h := p.hints
	for {
		select {
		case <-h.added:
		case <-h.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(h.ctx, hintTimeout)
		_, _ = p.writers.ExecContext(ctx, "SELECT pg_notify(("+selectChannel+"), $1 || '\n' || hint) FROM unnest($2::text[]) AS hint", h.sender, h.take())
		cancel()
		_ = clock.RealSleep(h.ctx, hintPause)
	}
}

// receiveHints calls f with other processes' hints until the connection breaks. It reports whether it could connect.
func (p *postgres) receiveHints(f func(hint string)) (connected bool) {
	ctx := p.hints.ctx
	config := p.config.Copy()
	config.DialFunc = p.dial // without responseTimeout, because a notification may take any time
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
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		from, lines, _ := strings.Cut(notification.Payload, "\n")
		if from == p.hints.sender {
			continue
		}
		for hint := range strings.SplitSeq(lines, "\n") {
			f(hint)
		}
	}
}

package sqldb

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

const (
	hintPause   = 10 * time.Millisecond // between two notices
	hintTimeout = 5 * time.Second       // of sending one
	maxNotice   = 7000                  // bytes; the server takes less than 8000
	maxHints    = 10_000                // that wait; more are dropped

	relisten    = 250 * time.Millisecond // after the connection broke, doubled up to
	maxRelisten = 4 * time.Second
)

// hints go between the processes on one database. A notice is the name of its
// sender and hints, a line each. Notices are never part of a transaction that
// changes something: the server commits those that notify one after the other.
type hints struct {
	off    bool
	sender string
	stop   context.CancelFunc
	ctx    context.Context
	busy   sync.WaitGroup

	mu      sync.Mutex
	pending []string
	known   map[string]bool // what is pending
	some    chan struct{}   // receives when something is
}

func newHints(off bool) *hints {
	h := &hints{off: off, sender: uuid.NewString(), known: map[string]bool{}, some: make(chan struct{}, 1)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

func (h *hints) add(hint string) {
	if h.off {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known[hint] || len(h.pending) >= maxHints || len(hint) > maxNotice-len(h.sender)-1 {
		return
	}
	h.known[hint] = true
	h.pending = append(h.pending, hint)
	notify.Signal(h.some)
}

// notices takes what is pending.
func (h *hints) notices() (out []string) {
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
	h.pending, h.known = nil, map[string]bool{}
	return out
}

func (h *hints) close() {
	h.stop()
	h.busy.Wait()
}

// wait is a pause that close ends.
func (h *hints) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.ctx.Done():
	}
}

// listen starts to pass hints on in both directions. Processes hear each other
// where they use the same schema of the same database.
func (p *postgres) listen(f func(hint string)) {
	if p.hints.off {
		return
	}
	p.hints.busy.Go(p.send)
	p.hints.busy.Go(func() {
		for pause := relisten; p.hints.ctx.Err() == nil; pause = min(pause*2, maxRelisten) {
			if p.receiveHints(f) {
				pause = relisten
			}
			p.hints.wait(pause)
		}
	})
}

const channel = "SELECT 'gpucloud ' || oid FROM pg_namespace WHERE nspname = current_schema()"

// send passes on what is pending, whenever something is. What can't be sent is
// dropped: the others look for themselves.
func (p *postgres) send() {
	h := p.hints
	for {
		select {
		case <-h.some:
		case <-h.ctx.Done():
			return
		}
		for _, notice := range h.notices() {
			ctx, cancel := context.WithTimeout(h.ctx, hintTimeout)
			_, _ = p.writers.ExecContext(ctx, "SELECT pg_notify(("+channel+"), $1)", notice)
			cancel()
		}
		h.wait(hintPause)
	}
}

// receiveHints passes on what others send until the connection breaks. It tells
// whether there was one.
func (p *postgres) receiveHints(f func(hint string)) (heard bool) {
	ctx := p.hints.ctx
	config := p.config.Copy()
	config.DialFunc = p.dial // notices may be long in coming
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // ctx has ended, or the connection is broken
	var name string
	if err := conn.QueryRow(ctx, channel).Scan(&name); err != nil {
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

package sqldb

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// outageEnd is the time without a failed call after which an outage has ended. While a server
// starts or a disk is nearly full, some calls succeed between failed ones.
const outageEnd = time.Second

// outages logs the start and the end of each outage once, so that callers needn't log errors.
type outages struct {
	log    *slog.Logger
	active atomic.Bool // any outage

	mu sync.Mutex
	// first and last are the times of an outage's first and last error, by its Class, which is Outage or Full:
	// both are below Closed. first is zero without an outage.
	first, last [Closed]time.Time
}

var outageTexts = map[Class]struct{ begins, ends string }{
	Outage: {"the database is not available: reports of workers are kept, and requests are rejected until it is back", "the database is available again"},
	Full:   {"the disk that holds the database is full: reports of workers are kept, and submissions are rejected until there is room", "the disk that holds the database has room again"},
}

// note records the outcome of a call. A write that may use the reserved disk space (reserve.go) can succeed on a full
// disk. A plain write may not, so its success ends the outage of a full disk.
func (o *outages) note(err error, isPlainWrite bool) {
	if err == nil && !o.active.Load() {
		return
	}
	class := Classify(err)
	_, temporary := outageTexts[class]
	if err != nil && !temporary {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if err != nil {
		o.last[class] = now
		if o.first[class].IsZero() {
			o.first[class] = now
			o.active.Store(true)
			o.log.Error(outageTexts[class].begins, "error", err)
		}
		return
	}
	active := false
	for class, text := range outageTexts {
		if !o.first[class].IsZero() && (isPlainWrite || class != Full) && now.Sub(o.last[class]) > outageEnd {
			o.log.Info(text.ends, "after", now.Sub(o.first[class]).Round(time.Millisecond))
			o.first[class] = time.Time{}
		}
		active = active || !o.first[class].IsZero()
	}
	o.active.Store(active)
}

package sqldb

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// outageEnd is for how long no call may fail before an outage counts as over:
// of a server that is starting, or a disk that is nearly full, some calls
// succeed between others that fail.
const outageEnd = time.Second

// outages writes one line when the database ceases to serve and one when it
// serves again, however many calls fail in between. Those who call write none.
type outages struct {
	log  *slog.Logger
	some atomic.Bool // an outage is under way

	mu          sync.Mutex
	outage      [Closed]bool
	begun, last [Closed]time.Time // by class
}

var outageTexts = map[Class]struct{ begins, ends string }{
	Outage: {"the database is not available: what workers report is kept, and requests are refused until it is back", "the database is available again"},
	Full:   {"the disk that holds the database is full: what workers report is kept, and submissions are refused until there is room", "the disk that holds the database has room again"},
}

// note takes the outcome of a call. A call that wrote shows that there is room.
func (o *outages) note(err error, wrote bool) {
	if err == nil && !o.some.Load() {
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
		if !o.outage[class] {
			o.outage[class], o.begun[class] = true, now
			o.some.Store(true)
			o.log.Error(outageTexts[class].begins, "error", err)
		}
		return
	}
	some := false
	for class, text := range outageTexts {
		if o.outage[class] && (wrote || class != Full) && now.Sub(o.last[class]) > outageEnd {
			o.outage[class] = false
			o.log.Info(text.ends, "after", now.Sub(o.begun[class]).Round(time.Millisecond))
		}
		some = some || o.outage[class]
	}
	o.some.Store(some)
}

package limits

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/fault"
)

// other is what the other ways of counting need, which the contract allows as
// well: only a build for the conformance suite's own tests has them.
type other struct {
	tokens float64
	at     time.Duration
	window int64
}

// differently counts in one of the other ways, where one is chosen.
func (b *bucket) differently(now time.Duration, limit Limit, running func() int) (err error, differs bool) {
	bucket, calendar, refused := fault.On("token-bucket"), fault.On("calendar-window"), fault.On("refused-count")
	if !bucket && !calendar && !refused {
		return nil, false
	}
	rate := max(float64(limit.Rate), float64(running()*limit.PerWorker))
	switch {
	case bucket:
		if b.at == 0 {
			b.tokens = rate
		}
		b.tokens = min(rate, b.tokens+float64(now-b.at)/float64(Window)*rate)
	case calendar:
		if window := int64(now / Window); b.at == 0 || window != b.window {
			b.tokens, b.window = rate, window
		}
	default:
		if len(b.accepted) >= int(rate) {
			b.accepted = append(b.accepted, now)
		}
		return nil, false
	}
	b.at = max(now, 1)
	if limit.Concurrent > 0 && b.open >= limit.Concurrent || b.tokens < 1 {
		after := time.Duration((1 - b.tokens) / rate * float64(Window))
		if calendar {
			after = Window - now%Window
		}
		return &Exceeded{"too many requests", after}, true
	}
	b.open++
	b.accepted = append(b.accepted, now) // for sweep
	b.tokens--
	return nil, true
}

package worker

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// recheck is the interval of evaluations when nothing happens, as a safety net.
const recheck = 24 * time.Hour

// desired returns how many workers there should be, and when that may change without an event. have
// counts the workers that stay, and spare those of them that will take a waiting job. Idle workers end
// by their time-out, not here.
func (e Endpoint) desired(load engine.Load, have, spare int, now, added time.Time) (want int, again time.Duration) {
	want, again = have, recheck
	switch {
	case e.ByRequests:
		need := (float64(load.Waiting+load.Running) + e.ScalerValue - 1) / e.ScalerValue
		want = max(want, int(need))
	case load.Waiting > spare && have == 0:
		want = 1 // the first job doesn't wait for the delay
	case load.Waiting > spare:
		delay := time.Duration(e.ScalerValue * float64(time.Second))
		due := load.Oldest.Add(delay)
		if next := added.Add(delay); next.After(due) {
			due = next
		}
		if now.Before(due) {
			again = due.Sub(now)
		} else {
			want, again = have+1, delay
		}
	}
	return min(max(want, e.Min), e.Max), again
}

package worker

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// recheck is the interval of evaluations when nothing happens, as a safety net.
const recheck = 24 * time.Hour

// desiredCount returns how many workers there should be, and when that may change without an event. have
// is the number of workers that stay; spare of them will take a waiting job. It never removes
// idle workers: they end by their time-out.
func (e Endpoint) desiredCount(load engine.Load, have, spare int, now, added time.Time) (count int, next time.Duration) {
	count, next = have, recheck
	switch {
	case e.ByRequests:
		need := (float64(load.Waiting+load.Running) + e.ScalerValue - 1) / e.ScalerValue
		count = max(count, int(need))
	case load.Waiting > spare && have == 0:
		count = 1 // the first job doesn't wait for the delay
	case load.Waiting > spare:
		delay := time.Duration(e.ScalerValue * float64(time.Second))
		due := load.Oldest.Add(delay)
		if earliest := added.Add(delay); earliest.After(due) {
			due = earliest
		}
		if now.Before(due) {
			next = due.Sub(now)
		} else {
			count, next = have+1, delay
		}
	}
	return min(max(count, e.Min), e.Max), next
}

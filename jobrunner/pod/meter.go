package pod

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Meter meters pods. It is safe for concurrent use.
type Meter interface {
	// Started reports that a pod runs. After a restart of the deployment it may report the
	// same span again, with the same Pod.ID and From.
	Started(s Span)
	// Stopped reports that a pod released its compute. If the deployment was killed, To is
	// its next start.
	Stopped(s Span)
}

// Span is the time during which a pod held its compute.
type Span struct {
	Pod         store.Pod // as it was at the start
	From, To    time.Time // To is zero until it stops
	HourlyPrice float64
}

// noMeter ignores all reports.
type noMeter struct{}

func (noMeter) Started(Span) {}
func (noMeter) Stopped(Span) {}

package pod

import (
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Meter counts what pods hold. Its methods may be called from many goroutines.
type Meter interface {
	// Started says that a pod runs from now on. It may say so again of a span that it
	// told of before the deployment started anew: Pod.ID and From are the same.
	Started(s Span)
	// Stopped says that a pod gave its compute back. Where the deployment was killed
	// meanwhile, the end is when it started anew.
	Stopped(s Span)
}

// Span is for how long a pod held its compute.
type Span struct {
	Pod         store.Pod // as it was at the start
	From, To    time.Time // To is zero until it stopped
	HourlyPrice float64
}

// noMeter counts nothing.
type noMeter struct{}

func (noMeter) Started(Span) {}
func (noMeter) Stopped(Span) {}

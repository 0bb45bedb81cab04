// Package billing meters what ran, and says what it cost.
//
// A span is a resource from a start to an end: a worker, a pod or a cluster that
// runs, or a network volume of a size. It has the rates that the catalog had at
// its start. What it has cost up to a moment is the rate times the time, rounded
// down to billionths of a dollar; what it cost in a bucket is the difference of
// two such amounts. So the buckets of any partition of a time add up to the same.
//
// Spans of workers, pods and clusters belong to the process that runs them
// (meter.go), which notes every few seconds that they go on: if it is killed they
// end there. Spans of volumes begin and end in the transactions that change the
// volumes (volume.go).
package billing

import (
	"math"
	"math/bits"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// Kind is what is billed.
type Kind string

// The kinds of resources.
const (
	Worker  Kind = "worker"
	Pod     Kind = "pod"
	Cluster Kind = "cluster"
	Volume  Kind = "volume"
)

// Resource is one that is billed, with its rates.
type Resource struct {
	Kind  Kind   `json:"-"`
	ID    string `json:"-"`
	Owner string `json:"-"` // of a worker its endpoint, of all others the resource itself

	Rates       Rates    `json:"rates"`
	GPUType     string   `json:"gpuType,omitempty"`
	Image       string   `json:"image,omitempty"`
	Template    string   `json:"template,omitempty"` // id of the one that it follows
	DataCenters []string `json:"dataCenters,omitempty"`
	Disk        int64    `json:"disk,omitempty"` // GB, of a volume its size
	// HighPerformance is the tier of a volume.
	HighPerformance bool `json:"highPerformance,omitempty"`
}

// Rate is a price in billionths of a dollar for a month of 730 hours: a whole
// number where the catalog's price is for an hour, and where it is for a month.
type Rate int64

const (
	monthHours = 730
	month      = monthHours * time.Hour
	// maxRate keeps the cost of a century below what an int64 holds.
	maxRate = math.MaxInt64 / 2000
)

// Hourly is the rate of some units of a price for an hour.
func Hourly(price catalog.USD, units int64) Rate { return rate(uint64(price), monthHours, units) }

// Monthly is the rate of some units of a price for a month.
func Monthly(price catalog.USD, units int64) Rate { return rate(uint64(price), 1, units) }

func rate(price, hours uint64, units int64) Rate {
	if units <= 0 {
		return 0
	}
	high, low := bits.Mul64(price*hours, uint64(units)) // a price is below 2^50
	if high > 0 || low > maxRate {
		return maxRate
	}
	return Rate(low)
}

// Rates are those of the components of a cost.
type Rates = components[Rate]

// Cost is what something cost, by component.
type Cost = components[catalog.USD]

type components[T Rate | catalog.USD] struct {
	GPU             T `json:"gpu,omitempty"`
	CPU             T `json:"cpu,omitempty"`
	Disk            T `json:"disk,omitempty"`
	Networking      T `json:"networking,omitempty"`
	Standard        T `json:"standard,omitempty"`
	HighPerformance T `json:"highPerformance,omitempty"`
}

// Plus adds two costs.
func (c components[T]) Plus(d components[T]) components[T] {
	return components[T]{
		c.GPU + d.GPU, c.CPU + d.CPU, c.Disk + d.Disk, c.Networking + d.Networking,
		c.Standard + d.Standard, c.HighPerformance + d.HighPerformance,
	}
}

// Total is the sum of the components.
func (c components[T]) Total() T {
	return c.GPU + c.CPU + c.Disk + c.Networking + c.Standard + c.HighPerformance
}

// upTo is what a rate has cost after a time in milliseconds.
func (r Rate) upTo(passed int64) catalog.USD {
	if passed <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(r), uint64(passed))
	const divisor = uint64(month / time.Millisecond)
	if high >= divisor {
		return math.MaxInt64 / 2
	}
	cost, _ := bits.Div64(high, low, divisor)
	return catalog.USD(min(cost, math.MaxInt64/2))
}

// between is what rates cost from one moment to another, both in milliseconds
// after the start of the span.
func between(r Rates, from, to int64) Cost {
	cost := func(r Rate) catalog.USD { return r.upTo(to) - r.upTo(from) }
	return Cost{cost(r.GPU), cost(r.CPU), cost(r.Disk), cost(r.Networking), cost(r.Standard), cost(r.HighPerformance)}
}

// PerHour is what rates come to in an hour, in dollars.
func PerHour(c Rates) float64 {
	const perDollar = 1_000_000_000
	return float64(c.Total()) / monthHours / perDollar
}

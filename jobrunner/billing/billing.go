// Package billing meters resources and computes their cost.
//
// A span is the time in which a resource is billed at constant rates: a worker, pod or
// cluster while it runs, or a network volume while its size stays the same. Its rates are the
// catalog's at its start. The cost up to a time is the rate times the duration, rounded down
// to billionths of a dollar. The cost of a bucket is the difference of two such amounts, so
// that all partitions of a time into buckets have the same total.
//
// Spans of workers, pods and clusters belong to the process that runs them. It
// writes a checkpoint every few seconds: if it is killed, its spans end at the last
// checkpoint. Spans of volumes begin and end in the transactions that change the volumes
// (meter.go).
package billing

import (
	"math"
	"math/bits"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

type Kind string

const (
	Worker  Kind = "worker"
	Pod     Kind = "pod"
	Cluster Kind = "cluster"
	Volume  Kind = "volume"
)

// Resource is a billed resource with its rates.
type Resource struct {
	Kind  Kind   `json:"-"`
	ID    string `json:"-"`
	Owner string `json:"-"` // the endpoint of a worker, or the cluster of a pod; for other kinds the resource itself

	Rates       Rates    `json:"rates"`
	GPUType     string   `json:"gpuType,omitempty"`
	Image       string   `json:"image,omitempty"`
	Template    string   `json:"template,omitempty"` // id
	DataCenters []string `json:"dataCenters,omitempty"`
	Disk        int64    `json:"disk,omitempty"` // GB; the size of a volume
	// HighPerformance is the tier of a volume; false means STANDARD.
	HighPerformance bool `json:"highPerformance,omitempty"`
}

// Rate is a price in billionths of a dollar per month of 730 hours. With this unit the
// catalog's prices per hour and per month are both whole numbers.
type Rate int64

const (
	monthHours = 730
	month      = monthHours * time.Hour
	// maxRate keeps the cost of a century within an int64.
	maxRate = math.MaxInt64 / 2000
)

func Hourly(price catalog.USD, units int64) Rate { return rate(uint64(price), monthHours, units) }

func Monthly(price catalog.USD, units int64) Rate { return rate(uint64(price), 1, units) }

// rate returns the rate of units whose price is due a number of times per month.
func rate(price, timesPerMonth uint64, units int64) Rate {
	if units <= 0 {
		return 0
	}
	high, low := bits.Mul64(price*timesPerMonth, uint64(units)) // a price is below 2^50
	if high > 0 || low > maxRate {
		return maxRate
	}
	return Rate(low)
}

type Rates = components[Rate]

type Cost = components[catalog.USD]

type components[T Rate | catalog.USD] struct {
	GPU             T `json:"gpu,omitempty"`
	CPU             T `json:"cpu,omitempty"`
	Disk            T `json:"disk,omitempty"`
	Networking      T `json:"networking,omitempty"`
	Standard        T `json:"standard,omitempty"`
	HighPerformance T `json:"highPerformance,omitempty"`
}

func (c components[T]) Plus(d components[T]) components[T] {
	return components[T]{
		c.GPU + d.GPU, c.CPU + d.CPU, c.Disk + d.Disk, c.Networking + d.Networking,
		c.Standard + d.Standard, c.HighPerformance + d.HighPerformance,
	}
}

func (c components[T]) Total() T {
	return c.GPU + c.CPU + c.Disk + c.Networking + c.Standard + c.HighPerformance
}

// costAfter returns the cost of a span after a number of milliseconds.
func (r Rate) costAfter(milliseconds int64) catalog.USD {
	if milliseconds <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(r), uint64(milliseconds))
	const divisor = uint64(month / time.Millisecond)
	if high >= divisor {
		return math.MaxInt64 / 2
	}
	cost, _ := bits.Div64(high, low, divisor)
	return catalog.USD(min(cost, math.MaxInt64/2))
}

// costBetween returns the cost between two times, in milliseconds since the start of the span.
func costBetween(r Rates, from, to int64) Cost {
	cost := func(r Rate) catalog.USD { return r.costAfter(to) - r.costAfter(from) }
	return Cost{cost(r.GPU), cost(r.CPU), cost(r.Disk), cost(r.Networking), cost(r.Standard), cost(r.HighPerformance)}
}

func PerHour(rates Rates) float64 {
	return float64(rates.Total()) / monthHours / 1e9
}

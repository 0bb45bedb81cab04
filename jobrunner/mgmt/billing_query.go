package mgmt

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// maxBillingRecords limits the records of an answer.
const maxBillingRecords = 100_000

// readPeriod reads startTime, endTime, bucketSize and, in version 2, lastN. It must be called last,
// because errors about invalid values take precedence.
func readPeriod(q *query) (w billing.Window) {
	bucket := billing.Bucket(cmp.Or(q.enumValue("bucketSize", billing.Buckets...), string(billing.Day)))
	now := q.Clock.Wall()
	start, end := q.time("startTime", now.Add(-billing.DefaultPeriod)), q.time("endTime", now)
	last := int64(0)
	if q.version == 2 {
		last = q.integer("lastN", 0, "an integer of at least 1", func(n int64) bool { return n >= 1 })
		q.refuseIf(last > 0 && (q.has("startTime") || q.has("endTime")), "lastN excludes startTime and endTime: set one or the other")
	}
	if q.err() != nil {
		return w
	}
	var err error
	if last > 0 {
		w, err = billing.Last(bucket, last, now)
	} else {
		w, err = billing.Between(bucket, start, end)
	}
	q.refuseIf(err != nil, "%s", err)
	return w
}

// time reads a time of RFC 3339.
func (q *query) time(name string, defaultValue time.Time) time.Time {
	q.declare(openapi.Parameter{Name: name, In: "query", Schema: &openapi.Schema{Type: "string", Format: "date-time"}})
	if !q.has(name) {
		return defaultValue
	}
	t, err := time.Parse(time.RFC3339, q.values.Get(name))
	if err != nil || t.Year() < 1 {
		q.addFault(name, q.values.Get(name), "a time in RFC 3339, such as 2026-06-01T00:00:00Z")
	}
	return t
}

// usage calls visit with the cost of each resource of a kind.
func (c *call) usage(kind billing.Kind, w billing.Window, visit func(billing.Usage)) error {
	if c.Meter == nil {
		return nil
	}
	return c.Meter.Usage(c.ctx(), kind, w, visit)
}

// billedByOwner is the cost of each owner (an endpoint, a pod, a cluster or a volume) in each bucket.
type billedByOwner struct {
	window billing.Window
	filter *string // the only owner to show; nil for all
	owners []string
	costs  map[string][]billing.Cost // by owner, one per bucket
}

// ownerHandler shows the cost of a kind by owner. The parameter selects one owner.
func ownerHandler[W any](kind billing.Kind, parameter string, show func(billedByOwner) W) handler {
	read := func(q *query) (b billedByOwner) {
		b.filter = nilIfEmpty(q.text(parameter))
		b.window = readPeriod(q)
		return b
	}
	return queryHandler(read, func(c *call, b billedByOwner) (answer W, err error) {
		if err := c.sumByOwner(kind, &b); err != nil {
			return answer, err
		}
		if n := len(b.owners) * b.window.Len(); n > maxBillingRecords {
			return answer, httpanswer.Refuse(http.StatusBadRequest, "the answer would have %d records: expected at most %d; choose a larger bucketSize or a shorter period, or set %s", n, maxBillingRecords, parameter)
		}
		return show(b), nil
	})
}

// sumByOwner sums the cost of a kind.
func (c *call) sumByOwner(kind billing.Kind, b *billedByOwner) error {
	b.costs = map[string][]billing.Cost{}
	err := c.usage(kind, b.window, func(u billing.Usage) {
		if b.filter != nil && *b.filter != u.Owner {
			return
		}
		costs := b.costs[u.Owner]
		if costs == nil {
			costs = make([]billing.Cost, b.window.Len())
			b.costs[u.Owner] = costs
			b.owners = append(b.owners, u.Owner)
		}
		costs[u.Bucket] = costs[u.Bucket].Plus(u.Cost)
	})
	slices.Sort(b.owners)
	return err
}

// total returns the cost of all owners in the whole window.
func (b billedByOwner) total() (sum billing.Cost) {
	for _, costs := range b.costs {
		for _, c := range costs {
			sum = sum.Plus(c)
		}
	}
	return sum
}

// billingRecords returns the records of each bucket and owner, by time.
func billingRecords[R any](b billedByOwner, record func(r billingRangeV2, owner string, c billing.Cost) R) []R {
	out := make([]R, 0, len(b.owners)*b.window.Len())
	for i := range b.window.Len() {
		for _, owner := range b.owners {
			out = append(out, record(bucketRange(b.window, i), owner, b.costs[owner][i]))
		}
	}
	return out
}

func bucketRange(w billing.Window, i int) billingRangeV2 {
	return billingRangeV2{billingTime(w.Bounds[i]), billingTime(w.Bounds[i+1])}
}

func billingTime(t time.Time) string { return t.Format(time.RFC3339) }

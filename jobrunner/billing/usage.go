package billing

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Usage is the cost and the billed time of a resource in a bucket.
type Usage struct {
	Resource
	Index int // of the bucket in the window
	Cost  Cost
	Time  time.Duration
}

// VisitUsage calls visit with the usage of a kind's resources in each bucket of a window, up to
// now, resource by resource. It calls visit for each span, so a resource may come several times for a bucket. visit must not use the database.
func (m *Meter) VisitUsage(ctx context.Context, kind Kind, w Window, visit func(Usage)) error {
	m.Checkpoint(ctx) // then the database has this process's spans up to now
	now := m.Clock.Wall().UnixMilli()
	from, to := w.Start().UnixMilli(), w.End().UnixMilli()
	return m.DB.Each(ctx, func(row sqldb.Row) error {
		s := span{Resource: Resource{Kind: kind}}
		var doc []byte
		if err := row.Scan(&s.id, &s.ID, &s.Owner, &s.started, &s.until, &doc); err != nil {
			return err
		}
		if err := json.Unmarshal(doc, &s.Resource); err != nil {
			return err
		}
		if s.until == endless {
			s.until = max(now, s.started)
		}
		s.visit(w, visit)
		return nil
	}, spansOf, string(kind), from, to)
}

// visit splits a span at the bounds of a window, and calls visit for each part.
func (s span) visit(w Window, visit func(Usage)) {
	// The first bucket is the one that ends after the span's start.
	first, _ := slices.BinarySearchFunc(w.Bounds[1:], s.started, func(end time.Time, started int64) int { return cmp.Compare(end.UnixMilli(), started+1) })
	for i := first; i < w.Len(); i++ {
		from, to := w.Bounds[i].UnixMilli(), w.Bounds[i+1].UnixMilli()
		if from >= s.until {
			return
		}
		from, to = max(from, s.started), min(to, s.until)
		visit(Usage{
			Resource: s.Resource, Index: i, Cost: costBetween(s.Rates, from-s.started, to-s.started), Time: time.Duration(to-from) * time.Millisecond,
		})
	}
}

// BucketSize is the length of the intervals by which costs are summed. In UTC, buckets begin on
// the hour, at midnight, on Monday, or on the first day of a month or year.
type BucketSize string

const (
	Hour  BucketSize = "hour"
	Day   BucketSize = "day"
	Week  BucketSize = "week"
	Month BucketSize = "month"
	Year  BucketSize = "year"
)

// BucketSizes lists the names of the sizes, the shortest first.
var BucketSizes = []string{string(Hour), string(Day), string(Week), string(Month), string(Year)}

const maxBuckets = 10_000

// DefaultPeriod is the length of a window without a start.
const DefaultPeriod = 30 * 24 * time.Hour

// fixedLengths has the sizes of constant length. Their buckets start at multiples of that length since the zero time, which is a Monday.
var fixedLengths = map[BucketSize]time.Duration{Hour: time.Hour, Day: 24 * time.Hour, Week: 7 * 24 * time.Hour}

// floor returns the start of the bucket that contains t.
func (b BucketSize) floor(t time.Time) time.Time {
	t = t.UTC()
	switch length := fixedLengths[b]; {
	case length > 0:
		return t.Truncate(length)
	case b == Month:
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(t.Year(), time.January, 1, 0, 0, 0, 0, time.UTC)
}

func (b BucketSize) startAfter(start time.Time, n int) time.Time {
	switch length := fixedLengths[b]; {
	case length > 0:
		return start.Add(time.Duration(n) * length)
	case b == Month:
		return start.AddDate(0, n, 0)
	}
	return start.AddDate(n, 0, 0)
}

// ceil returns the first start of a bucket that isn't before t.
func (b BucketSize) ceil(t time.Time) time.Time {
	if start := b.floor(t); start.Before(t) {
		return b.startAfter(start, 1)
	}
	return t.UTC()
}

type Window struct {
	Size   BucketSize
	Bounds []time.Time // start of each bucket, and end of the last one
}

func (w Window) Start() time.Time { return w.Bounds[0] }

// End returns the exclusive end of the last bucket.
func (w Window) End() time.Time { return w.Bounds[len(w.Bounds)-1] }

func (w Window) Len() int { return len(w.Bounds) - 1 }

// BucketsBetween returns all buckets that overlap the time from start to end. Its errors are for clients.
func BucketsBetween(b BucketSize, start, end time.Time) (Window, error) {
	if !start.Before(end) {
		return Window{}, fmt.Errorf("startTime (%s) is not before endTime (%s): their defaults are 30 days ago and now", start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339))
	}
	w := Window{b, []time.Time{b.floor(start)}}
	for last := b.ceil(end); w.End().Before(last); {
		if w.Len() == maxBuckets || w.End().Year() > 9998 { // RFC 3339 ends with the year 9999
			return w, tooMany(b)
		}
		w.Bounds = append(w.Bounds, b.startAfter(w.Start(), w.Len()+1))
	}
	return w, nil
}

// LastBuckets returns the window of the last n buckets, including the current one.
func LastBuckets(b BucketSize, n int64, now time.Time) (Window, error) {
	if n > maxBuckets {
		return Window{}, tooMany(b)
	}
	current := b.floor(now)
	w := Window{Size: b}
	for i := -int(n) + 1; i <= 1; i++ {
		w.Bounds = append(w.Bounds, b.startAfter(current, i))
	}
	if w.Start().Year() < 1 {
		return Window{}, tooMany(b)
	}
	return w, nil
}

func tooMany(b BucketSize) error {
	return fmt.Errorf("the period has too many buckets of the size %s: expected %d at most; choose a larger bucketSize or a shorter period", b, maxBuckets)
}

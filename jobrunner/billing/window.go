package billing

import (
	"fmt"
	"time"
)

// Bucket is a length of time by which costs are summed. Buckets begin at the full
// hour, at midnight, on Monday, and on the first of a month and of a year, in UTC.
type Bucket string

// The lengths of buckets.
const (
	Hour  Bucket = "hour"
	Day   Bucket = "day"
	Week  Bucket = "week"
	Month Bucket = "month"
	Year  Bucket = "year"
)

// Buckets are their names, the shortest first.
var Buckets = []string{string(Hour), string(Day), string(Week), string(Month), string(Year)}

// MaxBuckets is how many a window may have.
const MaxBuckets = 10_000

// DefaultPeriod is how long before now a window begins where nothing is said.
const DefaultPeriod = 30 * 24 * time.Hour

// floor is the start of the bucket that a time is in.
func (b Bucket) floor(t time.Time) time.Time {
	t = t.UTC()
	switch b {
	case Hour:
		return t.Truncate(time.Hour)
	case Week:
		monday := t.AddDate(0, 0, -(int(t.Weekday())+6)%7)
		return time.Date(monday.Year(), monday.Month(), monday.Day(), 0, 0, 0, 0, time.UTC)
	case Month:
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	case Year:
		return time.Date(t.Year(), time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// step is the start of the bucket n after one that starts at a time.
func (b Bucket) step(start time.Time, n int) time.Time {
	switch b {
	case Hour:
		return start.Add(time.Duration(n) * time.Hour)
	case Week:
		return start.AddDate(0, 0, 7*n)
	case Month:
		return start.AddDate(0, n, 0)
	case Year:
		return start.AddDate(n, 0, 0)
	}
	return start.AddDate(0, 0, n)
}

// ceil is the end of the bucket that a time is in, or the time itself where one
// starts there.
func (b Bucket) ceil(t time.Time) time.Time {
	if start := b.floor(t); start.Before(t) {
		return b.step(start, 1)
	}
	return t.UTC()
}

// Window is a time of whole buckets. The bounds are the start of each, and the end
// of the last one.
type Window struct {
	Bucket Bucket
	Bounds []time.Time
}

// Start is where the window begins.
func (w Window) Start() time.Time { return w.Bounds[0] }

// End is where it ends, exclusive.
func (w Window) End() time.Time { return w.Bounds[len(w.Bounds)-1] }

// Len is the number of buckets.
func (w Window) Len() int { return len(w.Bounds) - 1 }

// Between is the window of the buckets that a time touches. The error says, for
// people, why there is none.
func Between(b Bucket, start, end time.Time) (Window, error) {
	if !start.Before(end) {
		return Window{}, fmt.Errorf("startTime (%s) is not before endTime (%s): without them a period begins 30 days ago and ends now", start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339))
	}
	w := Window{b, []time.Time{b.floor(start)}}
	for last := b.ceil(end); w.End().Before(last); {
		if w.Len() == MaxBuckets {
			return w, tooMany(b)
		}
		w.Bounds = append(w.Bounds, b.step(w.Start(), w.Len()+1))
	}
	return w, nil
}

// Last is the window of the last n buckets, with the one that now is in.
func Last(b Bucket, n int64, now time.Time) (Window, error) {
	if n > MaxBuckets {
		return Window{}, tooMany(b)
	}
	current := b.floor(now)
	w := Window{Bucket: b}
	for i := -int(n) + 1; i <= 1; i++ {
		w.Bounds = append(w.Bounds, b.step(current, i))
	}
	if w.Start().Year() < 1 {
		return Window{}, tooMany(b)
	}
	return w, nil
}

func tooMany(b Bucket) error {
	return fmt.Errorf("the period has too many buckets of the size %s: expected %d at most; choose a larger bucketSize or a shorter period", b, MaxBuckets)
}

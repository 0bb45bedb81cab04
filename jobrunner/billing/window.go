package billing

import (
	"fmt"
	"time"
)

// Bucket is the length of the intervals by which costs are summed. In UTC, buckets begin on
// the hour, at midnight, on Monday, or on the first day of a month or year.
type Bucket string

// The lengths of buckets.
const (
	Hour  Bucket = "hour"
	Day   Bucket = "day"
	Week  Bucket = "week"
	Month Bucket = "month"
	Year  Bucket = "year"
)

// Buckets lists the names of the lengths, the shortest first.
var Buckets = []string{string(Hour), string(Day), string(Week), string(Month), string(Year)}

// MaxBuckets is the maximum number of a window's buckets.
const MaxBuckets = 10_000

// DefaultPeriod is the length of a window without a start.
const DefaultPeriod = 30 * 24 * time.Hour

// floor returns the start of the bucket that contains t.
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

// step returns the start of the nth bucket after the one that starts at start.
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

// ceil returns the first start of a bucket that isn't before t.
func (b Bucket) ceil(t time.Time) time.Time {
	if start := b.floor(t); start.Before(t) {
		return b.step(start, 1)
	}
	return t.UTC()
}

// Window is a sequence of buckets.
type Window struct {
	Bucket Bucket
	Bounds []time.Time // start of each bucket, and end of the last one
}

// Start returns the start of the first bucket.
func (w Window) Start() time.Time { return w.Bounds[0] }

// End returns the exclusive end of the last bucket.
func (w Window) End() time.Time { return w.Bounds[len(w.Bounds)-1] }

// Len returns the number of buckets.
func (w Window) Len() int { return len(w.Bounds) - 1 }

// Between returns the window of all buckets that overlap the time from start to end. Its
// errors are for clients.
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

// Last returns the window of the last n buckets, including the current one.
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

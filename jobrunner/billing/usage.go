package billing

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Usage is the cost and the billed time of a resource in a bucket.
type Usage struct {
	Resource
	Bucket int // index in the window
	Cost   Cost
	Time   time.Duration
}

// Usage calls visit with the usage of a kind's resources in each bucket of a window, up to
// now. It calls visit for each span, so a resource may come several times for a bucket.
func (m *Meter) Usage(ctx context.Context, kind Kind, w Window, visit func(Usage)) error {
	now := m.Clock.Wall().UnixMilli()
	spans := m.inMemory(kind)
	known := map[string]bool{}
	for _, s := range spans {
		known[s.id] = true
	}
	from, to := w.Start().UnixMilli(), w.End().UnixMilli()
	err := m.DB.Read(ctx, func(r *sqldb.Reader) error {
		rows, err := r.Query(spansOf, string(kind), from, to)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // Err has the error of reading
		for rows.Next() {
			s := span{Resource: Resource{Kind: kind}}
			var doc []byte
			if err := rows.Scan(&s.id, &s.ID, &s.Owner, &s.started, &s.until, &doc); err != nil {
				return err
			}
			if known[s.id] {
				continue
			}
			if err := json.Unmarshal(doc, &s.Resource); err != nil {
				return err
			}
			spans = append(spans, s)
		}
		return rows.Err()
	})
	if err != nil {
		return err
	}
	for _, s := range spans {
		if s.until == endless {
			s.until = max(now, s.started)
		}
		s.visit(w, visit)
	}
	return nil
}

// inMemory returns the running spans of this process, up to now, and those that aren't
// written yet.
func (m *Meter) inMemory(kind Kind) (spans []span) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	add := func(s *span) {
		if s.Kind == kind {
			shown := *s
			if shown.until == endless {
				shown.until = max(now, s.started)
			}
			spans = append(spans, shown)
		}
	}
	for _, s := range m.running {
		add(s)
	}
	for _, s := range m.pending {
		if s.until != endless { // m.running has the others
			add(s)
		}
	}
	return spans
}

// visit splits a span at the bounds of a window, and calls visit for each part.
func (s span) visit(w Window, visit func(Usage)) {
	first, _ := slices.BinarySearchFunc(w.Bounds[1:], s.started, func(end time.Time, started int64) int { return cmp.Compare(end.UnixMilli(), started+1) })
	for i := first; i < w.Len(); i++ {
		from, to := w.Bounds[i].UnixMilli(), w.Bounds[i+1].UnixMilli()
		if from >= s.until {
			return
		}
		from, to = max(from, s.started), min(to, s.until)
		visit(Usage{
			Resource: s.Resource, Bucket: i, Cost: between(s.Rates, from-s.started, to-s.started), Time: time.Duration(to-from) * time.Millisecond,
		})
	}
}

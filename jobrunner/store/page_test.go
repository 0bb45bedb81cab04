package store_test

import (
	"math"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// BenchmarkEndpointPage reads the first and the last page of 100,000 endpoints, and reports the
// ratio of their times. The goal is at most 3.
func BenchmarkEndpointPage(b *testing.B) {
	const all, limit = 100_000, 1000
	db, err := sqldb.Open(b.Context(), sqldb.Config{})
	must.Succeed(b, err)
	defer func() { _ = db.Close() }()
	s, err := store.Open(b.Context(), db, new(clock.Clock))
	must.Succeed(b, err)
	must.Do(s.CreateEndpoint(b.Context(), func(*store.Tx) (store.Endpoint, error) { return endpoint(), nil }))(b)
	err = db.Write(b.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(`INSERT INTO objects (id, kind, name, doc)
			WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT 'e' || i, kind, name, doc FROM n, objects WHERE objects.seq = 1`, all)
		return err
	})
	must.Succeed(b, err)
	read := func(before int64) time.Duration {
		began := time.Now()
		part, next, err := store.ReadPage[store.Endpoint](b.Context(), s, store.Page{Before: before, Limit: limit})
		if err != nil || len(part) != limit || (next == 0) != (before == limit+1) {
			b.Fatalf("%d endpoints before %d, next is %d, %v", len(part), before, next, err)
		}
		return time.Since(began)
	}
	var first, last time.Duration
	for b.Loop() {
		first += read(math.MaxInt64)
		last += read(limit + 1)
	}
	b.ReportMetric(float64(last)/float64(first), "last/first")
}

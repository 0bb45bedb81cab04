//go:build unix

package bench_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The load in addition to the measured clients.
const (
	mixedRuns  = 1000    // POST /run per second
	mixedQueue = 100_000 // jobs of another endpoint, which are purged
)

// BenchmarkMixed measures 64 clients of /runsync while others queue a thousand jobs per second
// at the same endpoint and a long queue is purged.
func BenchmarkMixed(b *testing.B) {
	all := start(b)
	queued := mixedQueue
	if *brief {
		queued = 1000
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\n| database | runsync/s | p50 | p99 |\n|---|---:|---:|---:|\n")
	for _, s := range all {
		if s.name == floorName {
			continue // it can't purge only one endpoint's queue
		}
		b.Run(s.name, func(b *testing.B) {
			s.deploy(b, "idle", "builtin/echo", 0, 0)
			clients, done := newClients(s, 64)
			defer done()
			once := must.Do(works[0].prepare(clients[0], 1<<10))(b)
			var r result
			for b.Loop() {
				s.fill(b, queued)
				r = s.mix(b, clients, once)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(r.rate, "runsync/s")
			b.ReportMetric(r.p50.Seconds()*1000, "p50-ms")
			b.ReportMetric(r.p99.Seconds()*1000, "p99-ms")
			fmt.Fprintf(&table, "| %s | %s | %s ms | %s ms |\n", s.name, rate(r.rate), milliseconds(r.p50), milliseconds(r.p99))
			must.Hold(b, r.failed <= 0, r.failed, "requests failed", r.failure)
		})
	}
	write(b, "mixed load", table.String()+"\n")
}

// fill queues jobs at an endpoint without workers.
func (s *subject) fill(b *testing.B, n int) {
	b.Helper()
	clients, done := newClients(s, 32)
	defer done()
	var group sync.WaitGroup
	failures := make(chan error, len(clients))
	for _, c := range clients {
		group.Go(func() {
			for range n / len(clients) {
				if _, err := c.ask(http.MethodPost, "/v2/"+s.endpoints["idle"]+"/run", submission(1<<10)); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		b.Fatal(err)
	default:
	}
}

// mix measures the clients under the additional load.
func (s *subject) mix(b *testing.B, clients []*client, once func(*client) error) result {
	b.Helper()
	others, done := newClients(s, 9)
	defer done()
	stop := make(chan struct{})
	var group sync.WaitGroup
	for _, c := range others[:8] {
		group.Go(func() {
			ticker := time.NewTicker(8 * time.Second / mixedRuns)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
				case <-stop:
					return
				}
				if _, err := c.ask(http.MethodPost, "/v2/"+s.endpoints["echo"]+"/run", submission(1<<10)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Go(func() {
		if _, err := others[8].ask(http.MethodPost, "/v2/"+s.endpoints["idle"]+"/purge-queue", nil); err != nil {
			b.Error(err)
		}
	})
	r := load(clients, *moment, once)
	close(stop)
	group.Wait()
	return r
}

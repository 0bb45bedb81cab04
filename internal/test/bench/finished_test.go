//go:build unix

package bench_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// finishedJobs inserts n finished jobs and their tally.
var finishedJobs = []string{`
	INSERT INTO jobs (endpoint, id, state, low, webhook, exec_ms, keep_ms, submitted, turn, queued, expires, gone, worker, attempt, started, finished)
	WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
	SELECT ?, 'job-' || n, 'COMPLETED', 0, '', 0, 1800000, ?, ?, ?, ? + 86400000, ? + 1800000, 'w', 1, ?, ? FROM numbers`, `
	INSERT INTO outputs (k, output, error) SELECT k, '{"a": 1}', '' FROM jobs`, `
	INSERT INTO tallies (endpoint, slot, in_queue, waiting, in_progress, completed, failed, retried) VALUES (?, 0, 0, 0, 0, ?, 0, 0)`}

// benchmarkStart measures a start with finished jobs in the data folder, until the status of
// one job and the health of its endpoint have been read.
func benchmarkStart(b *testing.B, bin string, jobs int) (all time.Duration) {
	b.Helper()
	folder := b.TempDir()
	first := serveFolder(b, bin, folder)
	first.deploy(b, "echo", images["echo"], 0, 1)
	endpoint := first.endpoints["echo"]
	must.Succeed(b, syscall.Kill(first.pid, syscall.SIGTERM))
	fill(b, folder, endpoint, jobs)
	for b.Loop() {
		begin := time.Now()
		s := serveFolder(b, bin, folder)
		clients, done := newClients(s, 1)
		must.Succeed(b, expectCompleted(clients[0].ask(http.MethodGet, fmt.Sprintf("/v2/%s/status/job-%d", endpoint, jobs), nil)))
		text, err := clients[0].ask(http.MethodGet, "/v2/"+endpoint+"/health", nil)
		if err != nil || !strings.Contains(string(text), fmt.Sprintf(`"completed":%d`, jobs)) {
			b.Fatalf("%v: %s, expected %d completed jobs", err, text, jobs)
		}
		all = time.Since(begin)
		b.ReportMetric(all.Seconds()*1000, "ms")
		done()
		must.Succeed(b, syscall.Kill(s.pid, syscall.SIGTERM))
		must.Succeed(b, openWhenReleased(b, folder).Close())
	}
	b.ReportMetric(0, "ns/op")
	return all
}

func serveFolder(b *testing.B, bin, folder string) *subject {
	b.Helper()
	s := &subject{name: "SQLite", key: benchKey, endpoints: map[string]string{}}
	line := s.run(b, filepath.Join(bin, "jobrunner"), []string{"GPUCLOUD_API_KEY=" + s.key}, urlLine, "serve", "--data", folder, "--listen", "127.0.0.1:0", "--gpus", "off")
	s.url = strings.TrimSpace(strings.TrimPrefix(line, urlLine))
	return s
}

// openWhenReleased opens the database once the previous process has ended.
func openWhenReleased(b *testing.B, folder string) *sqldb.DB {
	b.Helper()
	for {
		db, err := sqldb.Open(b.Context(), sqldb.Config{Dir: folder, NoSync: true})
		if err == nil {
			return db
		}
		if !errors.Is(err, sqldb.ErrInUse) {
			b.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func fill(b *testing.B, folder, endpoint string, jobs int) {
	b.Helper()
	db := openWhenReleased(b, folder)
	now := time.Now().UnixMilli()
	args := [][]any{{jobs, endpoint, now, now, now, now, now, now, now}, nil, {endpoint, jobs}}
	err := db.Write(b.Context(), func(tx *sqldb.Tx) error {
		for i, statement := range finishedJobs {
			if _, err := tx.Exec(statement, args[i]...); err != nil {
				return err
			}
		}
		return nil
	})
	must.Succeed(b, errors.Join(err, db.Close()))
}

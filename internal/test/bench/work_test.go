//go:build unix

package bench_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// operation is what clients repeat.
type operation struct {
	name, description string
	handler           string // echo, stream or http
	sizes             []int
	clients           []int
	// prepare returns a function that performs the operation once.
	prepare func(c *client, size int) (perform func(*client) error, err error)
}

var (
	sizes   = []int{1 << 10, 64 << 10, 1 << 20}
	clients = []int{1, 8, 64}
)

var operations = []operation{
	{"runsync", "`POST /runsync` of an echo job", "echo", sizes, clients, runSync("echo")},
	{"run", "`POST /run` of an echo job, while workers run the jobs", "echo", sizes, clients, run},
	{"status", "`GET /status` of a finished job", "echo", sizes, clients, status},
	{"stream", "`POST /run` of a job with 1,000 chunks, and `GET /stream` until all are read", "stream", sizes[:1], clients, stream},
	{"http", "`POST /runsync` of an echo job, with workers that use the worker protocol", "http", sizes, clients, runSync("http")},
}

// submission returns a submission of a size in bytes.
func submission(size int) []byte {
	const envelope = `{"input": {"text": ""}}`
	return []byte(`{"input": {"text": "` + strings.Repeat("x", size-len(envelope)) + `"}}`)
}

var completedStatus = []byte(`"status":"COMPLETED"`)

func expectCompleted(text []byte, err error) error {
	if err == nil && !bytes.Contains(text, completedStatus) {
		err = fmt.Errorf("the job is not COMPLETED: %.200s", text)
	}
	return err
}

func runSync(handler string) func(*client, int) (func(*client) error, error) {
	return func(c *client, size int) (func(*client) error, error) {
		path, body := "/v2/"+c.endpoints[handler]+"/runsync", submission(size)
		return func(c *client) error { return expectCompleted(c.ask(http.MethodPost, path, body)) }, nil
	}
}

func run(c *client, size int) (func(*client) error, error) {
	path, body := "/v2/"+c.endpoints["echo"]+"/run", submission(size)
	return func(c *client) error { return must.Err(c.ask(http.MethodPost, path, body)) }, nil
}

func status(c *client, size int) (func(*client) error, error) {
	text, err := c.ask(http.MethodPost, "/v2/"+c.endpoints["echo"]+"/runsync", submission(size))
	var job struct{ ID string }
	if err == nil {
		err = json.Unmarshal(text, &job)
	}
	path := "/v2/" + c.endpoints["echo"] + "/status/" + job.ID
	return func(c *client) error { return expectCompleted(c.ask(http.MethodGet, path, nil)) }, err
}

const chunks = 1000

func stream(c *client, _ int) (func(*client) error, error) {
	at, body := "/v2/"+c.endpoints["stream"], fmt.Appendf(nil, `{"input": {"op": "stream", "n": %d}}`, chunks)
	return func(c *client) error {
		text, err := c.ask(http.MethodPost, at+"/run", body)
		var job struct{ ID string }
		if err == nil {
			err = json.Unmarshal(text, &job)
		}
		for read := 0; err == nil && read < chunks; {
			if text, err = c.ask(http.MethodGet, at+"/stream/"+job.ID, nil); err == nil {
				n := bytes.Count(text, []byte(`"output"`))
				read += n
				if n == 0 { // no chunk arrived while the server held the request
					if text, err = c.ask(http.MethodGet, at+"/status/"+job.ID, nil); err == nil && !bytes.Contains(text, []byte(`"status":"IN_`)) {
						err = fmt.Errorf("the job ended before all its chunks were read: %.200s", text)
					}
				}
			}
		}
		return err
	}, nil
}

// BenchmarkCold measures starts of the program (with and without finished jobs), of a Python worker, and a local
// run of the conformance suite.
func BenchmarkCold(b *testing.B) {
	bin := b.TempDir()
	must.Succeed(b, gobuild.Programs(b.Context(), bin, "../../../cmd/jobrunner", "../../../cmd/conformance"))
	table := "\n| from | to | time | for comparison |\n|---|---|---:|---|\n"
	addRow := func(from, to string, duration time.Duration, comparison string) {
		table += fmt.Sprintf("| %s | %s | %s ms | %s |\n", from, to, formatMilliseconds(duration), comparison)
	}
	b.Run("serve", func(b *testing.B) {
		var all, listens time.Duration
		for b.Loop() {
			begin := time.Now()
			s := serveCold(b, bin)
			listens = time.Since(begin)
			clients, done := newClients(s, 1)
			must.Do(clients[0].ask(http.MethodGet, "/v2/templates", nil))(b)
			all = time.Since(begin)
			b.ReportMetric(all.Seconds()*1000, "ms")
			done()
		}
		b.ReportMetric(0, "ns/op")
		addRow("`jobrunner serve --ephemeral`", "its first response", all, formatMilliseconds(listens)+" ms until it listens")
	})
	b.Run("finished", func(b *testing.B) {
		jobs := 1_000_000
		if *brief {
			jobs = 1000
		}
		all := benchmarkStart(b, bin, jobs)
		addRow(fmt.Sprintf("`jobrunner serve` with %d finished jobs", jobs), "the status of one, and the endpoint's health", all, "")
	})
	b.Run("worker", func(b *testing.B) {
		s := serveCold(b, bin)
		var all time.Duration
		for n := 0; b.Loop(); n++ {
			s.deploy(b, "cold", "bench/python", 0, 1)
			clients, done := newClients(s, 1)
			begin := time.Now()
			text, err := clients[0].ask(http.MethodPost, "/v2/"+s.endpoints["cold"]+"/runsync", submission(1<<10))
			var job struct{ Output float64 }
			if err = expectCompleted(text, err); err == nil {
				err = json.Unmarshal(text, &job)
			}
			must.Succeed(b, err)
			all = time.Duration(job.Output*1e9) - time.Duration(begin.UnixNano())
			b.ReportMetric(all.Seconds()*1000, "ms")
			done()
		}
		b.ReportMetric(0, "ns/op")
		begin := time.Now()
		must.Succeed(b, exec.CommandContext(b.Context(), "python3", "-c", "import json, os, sys, time, urllib.request").Run())
		addRow("a submission", "the first line of a cold Python worker's handler", all, formatMilliseconds(time.Since(begin))+" ms for a start of Python with its imports, measured separately")
	})
	b.Run("conformance", func(b *testing.B) {
		var all, judging time.Duration
		for b.Loop() {
			begin := time.Now()
			cmd := exec.CommandContext(b.Context(), filepath.Join(bin, "conformance"), "run", "--local") //nolint:gosec // runs a program that the benchmark built
			out, err := cmd.CombinedOutput()
			must.Require(b, err == nil, "conformance run --local failed:", err, string(out))
			all = time.Since(begin)
			if m := judgingTime.FindSubmatch(out); m != nil {
				judging, _ = time.ParseDuration(string(m[1]))
			}
			b.ReportMetric(all.Seconds()*1000, "ms")
		}
		b.ReportMetric(0, "ns/op")
		addRow("`conformance run --local`", "its end", all, formatMilliseconds(judging)+" ms for the cases; the rest is the jobrunner's start and stop")
	})
	replacePart(b, "cold start", table+"\n")
}

// judgingTime matches the duration of the cases in the output of a run.
var judgingTime = regexp.MustCompile(`clauses in ([0-9.msµ]+),`)

// serveCold starts a jobrunner with state in memory, and Python workers for the image bench/python.
func serveCold(b *testing.B, bin string) *subject {
	b.Helper()
	worker := must.Do(filepath.Abs("testdata/worker.py"))(b)
	config := filepath.Join(b.TempDir(), "jobrunner.yaml")
	must.Succeed(b, os.WriteFile(config, fmt.Appendf(nil, "engine: none\nrules:\n  - image: bench/python\n    process:\n      run: [python3, %s]\n", worker), 0o600))
	return startJobrunner(b, bin, "ephemeral", "--ephemeral", "--config", config)
}

// finishedJobs inserts n finished jobs and their count. A job's id contains its key (engine's newKey).
var finishedJobs = []string{`
	INSERT INTO jobs (k, endpoint, id, low, webhook, owner, exec_ms, keep_ms, batch, state, turn, queued, worker, attempt, retries, started, deadline, streamed,
		submitted, expires, gone, finished, call_at, call_tries, done)
	WITH RECURSIVE numbers (n, ms) AS (VALUES (0, ?) UNION ALL SELECT n + 1, ms + (n % 4096 = 4095) FROM numbers WHERE n < ? - 1)
	SELECT ms << 21 | n % 4096, ?, printf('%08x-%04x-7%03x-8000-000000000000-q1', ms >> 16, ms & 65535, n % 4096), 0, '', '', 0, 1800000, 0,
		'COMPLETED', ms, ms, 'w', 1, 0, ms, ms + 600000, 0, ms, ms + 86400000, ms + 1800000, ms, 0, 0, 1 FROM numbers`, `
	INSERT INTO outputs (k, output, error) SELECT k, '{"a": 1}', '' FROM jobs`, `
	INSERT INTO counts (endpoint, in_queue, waiting, in_progress, completed, failed, retried) VALUES (?, 0, 0, 0, ?, 0, 0)`}

// benchmarkStart measures a start with finished jobs, until a job's status and its endpoint's health are read.
func benchmarkStart(b *testing.B, bin string, jobs int) (all time.Duration) {
	b.Helper()
	folder := b.TempDir()
	first := startJobrunner(b, bin, "SQLite", "--data", folder)
	first.deploy(b, "echo", images["echo"], 0, 1)
	endpoint := first.endpoints["echo"]
	must.Succeed(b, syscall.Kill(first.pid, syscall.SIGTERM))
	now := time.Now().UnixMilli()
	insertFinished(b, folder, endpoint, jobs, now)
	id := fmt.Sprintf("%08x-%04x-7000-8000-000000000000-q1", now>>16, now&0xffff) // of the first
	for b.Loop() {
		begin := time.Now()
		s := startJobrunner(b, bin, "SQLite", "--data", folder)
		clients, done := newClients(s, 1)
		must.Succeed(b, expectCompleted(clients[0].ask(http.MethodGet, "/v2/"+endpoint+"/status/"+id, nil)))
		text, err := clients[0].ask(http.MethodGet, "/v2/"+endpoint+"/health", nil)
		must.Require(b, err == nil && strings.Contains(string(text), fmt.Sprintf(`"completed":%d`, jobs)),
			"expected", jobs, "completed jobs in the health and got", string(text), err)
		all = time.Since(begin)
		b.ReportMetric(all.Seconds()*1000, "ms")
		done()
		must.Succeed(b, syscall.Kill(s.pid, syscall.SIGTERM))
		must.Succeed(b, openWhenReleased(b, folder).Close())
	}
	b.ReportMetric(0, "ns/op")
	return all
}

// openWhenReleased opens the database once the previous process has ended.
func openWhenReleased(b *testing.B, folder string) *sqldb.DB {
	b.Helper()
	for {
		db, err := sqldb.Open(b.Context(), sqldb.Config{Dir: folder, NoSync: true})
		if err == nil {
			return db
		}
		must.Require(b, errors.Is(err, sqldb.ErrInUse), "opening the database failed:", err)
		time.Sleep(10 * time.Millisecond)
	}
}

func insertFinished(b *testing.B, folder, endpoint string, jobs int, now int64) {
	b.Helper()
	db := openWhenReleased(b, folder)
	args := [][]any{{now, jobs, endpoint}, nil, {endpoint, jobs}}
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

// The load in addition to the measured clients.
const (
	mixedRuns  = 1000    // POST /run per second
	mixedQueue = 100_000 // jobs of another endpoint, which are purged
)

// BenchmarkMixed measures 64 clients of /runsync beside 1,000 queued jobs per second and a purge of a long queue.
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
			perform := must.Do(operations[0].prepare(clients[0], 1<<10))(b)
			var r result
			for b.Loop() {
				s.queueIdle(b, queued)
				r = s.measureMixed(b, clients, perform)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(r.rate, "runsync/s")
			b.ReportMetric(r.p50.Seconds()*1000, "p50-ms")
			b.ReportMetric(r.p99.Seconds()*1000, "p99-ms")
			fmt.Fprintf(&table, "| %s | %s | %s ms | %s ms |\n", s.name, formatRate(r.rate), formatMilliseconds(r.p50), formatMilliseconds(r.p99))
			must.Hold(b, r.failed <= 0, r.failed, "requests failed, the last with", r.failure)
		})
	}
	replacePart(b, "mixed load", table.String()+"\n")
}

// queueIdle queues jobs at the endpoint without workers.
func (s *subject) queueIdle(b *testing.B, n int) {
	b.Helper()
	clients, done := newClients(s, 32)
	defer done()
	var group sync.WaitGroup
	for _, c := range clients {
		group.Go(func() {
			for range n / len(clients) {
				if _, err := c.ask(http.MethodPost, "/v2/"+s.endpoints["idle"]+"/run", submission(1<<10)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	must.Require(b, !b.Failed(), "a job could not be queued")
}

func (s *subject) measureMixed(b *testing.B, clients []*client, perform func(*client) error) result {
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
		must.Succeed(b, must.Err(others[8].ask(http.MethodPost, "/v2/"+s.endpoints["idle"]+"/purge-queue", nil)))
	})
	r := runClients(clients, *roundTime, perform)
	close(stop)
	group.Wait()
	return r
}

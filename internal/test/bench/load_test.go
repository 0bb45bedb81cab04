//go:build unix

package bench_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// result is the result of one process and one operation in one round.
type result struct {
	rate     float64 // requests per second
	p50, p99 time.Duration
	cpu      time.Duration // processor time per request
	resident int64         // resident memory afterwards, in bytes
	failed   int
	failure  error // one of the failures
}

func (s *subject) newRequest(method, path string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(context.Background(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// client is one of several concurrent clients. It reuses its buffer, to cost little.
type client struct {
	*subject
	http *http.Client
	buf  bytes.Buffer
}

func newClients(s *subject, n int) (clients []*client, done func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}
	for range n {
		clients = append(clients, &client{subject: s, http: &http.Client{Transport: transport, Timeout: time.Minute}})
	}
	return clients, transport.CloseIdleConnections
}

// ask sends a request and returns the body, which is valid until the next call.
func (c *client) ask(method, path string, body []byte) ([]byte, error) {
	r, err := c.newRequest(method, path, body)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	c.buf.Reset()
	_, err = c.buf.ReadFrom(answer.Body)
	if e := answer.Body.Close(); err == nil {
		err = e
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %d %.200s", method, path, answer.StatusCode, c.buf.Bytes())
	}
	return c.buf.Bytes(), err
}

// measureRound measures an operation for roundTime, after a warm-up of a quarter of it. Then it drains the queue.
func measureRound(b *testing.B, s *subject, o operation, size, n int) result {
	b.Helper()
	clients, done := newClients(s, n)
	defer done()
	perform, err := o.prepare(clients[0], size)
	must.Require(b, err == nil, "preparing", o.name, "on", s.name, "failed:", err)
	duration := *roundTime
	if size >= 1<<20 {
		duration /= 4 // state in memory has no space for more
	}
	runClients(clients, duration/4, perform)
	awaitProfile := s.profile(fmt.Sprintf("%s-%s-%d-%s", o.name, bytesName(size), n, s.name))
	before := s.cpuTime()
	r := runClients(clients, duration, perform)
	if requests := r.rate * duration.Seconds(); requests > 0 {
		r.cpu = time.Duration(float64(s.cpuTime()-before) / requests)
	}
	awaitProfile()
	_, err = clients[0].ask(http.MethodPost, "/v2/"+s.endpoints[o.handler]+"/purge-queue", nil)
	must.Require(b, err == nil || errors.Is(err, io.EOF), "purging the queue of", s.name, "failed:", err)
	awaitIdle(b, clients[0], s.endpoints[o.handler])
	r.resident = s.residentMemory()
	s.renew(b, o.handler)
	return r
}

// profile records a profile of the process if -bench.profile is set.
func (s *subject) profile(name string) (done func()) {
	if *profile == "" || s.name == floorName {
		return func() {}
	}
	var group sync.WaitGroup
	group.Go(func() {
		clients, done := newClients(s, 1)
		defer done()
		text, err := clients[0].ask(http.MethodGet, fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(roundTime.Seconds()))), nil)
		if err == nil {
			_ = os.WriteFile(filepath.Join(*profile, name+".pprof"), text, 0o600) // the user notices a missing file
		}
	})
	return group.Wait
}

// runClients lets clients send requests in a loop.
func runClients(clients []*client, duration time.Duration, perform func(*client) error) (r result) {
	var mu sync.Mutex
	var times []time.Duration
	var group sync.WaitGroup
	begin := time.Now()
	for _, c := range clients {
		group.Go(func() {
			var own []time.Duration
			failed, failure := 0, error(nil)
			for sent := time.Now(); sent.Sub(begin) < duration; {
				err := perform(c)
				now := time.Now()
				if err != nil {
					failed, failure = failed+1, err
				} else {
					own = append(own, now.Sub(sent))
				}
				sent = now
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			r.failed += failed
			if failure != nil {
				r.failure = failure
			}
		})
	}
	group.Wait()
	r.rate = float64(len(times)) / time.Since(begin).Seconds()
	if slices.Sort(times); len(times) > 0 {
		r.p50, r.p99 = times[len(times)/2], times[len(times)*99/100]
	}
	return r
}

// costOperations are the operations whose cost per job is measured.
var costOperations = []string{"run", "runsync"}

// costClients is the number of concurrent clients, spread over the nodes.
const costClients = 64

// cost is the processor time of a job, at a rate of jobs.
type cost struct {
	rate            float64 // jobs per second
	nodes, database time.Duration
}

// BenchmarkNodes measures a job's processor time with one to three jobrunners. docs/reference/scaling.md uses it.
func BenchmarkNodes(b *testing.B) {
	bin := b.TempDir()
	must.Succeed(b, gobuild.Programs(b.Context(), bin, "../../../cmd/jobrunner"))
	var table strings.Builder
	fmt.Fprintf(&table, "%d clients, echo jobs of 1 KB; median of rounds of %s.\n\n", costClients, *roundTime)
	table.WriteString("| state | nodes | operation | jobs/s | processor time per job, nodes | database |\n|---|---:|---|---:|---:|---:|\n")
	for _, d := range []struct {
		name  string
		nodes int
	}{{"ephemeral", 1}, {"SQLite", 1}, {"PostgreSQL", 1}, {"PostgreSQL", 2}, {"PostgreSQL", 3}} {
		b.Run(fmt.Sprintf("%s/nodes=%d", d.name, d.nodes), func(b *testing.B) {
			all, server := startNodes(b, bin, d.name, d.nodes)
			for _, name := range costOperations {
				o := operations[slices.IndexFunc(operations, func(o operation) bool { return o.name == name })]
				b.Run(name, func(b *testing.B) {
					var measured []cost
					for b.Loop() {
						measured = append(measured, costOf(b, all, server, o))
					}
					slices.SortFunc(measured, func(a, b cost) int { return cmp.Compare(a.nodes+a.database, b.nodes+b.database) })
					c := measured[len(measured)/2]
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(c.rate, "jobs/s")
					b.ReportMetric(float64(c.nodes.Microseconds()), "nodes-µs")
					b.ReportMetric(float64(c.database.Microseconds()), "database-µs")
					database := "included"
					if server != nil {
						database = fmt.Sprintf("%d µs", c.database.Microseconds())
					}
					fmt.Fprintf(&table, "| %s | %d | `/%s` | %s | %d µs | %s |\n", d.name, d.nodes, name, formatRate(c.rate), c.nodes.Microseconds(), database)
				})
			}
		})
	}
	replacePart(b, "nodes", table.String()+"\n")
}

// startNodes starts n jobrunners on one state. server is nil if the state is embedded.
func startNodes(b *testing.B, bin, state string, n int) (all []*subject, server *pgtest.Server) {
	b.Helper()
	flags := func() []string { return []string{"--data", b.TempDir()} }
	switch state {
	case "ephemeral":
		flags = func() []string { return []string{"--ephemeral"} }
	case "PostgreSQL":
		server = pgtest.NewServer(b)
		flags = func() []string { return []string{"--data", b.TempDir(), "--engine", server.URL} }
	}
	for i := range n {
		all = append(all, startJobrunner(b, bin, fmt.Sprintf("%s-%d", state, i+1), append(flags(), "--limits", "off")...))
	}
	return all, server
}

// costOf lets clients load all nodes for a moment, and waits until all jobs are done.
func costOf(b *testing.B, all []*subject, server *pgtest.Server, o operation) (c cost) {
	b.Helper()
	all[0].deploy(b, o.handler, images[o.handler], workers, workers)
	id := all[0].endpoints[o.handler]
	defer func() {
		_ = must.Do(http.DefaultClient.Do(all[0].request(b, http.MethodDelete, "/v2/serverless/"+id, nil)))(b).Body.Close()
	}()
	var clients []*client
	for _, s := range all {
		s.endpoints[o.handler] = id
		own, done := newClients(s, costClients/len(all))
		defer done()
		clients = append(clients, own...)
	}
	perform := must.Do(o.prepare(clients[0], 1<<10))(b)
	runClients(clients, *roundTime/4, perform)
	awaitIdle(b, clients[0], id)
	began, nodesBefore, databaseBefore := time.Now(), nodesTime(all), databaseTime(server)
	r := runClients(clients, *roundTime, perform)
	jobs := r.rate * roundTime.Seconds()
	awaitIdle(b, clients[0], id)
	must.Hold(b, r.failed <= 0, r.failed, "requests failed, the last with", r.failure)
	must.Require(b, jobs >= 1, "expected at least one finished job")
	c.rate = jobs / time.Since(began).Seconds()
	c.nodes = time.Duration(float64(nodesTime(all)-nodesBefore) / jobs)
	c.database = time.Duration(float64(databaseTime(server)-databaseBefore) / jobs)
	return c
}

// awaitIdle waits until no job of an endpoint waits or runs.
func awaitIdle(b *testing.B, c *client, endpoint string) {
	b.Helper()
	for {
		text, err := c.ask(http.MethodGet, "/v2/"+endpoint+"/health", nil)
		must.Require(b, err == nil, "reading the endpoint's health:", err)
		if strings.Contains(string(text), `"inProgress":0`) && strings.Contains(string(text), `"inQueue":0`) {
			return
		}
		time.Sleep(50 * time.Millisecond) // each poll costs processor time, too
	}
}

func nodesTime(all []*subject) (sum time.Duration) {
	for _, s := range all {
		sum += s.cpuTime()
	}
	return sum
}

// databaseTime returns the processor time of the server's processes, none of which ends during a measurement.
func databaseTime(server *pgtest.Server) (sum time.Duration) {
	if server == nil {
		return 0
	}
	for _, pid := range server.Processes() {
		sum += cpuTime(pid)
	}
	return sum
}

//go:build unix

package bench_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

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

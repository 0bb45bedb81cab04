//go:build unix

// Package bench_test compares the job API with its floor (floor/main.go). Jobrunner and floor
// are processes that take turns in one run, under load from the same HTTP clients.
//
//	go test -run '^$' -bench . -benchtime 3x ./internal/test/bench
//
// Each iteration is a round, in which every process serves each operation for a moment. The
// median round counts. Slow results don't fail.
package bench_test

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	moment  = flag.Duration("bench.moment", time.Second, "how long each process serves an operation in a round; a quarter of that with 1 MB")
	output  = flag.String("bench.report", "", "Markdown `FILE` for the tables; the plot has the same name with .svg")
	profile = flag.String("bench.profile", "", "`FOLDER` for a profile of each jobrunner and operation")
	only    = flag.String("bench.only", "", "compare only this `NAME` with the floor: ephemeral, SQLite or PostgreSQL")
	brief   = flag.Bool("bench.brief", false, "only one size and one number of clients per operation, to check that it runs")
)

// BenchmarkJobAPI measures every operation, size and number of clients on every process.
func BenchmarkJobAPI(b *testing.B) {
	all := start(b)
	var rows []row
	for _, w := range works {
		for _, size := range w.sizes {
			for _, clients := range w.clients {
				if *brief && (size != w.sizes[0] || clients != w.clients[len(w.clients)-1]) {
					continue
				}
				b.Run(fmt.Sprintf("%s/size=%s/clients=%d", w.name, bytesName(size), clients), func(b *testing.B) {
					r := measure(b, all, w, size, clients)
					r.metrics(b)
					rows = append(rows, r)
				})
				report(b, rows) // after each row, so that an interrupted run leaves a report
			}
		}
	}
}

// measure lets each process serve the work in turn.
func measure(b *testing.B, all []*subject, w work, size, clients int) row {
	b.Helper()
	r := row{work: w, size: size, clients: clients, results: map[string][]result{}}
	first := 0
	for b.Loop() {
		for i := range all {
			s := all[(first+i)%len(all)]
			r.results[s.name] = append(r.results[s.name], serve(b, s, w, size, clients))
		}
		first++
	}
	for _, s := range all {
		r.subjects = append(r.subjects, s.name)
	}
	return r
}

func bytesName(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%dMB", n>>20)
	}
	return fmt.Sprintf("%dKB", n>>10)
}

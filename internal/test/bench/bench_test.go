//go:build unix

// Package bench_test measures the job API beside its floor (floor/main.go): the
// jobrunner and the floor are processes of their own that take turns in one
// run, under the same clients over HTTP.
//
//	go test -run '^$' -bench . -benchtime 3x ./internal/test/bench
//
// Each iteration is a round, in which each process serves the work for a
// moment; the middle one counts. Nothing fails because it is slow.
package bench_test

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	moment  = flag.Duration("bench.moment", time.Second, "how long each process serves a work in a round; a quarter of that with 1 MB")
	output  = flag.String("bench.report", "", "Markdown `FILE` for the tables; the plot is beside it, with .svg for .md")
	profile = flag.String("bench.profile", "", "`FOLDER` for a profile of each jobrunner in each work")
	only    = flag.String("bench.only", "", "the one `NAME` to measure beside the floor: ephemeral, SQLite or PostgreSQL")
	brief   = flag.Bool("bench.brief", false, "one size and one number of clients of each work: to see that it runs")
)

// BenchmarkJobAPI is every work × size × number of clients on every process.
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
				report(b, rows) // so that a run that is broken off leaves what it has
			}
		}
	}
}

// measure has each process serve a work in turn.
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

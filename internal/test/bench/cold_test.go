//go:build unix

package bench_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// BenchmarkCold measures cold starts: from the start of the program to its first response,
// from a submission to the first line of a Python worker's handler, and a local run of the
// conformance suite.
func BenchmarkCold(b *testing.B) {
	bin := b.TempDir()
	must.Succeed(b, gobuild.Programs(b.Context(), bin, "../../../cmd/jobrunner", "../../../cmd/conformance"))
	table := "\n| from | to | time | part of it |\n|---|---|---:|---|\n"
	line := func(from, to string, all time.Duration, part string) {
		table += fmt.Sprintf("| %s | %s | %s ms | %s |\n", from, to, milliseconds(all), part)
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
		line("`jobrunner serve --ephemeral`", "its first response", all, milliseconds(listens)+" ms until it listens")
	})
	b.Run("finished", func(b *testing.B) {
		jobs := 1_000_000
		if *brief {
			jobs = 1000
		}
		all := benchmarkStart(b, bin, jobs)
		line(fmt.Sprintf("`jobrunner serve` with %d finished jobs", jobs), "the status of one, and the endpoint's health", all, "")
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
		line("a submission", "the first line of a cold Python worker's handler", all, milliseconds(time.Since(begin))+" ms for a start of Python with its imports, measured separately")
	})
	b.Run("conformance", func(b *testing.B) {
		var all, judging time.Duration
		for b.Loop() {
			begin := time.Now()
			cmd := exec.CommandContext(b.Context(), filepath.Join(bin, "conformance"), "run", "--local") //nolint:gosec // built above
			out, err := cmd.CombinedOutput()
			if err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			all = time.Since(begin)
			if m := judged.FindSubmatch(out); m != nil {
				judging, _ = time.ParseDuration(string(m[1]))
			}
			b.ReportMetric(all.Seconds()*1000, "ms")
		}
		b.ReportMetric(0, "ns/op")
		line("`conformance run --local`", "its end", all, milliseconds(judging)+" ms for the cases; the rest is the jobrunner's start and stop")
	})
	write(b, "cold start", table+"\n")
}

// judged matches the duration of the cases in the output of a run.
var judged = regexp.MustCompile(`clauses in ([0-9.msµ]+),`)

// serveCold starts a jobrunner in memory.
func serveCold(b *testing.B, bin string) *subject {
	b.Helper()
	s := &subject{name: "ephemeral", key: benchKey, endpoints: map[string]string{}}
	worker := must.Do(filepath.Abs("testdata/worker.py"))(b)
	config := filepath.Join(b.TempDir(), "jobrunner.yaml")
	must.Succeed(b, os.WriteFile(config, fmt.Appendf(nil, "engine: none\nrules:\n  - image: bench/python\n    process:\n      run: [python3, %s]\n", worker), 0o600))
	line := s.run(b, filepath.Join(bin, "jobrunner"), []string{"GPUCLOUD_API_KEY=" + s.key}, urlLine, "serve", "--ephemeral", "--listen", "127.0.0.1:0", "--gpus", "off", "--config", config)
	s.url = strings.TrimSpace(strings.TrimPrefix(line, urlLine))
	return s
}

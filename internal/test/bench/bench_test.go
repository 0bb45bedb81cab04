//go:build unix

// Package bench_test compares the job API with its floor, a server that does the least (floor/main.go). Jobrunner and floor
// are processes that take turns in one run, under load from the same HTTP clients.
//
//	go test -run '^$' -bench . -benchtime 3x ./internal/test/bench
//
// Each iteration is a round, in which every process serves the operation for a moment. The
// median round counts. Slow results don't fail.
package bench_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

var (
	roundTime = flag.Duration("bench.moment", time.Second, "how long each process serves an operation in a round; a quarter of that with 1 MB")
	output    = flag.String("bench.report", "", "Markdown `FILE` for the tables; the plot has the same name with .svg")
	profile   = flag.String("bench.profile", "", "`FOLDER` for a profile of each jobrunner and operation")
	only      = flag.String("bench.only", "", "compare only this `NAME` with the floor: ephemeral, SQLite or PostgreSQL")
	brief     = flag.Bool("bench.brief", false, "only one size and one number of clients per operation, to check that it runs")
)

// BenchmarkJobAPI measures every operation, size and number of clients on every process.
func BenchmarkJobAPI(b *testing.B) {
	all := start(b)
	var rows []row
	for _, o := range operations {
		for _, size := range o.sizes {
			for _, clients := range o.clients {
				if *brief && (size != o.sizes[0] || clients != o.clients[len(o.clients)-1]) {
					continue
				}
				b.Run(fmt.Sprintf("%s/size=%s/clients=%d", o.name, bytesName(size), clients), func(b *testing.B) {
					r := measure(b, all, o, size, clients)
					r.reportMetrics(b)
					rows = append(rows, r)
				})
				writeReport(b, rows) // after each row, so that an interrupted run leaves a report
			}
		}
	}
}

// measure lets each process perform the operation in turn.
func measure(b *testing.B, all []*subject, o operation, size, clients int) row {
	b.Helper()
	r := row{operation: o, size: size, clients: clients, results: map[string][]result{}}
	first := 0
	for b.Loop() {
		for i := range all {
			s := all[(first+i)%len(all)]
			r.results[s.name] = append(r.results[s.name], measureRound(b, s, o, size, clients))
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

// floorName is the name of the process that the others are compared with.
const floorName = "floor"

// workers is the number of workers of an endpoint, and of goroutines of the floor.
const workers = 8

const (
	benchKey = "benchmark-key-of-a-local-deployment"
	urlLine  = "export GPUCLOUD_BASE_URL="
)

// images are the images of a jobrunner's endpoints by handler.
var images = map[string]string{"echo": "builtin/echo", "stream": "builtin/conformance", "http": "bench/http"}

// subject is a process under test.
type subject struct {
	name, url, key string
	endpoints      map[string]string // ids by handler: echo, stream, http
	pid            int
	program        string // program of its HTTP workers; only of the floor
}

// start starts the floor and a jobrunner with each database.
func start(b *testing.B) []*subject {
	b.Helper()
	bin := b.TempDir()
	must.Succeed(b, gobuild.Programs(b.Context(), bin, "./floor", "../../../cmd/jobrunner"))
	floor := &subject{name: floorName, program: filepath.Join(bin, "floor"), endpoints: map[string]string{"echo": "echo", "stream": "stream", "http": "http"}}
	floor.url = strings.TrimSpace(floor.run(b, floor.program, nil, "http://"))
	floor.startWorkers(b)
	all := []*subject{floor}
	config := filepath.Join(bin, "jobrunner.yaml")
	rules := fmt.Sprintf("engine: none\nrules:\n  - image: bench/http\n    process:\n      run: [%s, worker]\n", floor.program)
	must.Succeed(b, os.WriteFile(config, []byte(rules), 0o600))
	for _, e := range []struct {
		name  string
		flags func() []string
	}{
		{"ephemeral", func() []string { return []string{"--ephemeral"} }},
		{"SQLite", func() []string { return []string{"--data", b.TempDir()} }},
		{"PostgreSQL", func() []string { return []string{"--data", b.TempDir(), "--engine", pgtest.Start(b)} }},
	} {
		if *only != "" && *only != e.name {
			continue
		}
		packaged, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
		if _, err := exec.LookPath("postgres"); e.name == "PostgreSQL" && err != nil && len(packaged) == 0 {
			b.Log("without PostgreSQL, which isn't installed")
			continue
		}
		args := append([]string{"--limits", "off", "--config", config}, e.flags()...)
		if *profile != "" {
			args = append(args, "--pprof")
		}
		s := startJobrunner(b, bin, e.name, args...)
		for handler, image := range images {
			s.deploy(b, handler, image, workers, workers)
		}
		all = append(all, s)
	}
	return all
}

// startJobrunner starts a jobrunner at a free port, without GPUs.
func startJobrunner(b *testing.B, bin, name string, args ...string) *subject {
	b.Helper()
	s := &subject{name: name, key: benchKey, endpoints: map[string]string{}}
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--gpus", "off"}, args...)
	line := s.run(b, filepath.Join(bin, "jobrunner"), []string{"GPUCLOUD_API_KEY=" + s.key}, urlLine, args...)
	s.url = strings.TrimSpace(strings.TrimPrefix(line, urlLine))
	return s
}

// run starts a program until the benchmark ends, and returns its first line with a prefix.
func (s *subject) run(b *testing.B, program string, env []string, prefix string, args ...string) string {
	b.Helper()
	cmd := exec.CommandContext(context.Background(), program, args...) //nolint:gosec // runs a program that the benchmark built
	cmd.Env = append(os.Environ(), env...)
	log := must.Do(os.Create(filepath.Join(b.TempDir(), s.name+".log")))(b)
	cmd.Stderr = log
	out := must.Do(cmd.StdoutPipe())(b)
	must.Succeed(b, cmd.Start())
	s.pid = cmd.Process.Pid
	b.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && b.Failed() {
			b.Logf("%s wrote\n%.4000s", s.name, text)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), prefix) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return lines.Text()
		}
	}
	text, _ := os.ReadFile(log.Name())
	b.Fatalf("%s ended without a line %s…: %s", program, prefix, text)
	return ""
}

// startWorkers starts HTTP workers for the floor, which starts none itself.
func (s *subject) startWorkers(b *testing.B) {
	b.Helper()
	for i := range workers {
		cmd := exec.CommandContext(context.Background(), s.program, "worker") //nolint:gosec // runs a program that the benchmark built
		at := s.url + "/v2/http/"
		cmd.Env = append(os.Environ(), "RUNPOD_POD_ID=w"+strconv.Itoa(i), "RUNPOD_WEBHOOK_GET_JOB="+at+"job-take/$ID?gpu=none",
			"RUNPOD_WEBHOOK_POST_OUTPUT="+at+"job-done/$RUNPOD_POD_ID/$ID?gpu=none")
		must.Succeed(b, cmd.Start())
		b.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}

// deploy creates an endpoint with an image and a minimum and maximum number of workers.
func (s *subject) deploy(b *testing.B, handler, image string, minWorkers, maxWorkers int) {
	b.Helper()
	body := fmt.Sprintf(`{"name": "bench-%s", "type": "QUEUE", "image": %q, "workers": {"min": %d, "max": %d}}`, handler, image, minWorkers, maxWorkers)
	answer := must.Do(http.DefaultClient.Do(s.request(b, http.MethodPost, "/v2/serverless", []byte(body))))(b)
	text, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	var response struct{ ID string }
	err := json.Unmarshal(text, &response)
	must.Require(b, err == nil && response.ID != "", "making an endpoint of", image, answer.StatusCode, string(text))
	s.endpoints[handler] = response.ID
}

// renew recreates the endpoint of a handler, which deletes its jobs: they would fill the state in memory.
func (s *subject) renew(b *testing.B, handler string) {
	b.Helper()
	if s.name == floorName {
		return // it bounds its jobs itself
	}
	answer := must.Do(http.DefaultClient.Do(s.request(b, http.MethodDelete, "/v2/serverless/"+s.endpoints[handler], nil)))(b)
	_ = answer.Body.Close()
	s.deploy(b, handler, images[handler], workers, workers)
}

func (s *subject) request(tb testing.TB, method, path string, body []byte) *http.Request {
	return must.Do(s.newRequest(method, path, body))(tb)
}

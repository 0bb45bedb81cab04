//go:build linux

package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httplimit"
)

// checkPeakMemory expects a peak of at most 1.2 times the limit that SECURITY.md promises. bodies is the part of
// --body-memory that the test uses, state is --ephemeral-memory. All are in MiB.
func (p *process) checkPeakMemory(bodies, state int) (peak, promised int) {
	p.t.Helper()
	text := must.ReadFile(p.t, fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes := must.Do(strconv.Atoi(strings.Fields(after)[0]))(p.t)
	peak, promised = kilobytes>>10, bodies+state+256
	must.Hold(p.t, peak <= promised*12/10, "the process used", peak, "MiB, the promised limit is", promised)
	p.t.Logf("the process took %d of %d MiB", peak, promised)
	return peak, promised
}

// A hundred concurrent bodies stay within --body-memory. Excess requests get 503 in each API's own form.
func TestBodiesShareMemory(t *testing.T) {
	acctest.LeaveToCI(t, "httplimit.TestMemory covers the budget")
	t.Parallel()
	p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--ephemeral", "--limits=off", "--body-memory=420")
	path := "/v2/" + p.createEndpointOfImage("builtin/echo") + "/runsync"
	body := append(append([]byte(`{"input":"`), bytes.Repeat([]byte("x"), 20<<20-20)...), `"}`...) // the input isn't an object, which is noticed after the body was read
	const piece = 96 << 10
	sent := len(body) - 100*piece
	var conns []net.Conn
	var sending sync.WaitGroup
	for range 5 { // these reserve the memory
		conn := p.startRequest("POST", path, len(body), nil)
		conns = append(conns, conn)
		sending.Go(func() { conn.Write(body[:sent]) })
	}
	sending.Wait()
	for i := range 95 {
		for _, conn := range conns[:5] { // a silent client would be disconnected
			conn.Write(body[sent:][:piece])
		}
		sent += piece
		target, want := path, `{"error":"the deployment has no memory`
		switch i % 20 {
		case 1:
			target, want = "/v2/templates", `"detail":"the deployment has no memory`
		case 2:
			target, want = "/v1/templates", `{"message":"the deployment has no memory`
		}
		length := len(body)
		if i%20 < 3 && i%20 > 0 {
			length = 1 << 20
		}
		conn := p.startRequest("POST", target, length, nil)
		go conn.Write(body[:length-1])
		conns = append(conns, conn)
		conn.SetReadDeadline(time.Now().Add(waitTimeout))
		resp := must.Do(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(text), want) {
			if i%20 == 1 || i%20 == 2 { // the body fits, but not its decoded form
				t.Errorf("%s: %d %s", target, resp.StatusCode, text)
			} else {
				t.Errorf("body %d: %d %s", i, resp.StatusCode, text)
			}
		}
	}
	for _, conn := range conns[:5] {
		conn.Write(body[sent:])
		resp := must.Do(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		must.Equal(t, resp.StatusCode, http.StatusBadRequest, "the status of a body within the budget", resp)
	}
	// Without the limit, the bodies would use 1,810 MiB, and decoded a multiple.
	p.checkPeakMemory(315, 0)
	job := must.Do(p.client("k").Jobs.RunToEnd(t.Context(), strings.Split(path, "/")[2], api.Submission{Input: json.RawMessage(`{"a":1}`)}, time.Minute, func(api.Job) {}))(t)
	must.Hold(t, job.Status == "COMPLETED", "afterwards", job)
}

// A hundred clients that don't read an output of 20 MB stay within --body-memory, and are disconnected.
func TestOutputsShareMemory(t *testing.T) {
	if testing.Short() && os.Getenv("CI") == "" {
		t.Skip("the process disconnects slow clients after 20 s of real time")
	}
	t.Parallel()
	p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--ephemeral", "--limits=off", "--body-memory=360")
	c, id := p.client("k"), p.createEndpointOfImage("builtin/conformance")
	job := must.Do(c.Jobs.Run(t.Context(), id, api.Submission{Input: json.RawMessage(`{"op":"bytes","n":20000000}`)}))(t)
	size := 0
	waitUntil(t, "the output", func() bool {
		job := must.Do(c.Jobs.Status(t.Context(), id, job.ID))(t)
		size = len(job.Output)
		return size > 0
	})
	for range 100 {
		p.startRequest("GET", "/v2/"+id+"/status/"+job.ID, 0, nil).(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	waitUntil(t, "the output for a client that reads", func() bool {
		resp, text, err := send(t.Context(), http.MethodGet, p.url+"/v2/"+id+"/status/"+job.ID, "k", "")
		must.Require(t, resp != nil && (resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == 200 && len(text) >= size && err == nil), "the client that reads got", resp, len(text), "bytes", err)
		return resp.StatusCode == 200
	})
	// Without the limit, the outputs would use 2,000 MB, in several copies.
	p.checkPeakMemory(270, size>>20)
}

// A half-full state in memory rejects jobs. A full one rejects results, and their jobs are FAILED.
func TestEphemeralMemory(t *testing.T) {
	acctest.LeaveToCI(t, "package engine tests the limit")
	t.Parallel()
	p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--ephemeral", "--limits=off", "--ephemeral-memory=64", "--body-memory=256")
	id := p.createEndpointOfImage("builtin/conformance")
	post := func(input string) (status int, state, text string) {
		resp, all, err := send(t.Context(), http.MethodPost, p.url+"/v2/"+id+"/runsync?wait=60000", "k", `{"input":`+input+`}`)
		if err != nil {
			t.Error(err)
			return 0, "", ""
		}
		var job struct{ Status, Error string }
		json.Unmarshal([]byte(all), &job)
		return resp.StatusCode, job.Status, job.Error
	}
	// Eight jobs are accepted before the first one runs, but not all results fit.
	seen, input := map[string]int{}, `{"op":"bytes","n":12000000,"more":"`+strings.Repeat("x", 300_000)+`"}`
	p.call(http.MethodPatch, "/v2/serverless/"+id, `{"workers":{"max":0}}`, new(any))
	var queued [8]struct{ ID, Status string }
	for i := range queued {
		p.call(http.MethodPost, "/v2/"+id+"/run", `{"input":`+input+`}`, &queued[i])
	}
	p.call(http.MethodPatch, "/v2/serverless/"+id, `{"workers":{"max":4}}`, new(any))
	for i := range queued {
		job := &queued[i]
		for job.Status != "COMPLETED" && job.Status != "FAILED" {
			time.Sleep(20 * time.Millisecond)
			p.call(http.MethodGet, "/v2/"+id+"/status/"+job.ID, "", job)
		}
		seen["200 "+job.Status]++
	}
	var mu sync.Mutex
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 30 {
				status, state, text := post(input)
				mu.Lock()
				seen[fmt.Sprint(status, " ", state)]++
				mu.Unlock()
				switch {
				case status == 200 && state == "COMPLETED":
				case status == 200 && state == "FAILED" && strings.Contains(text, "could not be stored: the memory for this deployment's state is full (--ephemeral-memory 64 MiB"):
				case status == http.StatusInsufficientStorage && strings.Contains(text, "the memory for this deployment's state is full (--ephemeral-memory 64 MiB"):
				default:
					t.Errorf("%d %s %.300s", status, state, text)
				}
				must.Hold(t, !strings.Contains(text, "disk that"), "a disk is said to be full", text)
			}
		})
	}
	clients.Wait()
	t.Log(seen)
	must.Hold(t, seen["200 COMPLETED"] != 0 && seen["200 FAILED"] != 0 && seen["507 "] != 0, "not every kind was seen", seen)
	// Without the limit, the 240 results would use 2,750 MiB.
	p.checkPeakMemory(192, 64)
}

// sendWaves sends waves of concurrent requests of 19 MiB, one per client, and counts the responses by status.
func (p *process) sendWaves(waves, clients int) map[int]int {
	path := "/v2/" + p.createEndpointOfImage("builtin/echo") + "/runsync"
	body := append(append([]byte(`{"input":{"a":"`), bytes.Repeat([]byte("x"), 19<<20)...), `"}}`...)
	var mu sync.Mutex
	seen := map[int]int{}
	for range waves {
		var wave sync.WaitGroup
		for range clients {
			wave.Go(func() {
				req, _ := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+path, bytes.NewReader(body))
				req.Header.Set("Authorization", "Bearer k")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					p.t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				mu.Lock()
				seen[resp.StatusCode]++
				mu.Unlock()
			})
		}
		wave.Wait()
	}
	return seen
}

// The garbage of a wave of large bodies is collected before the next wave exceeds the limit.
func TestWavesOfLargeBodies(t *testing.T) {
	acctest.LeaveToCI(t, "package httplimit tests the budget")
	t.Parallel()
	p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--ephemeral", "--limits=off", "--body-memory=512", "--ephemeral-memory=256")
	seen := p.sendWaves(4, 30)
	t.Log(seen) // 507 is possible, too
	must.Hold(t, seen[http.StatusOK] != 0 && seen[http.StatusServiceUnavailable] != 0 && len(seen) <= 3, "not every kind was seen:", seen)
	p.checkPeakMemory(384, 256)
}

// BenchmarkPeakMemory measures the peak memory under waves of a hundred requests of 19 MiB with the
// default limits, compared with the promised one.
//
//	go test -run '^$' -bench PeakMemory -benchtime 1x ./cmd/jobrunner
func BenchmarkPeakMemory(b *testing.B) {
	bodies := int(httplimit.DefaultMemory() >> 20)
	for name, c := range map[string]struct {
		flag  string
		state int
	}{"ephemeral": {"--ephemeral", 1024}, "SQLite": {"--data=" + b.TempDir(), 0}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p := serve(b, environment(b.TempDir(), "GPUCLOUD_API_KEY=k"), c.flag, "--limits=off")
				b.Log(p.sendWaves(3, 100))
				peak, promised := p.checkPeakMemory(bodies, c.state)
				b.ReportMetric(float64(peak), "MiB")
				b.ReportMetric(float64(promised), "promised-MiB")
				p.interrupt()
			}
		})
	}
}

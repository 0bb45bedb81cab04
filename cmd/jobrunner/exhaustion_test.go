//go:build unix

package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/smalldisk"
)

// Without a key, a slow body can't hold a connection: each API rejects it at once in its own form.
func TestSlowBodiesWithoutKey(t *testing.T) {
	t.Parallel()
	p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--ephemeral", "--clock=admin")
	id := p.createEndpointOfImage("builtin/echo")
	for path, want := range map[string]string{
		"/v1/templates":                      `{"message":`,
		"/v2/templates":                      `"detail":`,
		"/v2/" + id + "/run":                 `{"error":`,
		"/v2/" + id + "/runsync":             `{"error":`,
		"/live/v2/" + id + "/run":            `{"error":`,
		"/v2/" + id + "/openai/v1/x":         `{"error":`,
		"/v2/" + id + "/job-done/worker/job": `{"error":`,
		"/ui/job":                            `{"error":`,
		"/clock":                             `{"error":`,
		"/nothing":                           `"detail":`,
	} {
		for _, length := range []int{1000, 1 << 20} {
			t.Run(fmt.Sprint(path, " ", length), func(t *testing.T) {
				t.Parallel()
				conn := must.Do(net.Dial("tcp", strings.TrimPrefix(p.url, "http://")))(t)
				defer conn.Close()
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\nx", path, length)
				conn.SetReadDeadline(time.Now().Add(waitTimeout)) // the rest of the body is never sent
				reader := bufio.NewReader(conn)
				resp := must.Do(http.ReadResponse(reader, nil))(t)
				body, err := io.ReadAll(resp.Body)
				// 408 would mean that the server waited for the body.
				must.Hold(t, resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != http.StatusRequestTimeout &&
					strings.Contains(string(body), want) && resp.Close && err == nil, "answered", resp.StatusCode, string(body), "closing:", resp.Close, err)
				_, err = reader.ReadByte()
				must.ErrorIs(t, err, io.EOF, "the connection stays open")
			})
		}
	}
}

// A flood of connections leaves descriptors for database and workers. Excess requests get 503.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	limitedProcess := &process{t: t, cmd: exec.Command("sh", "-c", `ulimit -n 64 && exec "$0" serve --listen=127.0.0.1:0 --ephemeral --limits=off`, binary)}
	testFlood(t, limitedProcess.start(environment(t.TempDir(), "GPUCLOUD_API_KEY=k")))
	out, err := exec.Command("sh", "-c", `ulimit -n 20 && exec "$0" serve --listen=127.0.0.1:0 --ephemeral`, binary).CombinedOutput()
	must.Hold(t, err != nil && strings.Contains(string(out), "only 20 open files"), "with 20 descriptors serve ended with", err, string(out))
	out, _ = exec.Command("sh", "-c", `ulimit -n 50 && exec "$0" doctor --json`, binary).CombinedOutput() // other checks may fail, too
	must.Contain(t, string(out), `"check":"open files","status":"fail"`)
}

// A deployment recovers also if its descriptors run out before the limit of connections is reached.
func TestNoDescriptors(t *testing.T) {
	acctest.LeaveToCI(t, "TestFewDescriptors tests the same flood")
	t.Parallel()
	p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--ephemeral", "--limits=off")
	if out, err := exec.Command("prlimit", "--nofile=40", "--pid", strconv.Itoa(p.cmd.Process.Pid)).CombinedOutput(); err != nil {
		t.Skipf("this machine can't lower the limit of another process: %s %s", err, out)
	}
	testFlood(t, p)
	must.Hold(t, strings.Contains(p.stderr.String(), "too many open files"), "the log lacks the cause", &p.stderr)
}

// testFlood opens more connections than a process has descriptors.
func testFlood(t *testing.T, p *process) {
	t.Helper()
	c := p.client("k")
	id := p.createEndpointOfImage("unknown/image")
	address := strings.TrimPrefix(p.url, "http://")
	flood := func(text string, n int) (conns []net.Conn) {
		for range n {
			conn := must.Do(net.Dial("tcp", address))(t)
			io.WriteString(conn, text)
			conns = append(conns, conn)
		}
		return conns
	}
	// New connections replace connections that have sent no complete request.
	silentConns := append(flood("", 200), flood("GET /v2/templates HTTP/1.1\r\n", 200)...)
	must.Equal(t, must.Err(c.NetworkVolumes.List(t.Context())), nil, "a request among silent connections")
	// Connections whose requests wait for a response aren't replaced: further requests get 503.
	body := `{"input":{}}`
	waitingConns := flood(fmt.Sprintf("POST /v2/%s/runsync?wait=300000 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body), 200)
	rejected := make(chan struct{}, len(waitingConns))
	for _, conn := range waitingConns {
		go func() {
			if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
				rejected <- struct{}{}
			}
		}()
	}
	select {
	case <-rejected:
	case <-time.After(waitTimeout):
		t.Error("no request got 503")
	}
	for _, conn := range append(silentConns, waitingConns...) {
		conn.Close()
	}
	p.waitUntil("the end of the flood", func() bool { return must.Err(c.NetworkVolumes.List(t.Context())) == nil })
	_, metrics := p.get("/metrics")
	must.Contain(t, metrics, `_count{code="503",route="none"}`)
	p.interrupt()
}

// With a full disk, new jobs are rejected and none is lost. With free space, jobs are accepted again.
func TestFullDisk(t *testing.T) {
	acctest.LeaveToCI(t, "sqldb.TestFullDisk and jobrunner.TestResultsOnAFullDisk test its parts")
	t.Parallel()
	env := environment(t.TempDir(), "GPUCLOUD_API_KEY=k")
	disk := smalldisk.Mount(t, "12m")
	data := "--data=" + disk
	p := serve(t, env, data, "--limits=off")
	c := p.client("k")
	endpoint := p.createEndpointOfImage("unknown/image")
	submit := func(c *api.Client) (string, error) {
		job, err := c.Jobs.Run(t.Context(), endpoint, api.Submission{Input: fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", 200_000))})
		return job.ID, err
	}
	var jobs []string
	fill := func(c *api.Client) error { // submits jobs until one is rejected
		for range 1000 {
			id, err := submit(c)
			if err != nil {
				return err
			}
			jobs = append(jobs, id)
		}
		t.Fatal("a full disk accepts any number of jobs")
		return nil
	}
	err := fill(c)
	must.Require(t, strings.Contains(err.Error(), "the disk that holds the database is full") && strings.Contains(err.Error(), fmt.Sprint(http.StatusInsufficientStorage)), "after", len(jobs), "jobs, a submission got the error", err)
	expectQueued := func(c *api.Client) {
		t.Helper()
		for _, id := range jobs {
			job, err := c.Jobs.Status(t.Context(), endpoint, id)
			must.Require(t, err == nil && job.Status == "IN_QUEUE", "the job", id, "of", len(jobs), "is", job.Status, err)
		}
	}
	expectQueued(c)
	p.kill()
	// The jobrunner starts on the full disk, and operations that free space still succeed.
	p = serve(t, env, data, "--limits=off")
	c = p.client("k")
	expectQueued(c)
	// The start may move the write-ahead log into the database, which frees space for a few jobs.
	fill(c)
	cancelledID := jobs[0]
	must.Equal(t, must.Err(c.Jobs.Cancel(t.Context(), endpoint, cancelledID)), nil, "cancelling on a full disk")
	jobs = jobs[1:]
	expectQueued(c)
	p.kill()
	if out, err := exec.Command("mount", "-o", "remount,size=24m", disk).CombinedOutput(); err != nil {
		t.Fatalf("freeing space: %s %s", err, out)
	}
	p = serve(t, env, data, "--limits=off")
	c = p.client("k")
	expectQueued(c)
	must.Equal(t, must.Err(submit(c)), nil, "a submission with free space again")
	fill(c)
	var purged struct{ Removed int }
	p.call(http.MethodPost, "/v2/"+endpoint+"/purge-queue", "", &purged)
	must.Hold(t, purged.Removed >= len(jobs), "purging a queue on a full disk removed", purged.Removed, "jobs, want at least", len(jobs))
	must.Equal(t, must.Err(submit(c)), nil, "a submission after the purge")
	fill(c)
	must.Equal(t, c.Endpoints.Delete(t.Context(), endpoint), nil, "deleting an endpoint on a full disk")
	p.interrupt()
}

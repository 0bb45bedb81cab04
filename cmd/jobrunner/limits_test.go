//go:build unix

package main_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A flag per API enables its limits. By default the job API's are on, and the management API's off.
func TestLimitFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args             []string
		jobs, management bool // whether limits apply
	}{
		{nil, true, false}, {[]string{"--limits=off"}, false, false}, {[]string{"--management-limits=on"}, true, true},
	} {
		p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), append(c.args, "--ephemeral")...)
		id := createQueueEndpoint(t, p.client("k"), "e", "builtin/echo", 0)
		must.Equal(t, p.hitsRateLimit(52, http.MethodPost, "/v2/"+id+"/run", `{"input":{}}`), c.jobs, "with the flags", c.args, "the job API limits requests")
		must.Equal(t, p.hitsRateLimit(61, http.MethodGet, "/v2/templates", ""), c.management, "with the flags", c.args, "the management API limits requests")
	}
}

// hitsRateLimit reports whether one of n requests gets 429.
func (p *process) hitsRateLimit(n int, method, path, body string) (limited bool) {
	p.t.Helper()
	for range n {
		resp, _ := p.request(method, path, body)
		limited = limited || resp.StatusCode == http.StatusTooManyRequests
	}
	return limited
}

// postCommands POST a file with the key k and print the status. They lack the last arguments: URL FILE, for curl @FILE URL.
var postCommands = map[string][]string{
	"curl":     {"curl", "-s", "-o", os.DevNull, "-w", "%{http_code}", "-H", "Authorization: Bearer k", "-H", "Expect:", "--data-binary"},
	"urllib":   {"python3", "-c", "import sys, urllib.request, urllib.error\ntry: urllib.request.urlopen(urllib.request.Request(sys.argv[1], data=open(sys.argv[2], 'rb').read(), headers={'Authorization': 'Bearer k'}))\nexcept urllib.error.HTTPError as e: print(e.code)"},
	"requests": {"python3", "-c", "import sys, requests\nprint(requests.post(sys.argv[1], data=open(sys.argv[2], 'rb'), headers={'Authorization': 'Bearer k'}).status_code)"},
	"node":     {"node", "-e", "fetch(process.argv[1], {method: 'POST', body: fs.readFileSync(process.argv[2]), headers: {Authorization: 'Bearer k'}}).then(r => console.log(r.status))"},
}

// startRequest sends the header and the beginning of the body of a request on a new connection.
func (p *process) startRequest(method, path string, length int, body []byte) net.Conn {
	p.t.Helper()
	conn := must.Do(net.Dial("tcp", strings.TrimPrefix(p.url, "http://")))(p.t)
	p.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\nContent-Length: %d\r\n\r\n", method, path, length)
	conn.Write(body) // fails if the request was rejected before
	return conn
}

// If a body is rejected while it is sent, clients see the status instead of a reset connection.
func TestRefusalsOfLargeBodiesReachClients(t *testing.T) {
	acctest.LeaveToCI(t, "httplimit.TestResponseReachesWritingClient covers it")
	t.Parallel()
	p := serve(t, environment(t.TempDir(), "GPUCLOUD_API_KEY=k"), "--ephemeral", "--limits=off", "--body-memory=128")
	id := p.createEndpointOfImage("builtin/echo")
	holder := p.startRequest("POST", "/v2/"+id+"/runsync", 20<<20, make([]byte, 1)) // reserves the memory
	go func() {                                                                     // sends slowly, because a silent client would be disconnected
		for piece := make([]byte, 32<<10); ; time.Sleep(time.Second) {
			if _, err := holder.Write(piece); err != nil {
				return
			}
		}
	}()
	defer holder.Close()
	file := filepath.Join(t.TempDir(), "body")
	for _, c := range []struct {
		path   string
		size   int64
		status string
	}{{"/v2/" + id + "/run", 30 << 20, "413"}, {"/v2/" + id + "/runsync", 20 << 20, "503"}, {"/v1/templates", 20 << 20, "413"}, {"/v2/templates", 20 << 20, "413"}, {"/v2/absent000000/run", 10 << 20, "404"}} {
		os.WriteFile(file, nil, 0o600)
		must.Succeed(t, os.Truncate(file, c.size))
		for name, command := range postCommands {
			if testing.Short() && c.status != "503" && name != "curl" {
				continue // starting Python and Node takes most of the time
			}
			if _, err := exec.LookPath(command[0]); err != nil || name == "requests" && exec.Command("python3", "-c", "import requests").Run() != nil {
				t.Logf("%s is not installed", name)
				continue
			}
			args := append(slices.Clone(command[1:]), p.url+c.path, file)
			if name == "curl" {
				args = append(slices.Clone(command[1:]), "@"+file, p.url+c.path)
			}
			out, err := exec.CommandContext(t.Context(), command[0], args...).CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != c.status {
				t.Errorf("%s: POST %s with %d MiB: expected %s, got %.300s, %v", name, c.path, c.size>>20, c.status, out, err)
			}
		}
	}
}

//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const conformsImage = "localhost/team/conforms:1"

// conformsSample are clauses about workers, which are judged unless KUBERNETES_CONFORMANCE names others.
const conformsSample = "JOB-14,JOB-17,JOB-22,JOB-29,OPS-08,WEB-01"

// A deployment whose workers are Pods conforms, except for clauses that take too long in real time. The image
// implements builtin/conformance over the worker protocol.
func testKubernetesConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("not in a short run")
	}
	k := containers.StartKubernetes(t)
	attempts := k.NewGateway(t)
	var mu sync.Mutex
	counts := map[string]int{} // of requests with the same id
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _ := io.ReadAll(r.Body) // a truncated id is another id
		mu.Lock()
		defer mu.Unlock()
		counts[string(id)]++
		fmt.Fprint(w, counts[string(id)])
	}))
	t.Cleanup(server.Close)
	attempts.Forward(strings.TrimPrefix(server.URL, "http://"))
	buildImage(t, k, conformsImage, "conforms", map[string]string{"/worker/attempts": attempts.URL})
	host, _, err := net.SplitHostPort(strings.TrimPrefix(attempts.URL, "http://"))
	must.Succeed(t, err)
	c := prepareInCluster(t)
	c.args = []string{"--limits=on", "--webhook-allow=" + host}
	c.startForwarded()
	s := &conformance{inCluster: c, binary: filepath.Join(t.TempDir(), "conformance"), host: host}
	for variable, args := range map[string][]string{
		"GPUCLOUD_API_KEY": {"suite"}, "GPUCLOUD_USER_API_KEY": {"user"}, "GPUCLOUD_OTHER_API_KEY": {"other", "--endpoint=nothingofour"},
	} {
		key := mustPrint(t, environment(c.home), append([]string{"keys", "add", "--data=" + filepath.Join(c.home, "data")}, args...)...)
		s.keys = append(s.keys, variable+"="+strings.TrimSpace(key))
	}
	must.Succeed(t, gobuild.Programs(t.Context(), filepath.Dir(s.binary), "../conformance"))
	clauses := conformsSample
	if others := os.Getenv("KUBERNETES_CONFORMANCE"); others != "" {
		clauses = others
	}
	for round, parallel := 1, 4; ; round, parallel = round+1, 1 {
		r := s.runCases(clauses, parallel)
		t.Log(r.Counts)
		must.Hold(t, r.Counts[report.Pass]+r.Counts[report.Observed] != 0, "no clause was judged:", r.Counts)
		var inconclusive []string
		for _, result := range r.Results {
			if result.Verdict == report.Inconclusive && round < 4 { // the Pod started too slowly
				inconclusive = append(inconclusive, result.Clause)
				continue
			}
			s.expectVerdict(result)
		}
		if len(inconclusive) == 0 {
			break
		}
		t.Log("judged again, one at a time:", inconclusive)
		clauses = strings.Join(inconclusive, ",")
	}
	c.interrupt()
}

// conformance runs the suite on a deployment, which calls the suite's webhooks at host.
type conformance struct {
	*inCluster
	binary, host string
	keys         []string
}

func (s *conformance) runCases(clauses string, parallel int) (r report.Report) {
	s.t.Helper()
	listener := must.Do(net.Listen("tcp", s.host+":0"))(s.t)
	listen := listener.Addr().String()
	listener.Close()
	cmd := exec.CommandContext(s.t.Context(), s.binary, "run", "--base-url="+s.url, "--image="+conformsImage, "--select="+clauses, fmt.Sprint("--parallel=", parallel),
		"--hook-listen="+listen, "--hook-url=http://"+listen, "--allow=create,queue,load,spend", "--max-requests=0", "--max-seconds=1e7", "--max-wait=17s", "--json=-")
	cmd.Dir = s.t.TempDir() // for the ledger
	cmd.Env = environment(cmd.Dir, s.keys...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.Succeed(s.t, json.Unmarshal(out, &r), err, &stderr)
	must.Equal(s.t, r.Leaked, nil, "leaked objects")
	return r
}

func (s *conformance) expectVerdict(result report.Result) {
	s.t.Helper()
	switch {
	case result.Verdict == report.Pass, result.Verdict == report.Observed, result.Verdict == report.Skip:
	case result.Clause == "DAT-02" && result.Verdict == report.Warn: // the worker's numbers are doubles
	default:
		s.t.Errorf("%s", report.Text(result))
	}
}

// Package deploy tests the files of deploy/.
package deploy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/serving"
)

const root = "../../../.."

var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gpucloud-deploy-")
	if err != nil {
		panic(err)
	}
	bin = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var build = sync.OnceValue(func() error { return gobuild.Programs(context.Background(), bin, root+"/cmd/jobrunner") })

// program builds the jobrunner and returns its path.
func program(t *testing.T) string {
	t.Helper()
	must.Succeed(t, build())
	return filepath.Join(bin, "jobrunner")
}

// jobrunner is a jobrunner that runs with the settings of a file of deploy/.
type jobrunner struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	key    string
	stderr bytes.Buffer
}

// start runs `jobrunner serve` with the flags and variables of a file, on a free port.
func start(t *testing.T, env, args []string) *jobrunner {
	t.Helper()
	listens := false
	for i, arg := range args {
		if port, ok := strings.CutPrefix(arg, "--listen="); ok {
			listens = strings.HasSuffix(port, ":8420")
			args[i] = "--listen=127.0.0.1:0"
		}
	}
	must.Require(t, listens, "expected --listen with the port 8420 among", args)
	j := &jobrunner{t: t, cmd: exec.Command(program(t), args...)}
	j.cmd.Env, j.cmd.Stderr = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}, env...), &j.stderr
	greeting := serving.Start(t, j.cmd)
	j.url, j.key = serving.Exported(greeting, "GPUCLOUD_BASE_URL"), serving.Exported(greeting, "GPUCLOUD_API_KEY")
	return j
}

func (j *jobrunner) do(method, path, body string) (status int, text string) {
	j.t.Helper()
	req := must.Do(http.NewRequestWithContext(j.t.Context(), method, j.url+path, strings.NewReader(body)))(j.t)
	req.Header.Set("Authorization", "Bearer "+j.key)
	req.Header.Set("Content-Type", "application/json")
	resp := must.Do(http.DefaultClient.Do(req))(j.t)
	defer resp.Body.Close()
	answer := must.Do(io.ReadAll(resp.Body))(j.t)
	return resp.StatusCode, string(answer)
}

// checkJob creates an endpoint and expects that a job completes.
func (j *jobrunner) checkJob() {
	j.t.Helper()
	status, text := j.do(http.MethodPost, "/v2/serverless", `{"name": "e", "image": "builtin/echo", "workers": {"max": 1}, "cpu": [{"id": "cpu3c", "vcpuCount": 2}]}`)
	id := regexp.MustCompile(`"id":\s*"([^"]+)"`).FindStringSubmatch(text)
	must.Require(j.t, status == http.StatusCreated && id != nil, "creating the endpoint was answered with", status, text)
	status, text = j.do(http.MethodPost, "/v2/"+id[1]+"/runsync", `{"input": {"a": 1}}`)
	must.Require(j.t, status == http.StatusOK && strings.Contains(text, `"COMPLETED"`), "expected a completed job and got", status, text)
}

// stop sends SIGTERM and expects exit status 0.
func (j *jobrunner) stop() {
	j.t.Helper()
	must.Succeed(j.t, j.cmd.Process.Signal(syscall.SIGTERM))
	must.Equal(j.t, j.cmd.Wait(), nil, "end of the jobrunner, which wrote", &j.stderr)
}

// writeFile writes a file into a new folder and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	return string(must.ReadFile(t, filepath.Join(root, path)))
}

var (
	metricName = regexp.MustCompile(`\b((?:gpucloud|process|go)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	labelUse   = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`by \(([^)]*)\)`)
)

// A jobrunner exports each metric that an alert or the guide names, with the labels that the alert uses.
func TestAlertsNameMetrics(t *testing.T) {
	j := start(t, nil, []string{"serve", "--listen=127.0.0.1:8420", "--ephemeral", "--simulate-gpus=h200x8"})
	j.checkJob()
	status, text := j.do(http.MethodGet, "/metrics", "")
	must.Require(t, status == http.StatusOK, "GET /metrics answered", status, text)
	j.stop()
	exported := map[string][]string{} // labels by metric
	for line := range strings.Lines(text) {
		if found := metricName.FindStringSubmatch(line); found != nil && !strings.HasPrefix(line, "#") {
			for _, use := range labelUse.FindAllStringSubmatch(found[2], -1) {
				exported[found[1]] = append(exported[found[1]], use[1])
			}
			exported[found[1]] = append(exported[found[1]], "instance", "job") // Prometheus's own
		}
	}
	must.Require(t, len(exported) >= 20, "expected at least 20 metrics, got", exported)
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	must.Succeed(t, yaml.UnmarshalWithOptions([]byte(readFile(t, "deploy/prometheus/alerts.yaml")), &file, yaml.Strict()))
	names := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			must.Hold(t, rule.Labels["severity"] != "" && rule.Annotations["summary"] != "", "expected a severity and a summary in", rule)
			for _, metric := range metricName.FindAllStringSubmatch(rule.Expr, -1) {
				names++
				labels, ok := exported[metric[1]]
				must.Hold(t, ok, rule.Alert, "uses", metric[1], "which no jobrunner exports")
				usedLabels := metric[2]
				for _, by := range grouping.FindAllStringSubmatch(rule.Expr, -1) {
					usedLabels += ", " + strings.ReplaceAll(by[1], ",", "=,") + "="
				}
				for _, use := range labelUse.FindAllStringSubmatch(usedLabels, -1) {
					must.Hold(t, !ok || slices.Contains(labels, use[1]), rule.Alert, "uses the label", use[1], "which", metric[1], "lacks")
				}
			}
		}
	}
	must.Hold(t, names >= 5, "the alerts name", names, "metrics, expected at least 5")
	for _, metric := range metricName.FindAllStringSubmatch(readFile(t, "docs/guides/operate.md"), -1) {
		must.Hold(t, !strings.HasPrefix(metric[1], "gpucloud_") || exported[metric[1]] != nil || exported[metric[1]+"_count"] != nil, "docs/guides/operate.md names", metric[1], "which no jobrunner exports")
	}
}

// Each alert fires when it should, and only then.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		must.Require(t, os.Getenv("CI") == "", "CI must have promtool:", err)
		t.Skip("promtool is not installed (Debian: apt-get install --no-install-recommends prometheus)")
	}
	out, err := exec.Command(promtool, "test", "rules", "testdata/alerts.yaml").CombinedOutput()
	must.Require(t, err == nil, string(out), err)
}

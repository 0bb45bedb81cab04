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
	"strings"
	"sync"
	"syscall"
	"testing"

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

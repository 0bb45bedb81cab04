package main_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/serving"
)

// waitTimeout bounds the wait for an event that must occur, so that a failing test ends.
const waitTimeout = 3 * time.Minute

var binary string

// TestMain builds the program once. Tests run it like users, and mostly wait for it, so more of them
// run concurrently than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "10"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "jobrunner-test-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "jobrunner")
	if err := gobuild.Programs(context.Background(), dir, "."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	acctest.RemoveBuiltProvider()
	os.RemoveAll(dir)
	os.Exit(code)
}

// process is a running jobrunner serve.
type process struct {
	t            testing.TB
	cmd          *exec.Cmd
	url          string
	startupLines []string
	stderr       bytes.Buffer // readable after the process has ended
}

// environment returns the variables of a user who has set only HOME. TMPDIR is the program's folder,
// which TestMain deletes with all files that killed jobrunners leave.
func environment(home string, extra ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + filepath.Dir(binary)}, extra...)
}

// serve starts a jobrunner and waits until it listens.
func serve(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(binary, append([]string{"serve", "--listen=127.0.0.1:0"}, args...)...)}
	return p.start(env)
}

func (p *process) start(env []string) *process {
	p.t.Helper()
	p.cmd.Env, p.cmd.Stderr = env, &p.stderr
	p.startupLines = serving.Start(p.t, p.cmd)
	p.url = p.startupValue("GPUCLOUD_BASE_URL")
	return p
}

// startupValue returns a variable's value in the lines that the jobrunner prints at its start.
func (p *process) startupValue(name string) string { return serving.Exported(p.startupLines, name) }

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// interrupt sends an interrupt and expects exit status 0.
func (p *process) interrupt() {
	p.t.Helper()
	p.cmd.Process.Signal(os.Interrupt)
	must.Equal(p.t, p.cmd.Wait(), nil, "the jobrunner ended with", &p.stderr)
}

func (p *process) client(key string) *api.Client {
	p.t.Helper()
	return must.Do(api.New(api.Settings{BaseURL: p.url, APIKey: key}))(p.t)
}

// createEndpointOfImage creates an endpoint of an image with at most four workers.
func (p *process) createEndpointOfImage(image string) (id string) {
	p.t.Helper()
	return createQueueEndpoint(p.t, p.client("k"), "e", image, 4)
}

// createQueueEndpoint creates a queue-based endpoint, which starts a worker per waiting job.
func createQueueEndpoint(t testing.TB, c *api.Client, name, image string, maxWorkers int64) (id string) {
	t.Helper()
	e := must.Do(c.Endpoints.Create(t.Context(), api.Endpoint{
		Name: name, Type: "QUEUE", Container: &api.Container{Image: new(image)},
		Workers: api.Workers{Max: maxWorkers}, Scaling: api.Scaling{Type: "REQUEST_COUNT", RequestCount: 1},
	}))(t)
	return e.ID
}

// waitUntil polls a condition on other processes.
func waitUntil(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); !done(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

func (p *process) waitUntil(what string, done func() bool) {
	p.t.Helper()
	waitUntil(p.t, what, done)
}

func (p *process) waitForAnswer(url, want string) {
	p.t.Helper()
	p.waitUntil("an answer of "+url, func() bool {
		resp, err := http.Get(url) //nolint:noctx // the server ends the response
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text) == want
	})
}

// send sends a request with a key and reads the response's body.
func send(ctx context.Context, method, url, key, body string) (resp *http.Response, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	if resp, err = http.DefaultClient.Do(req); err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return resp, string(content), err
}

// request sends a request with the key k.
func (p *process) request(method, path, body string) (resp *http.Response, text string) {
	p.t.Helper()
	resp, text, err := send(p.t.Context(), method, p.url+path, "k", body)
	must.Succeed(p.t, err)
	return resp, text
}

func (p *process) get(path string) (status int, body string) {
	p.t.Helper()
	resp, text := p.request(http.MethodGet, path, "")
	return resp.StatusCode, text
}

func writeFile(t testing.TB, file, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
}

func execute(t *testing.T, env []string, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		must.Require(t, ok && exit.ExitCode() >= 0, "the program", args, "did not run to its end:", err, &out, &errs)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// invalidFlag matches errors about the command line.
var invalidFlag = regexp.MustCompile(`(?m)^jobrunner: (invalid |reading --|.* exclude each other)`)

// closedPipe returns an output whose reader has ended.
func closedPipe(t *testing.T) *os.File {
	reader, writer, err := os.Pipe()
	must.Succeed(t, errors.Join(err, reader.Close()))
	t.Cleanup(func() { writer.Close() })
	return writer
}

// mustFail runs the program, which must fail, and returns its error. For invalid arguments the exit status must be 2.
func mustFail(t *testing.T, env []string, args ...string) string {
	t.Helper()
	stdout, stderr, status := execute(t, env, "", args...)
	must.Hold(t, status != 0, args, "did not fail; stdout", stdout, "stderr", stderr)
	if invalidFlag.MatchString(stderr) {
		must.Equal(t, status, 2, "the exit status of", args, stderr)
	}
	return stderr
}

// mustPrint runs the program, which must succeed, and returns its output.
func mustPrint(t *testing.T, env []string, args ...string) string {
	t.Helper()
	stdout, stderr, status := execute(t, env, "", args...)
	must.Require(t, status == 0, args, "failed with exit status", status, "stdout", stdout, "stderr", stderr)
	return stdout
}

// The first start creates a key that only its owner can read. The next one uses it and doesn't print it.
func TestKeyOfTheFirstStart(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	data := filepath.Join(home, ".local", "state", "gpucloud", "jobrunner")
	p := serve(t, environment(home))
	key := p.startupValue("GPUCLOUD_API_KEY")
	must.Require(t, len(key) >= 20, "the key is", key)
	must.Equal(t, must.Err(p.client(key).NetworkVolumes.List(t.Context())), nil, "a request with the printed key")
	for path, mode := range map[string]os.FileMode{data: 0o700, filepath.Join(data, "api-key"): 0o600, filepath.Join(data, "jobrunner.db"): 0o600} {
		info, err := os.Stat(path)
		must.Hold(t, err == nil && info.Mode().Perm() == mode, path, "has the mode", info.Mode(), "want", mode, err)
	}
	p.interrupt()

	p = serve(t, environment(home))
	must.Hold(t, !strings.Contains(strings.Join(p.startupLines, "\n"), key), "the second start prints the key")
	must.Contain(t, p.startupValue("GPUCLOUD_API_KEY"), filepath.Join(data, "api-key"))
	must.Equal(t, must.Err(p.client(key).NetworkVolumes.List(t.Context())), nil, "a request with the first key after the second start")
	p.interrupt()
	must.Hold(t, !strings.Contains(p.stderr.String(), key), "the key is in the log")

	must.Succeed(t, os.Remove(filepath.Join(data, "jobrunner.db"))) // as in a folder that was used with --engine
	p = serve(t, environment(home))
	p.interrupt()
	must.Contain(t, p.stderr.String(), "has no database: the deployment begins without jobs and objects")
}

// The key in --api-key-file is the deployment's, and isn't printed or stored.
func TestKeyFromAFile(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file, data := filepath.Join(home, "the key of $1"), filepath.Join(home, "data")
	writeFile(t, file, "mine\n")
	p := serve(t, environment(home, "GPUCLOUD_API_KEY_FILE="+file), "--data="+data)
	must.Do(p.client("mine").NetworkVolumes.List(t.Context()))(t)
	text := strings.Join(p.startupLines, "\n")
	must.Hold(t, !strings.Contains(text, "mine") && strings.Contains(text, "$(cat '"+file+"')"), "the greeting prints the key, or lacks the file", text)
	must.ErrorIs(t, must.Err(os.Stat(filepath.Join(data, "api-key"))), os.ErrNotExist, "the key is in the data folder")
	writeFile(t, file, "two words\n")
	writeFile(t, file+"-endless", "")
	must.Succeed(t, os.Truncate(file+"-endless", 65<<20))
	for reason, env := range map[string][]string{
		"expected one line with the key": environment(home),
		"is larger than 64 MiB":          environment(home, "GPUCLOUD_API_KEY_FILE="+file+"-endless"),
		"no such file":                   environment(home, "GPUCLOUD_API_KEY_FILE="+file+"-absent"),
		"GPUCLOUD_API_KEY_FILE) and":     environment(home, "GPUCLOUD_API_KEY=k"),
		"invalid GPUCLOUD_API_KEY":       environment(home, "GPUCLOUD_API_KEY=two words"),
	} {
		args := []string{"serve", "--ephemeral", "--listen=127.0.0.1:0"}
		if !slices.Contains([]string{"no such file", "is larger than 64 MiB", "invalid GPUCLOUD_API_KEY"}, reason) {
			args = append(args, "--api-key-file="+file)
		}
		must.Contain(t, mustFail(t, env, args...), reason)
	}
}

// serve rejects invalid arguments and states, with a reason that contains the text.
func TestRefusals(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := environment(home, "GPUCLOUD_API_KEY=k")
	data := filepath.Join(home, "data")
	running := serve(t, env, "--data="+data)
	address := strings.TrimPrefix(running.url, "http://")
	folderWithTwoKeys := folderWithEmptyKey(t)
	writeFile(t, filepath.Join(folderWithTwoKeys, "api-key"), "one\ntwo\n")
	for text, args := range map[string][]string{
		"--allow-remote":                             {"--listen=0.0.0.0:0"},
		"other machines can reach":                   {"--listen=:0"},
		"another jobrunner uses this data":           {"--listen=127.0.0.1:0", "--data=" + data},
		"stop the program that listens there":        {"--listen=" + address, "--ephemeral"},
		"unknown port (choose another address":       {"--listen=127.0.0.1:no-port", "--ephemeral"},
		"invalid --listen 8420: expected an address": {"--listen=8420"},
		"invalid --listen 127.0.0.1:99999: expected": {"--listen=127.0.0.1:99999"},
		"choose one":        {"--listen=127.0.0.1:0", "--ephemeral", "--data=" + data},
		"does not answer":   {"--listen=127.0.0.1:0", "--engine=postgres://u:planted-password@127.0.0.1:1/db"},
		"is not understood": {"--listen=127.0.0.1:0", "--engine=postgres://u:planted-password/@127.0.0.1:1/db"},
		"--ephemeral and --engine (or GPUCLOUD_ENG":  {"--listen=127.0.0.1:0", "--ephemeral", "--engine=postgres://u:planted-password@127.0.0.1:1/db"},
		"and --engine-file (or GPUCLOUD_ENGINE and":  {"--listen=127.0.0.1:0", "--engine=postgres://u:planted-password@127.0.0.1:1/db", "--engine-file=x"},
		"reading --engine-file":                      {"--listen=127.0.0.1:0", "--engine-file=" + filepath.Join(home, "none")},
		"invalid --engine-file":                      {"--listen=127.0.0.1:0", "--engine-file=" + filepath.Join(folderWithEmptyKey(t), "api-key")},
		"writing to the data folder":                 {"--listen=127.0.0.1:0", "--data=/proc"},
		"--gpus=off and --simulate-gpus exclude":     {"--listen=127.0.0.1:0", "--ephemeral", "--gpus=off", "--simulate-gpus=l4x2"},
		"invalid --engine-connections":               {"--listen=127.0.0.1:0", "--engine-connections=2"},
		"--ephemeral and --fsync=normal exclude":     {"--listen=127.0.0.1:0", "--ephemeral", "--fsync=normal"},
		"--fsync must be one of":                     {"--fsync=off"},
		"invalid --node-url":                         {"--listen=127.0.0.1:0", "--node-url=10.0.0.5:8420"},
		"--node-url (or GPUCLOUD_NODE_URL) needs --": {"--listen=127.0.0.1:0", "--node-url=http://10.0.0.5:8420"},
		"for tests on this machine":                  {"--listen=127.0.0.1:0", "--clock=admin", "--allow-remote"},
		"unknown flag --port":                        {"--port=1"},
		"--limits must be one of":                    {"--limits=maybe"},
		`invalid webhook host "*.com:99999"`:         {"--webhook-allow=*.com:99999"},
		"invalid --body-memory":                      {"--listen=127.0.0.1:0", "--ephemeral", "--body-memory=9999999999"},
		"invalid --node-url: expected a URL":         {"--listen=127.0.0.1:0", "--node-url=http://10.0.0.5:99999"},
		"expected a URL with a host":                 {"--listen=127.0.0.1:0", "--node-url=http://:8420"},
		"expected a URL with a host and without a":   {"--listen=127.0.0.1:0", "--node-url=http://10.0.0.5:8420#a"},
		"--webhook-allow: invalid webhook host":      {"--webhook-allow=http://example.com"},
		"--management-limits must be one":            {"--management-limits=maybe"},
		"invalid --keys /dev/null: expected a folde": {"--ephemeral", "--keys=/dev/null"},
		"invalid --data /dev/null/x: expected a fol": {"--data=/dev/null/x"},
		"remove the file to get a new key":           {"--listen=127.0.0.1:0", "--data=" + folderWithEmptyKey(t)},
		"characters; remove the file to get":         {"--listen=127.0.0.1:0", "--data=" + folderWithTwoKeys},
	} {
		env := env
		if strings.Contains(text, "remove the file to get") {
			env = environment(home)
		}
		output := mustFail(t, env, append([]string{"serve"}, args...)...)
		must.Hold(t, strings.Contains(output, text) && !strings.Contains(output, "planted-password"), args, "printed", output, "want", text)
	}
	file := filepath.Join(home, "file")
	writeFile(t, file, "")
	for _, args := range [][]string{{"serve", "--listen=127.0.0.1:0"}, {"keys", "list"}, {"backup", filepath.Join(home, "copy")}, {"job", "purge", "any"}} {
		must.Contain(t, mustFail(t, environment(home), append(args, "--data="+file)...), "invalid --data "+file+": expected a folder, got a file")
	}
}

func folderWithEmptyKey(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "api-key"), "\n")
	return dir
}

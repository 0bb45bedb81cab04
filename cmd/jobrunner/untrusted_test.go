//go:build unix

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const escapes = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202egnp\r\x08\x7f"

// expectEscaped expects that a text from a source has no control character.
func expectEscaped(t *testing.T, source, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%s has the character %U: %.300q", source, r, text)
			return
		}
	}
}

// Control characters from workers, clients and arguments are escaped in logs, errors and outputs.
func TestControlCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		dir := t.TempDir()
		config := filepath.Join(dir, "jobrunner.yaml")
		writeFile(t, config, `
engine: none
rules:
  - image: a/b
    command: {run: [sh, -c, 'printf "written\033]0;x\007\302\2331m\n" >&2; echo 1']}
`)
		p := serve(t, environment(dir, "GPUCLOUD_API_KEY=k"), "--ephemeral", "--config="+config, "--logs", "--log-format="+format)
		id := p.createEndpointOfImage("a/b")
		must.Do(p.client("k").Jobs.RunToEnd(t.Context(), id, api.Submission{Input: []byte(`{"a":1}`)}, time.Minute, func(api.Job) {}))(t)
		p.get("/v2/serverless/x%1B]0;owned%07%C2%9B31m%E2%80%AE")
		p.get("/v2/x%1B[2J/status/%1B[2J%C2%9B")
		_, _ = p.client("k").Endpoints.Create(t.Context(), api.Endpoint{
			Name: "e" + escapes, Type: "QUEUE", Container: &api.Container{Image: new("team/x" + escapes)},
			Workers: api.Workers{Min: 1, Max: 1}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 4},
		}) // may be rejected
		p.interrupt()
		expectEscaped(t, format, p.stderr.String())
		for line := range strings.Lines(p.stderr.String()) {
			must.Hold(t, format != "json" || json.Valid([]byte(line)), "the log has a line that isn't JSON:", line)
		}
		must.Contain(t, p.stderr.String(), "owned", `written\u001b]0;x`)
	}
	// The same holds for invalid arguments in errors.
	dir := t.TempDir()
	for _, args := range [][]string{{"dev", filepath.Join(dir, "no\x1b[2Jfile")}, {"keys", "remove", "--data=" + dir, "x\x1b[2J"}, {"serve", "--listen=127.0.0.1:0\x1b[2J"}} {
		expectEscaped(t, args[0], mustFail(t, environment(dir), args...))
	}
	// The same holds for an output, which remains JSON.
	file := filepath.Join(dir, "prints.sh")
	writeFile(t, file, `printf '"\342\200\256"\n'`)
	stdout, _, _ := runDevOnce(t, file)
	must.Equal(t, stdout, `"\u202e"`+"\n", "the output")
}

// A command that can't write its output fails.
func TestOutputIsLost(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prints.sh")
	writeFile(t, file, "echo 1")
	for command, want := range map[string]int{"version": 1, "--version": 2, "keys add ci": 1, "dev --once " + file: 4} {
		cmd := exec.Command(binary, strings.Fields(command)...)
		cmd.Env, cmd.Stdout = environment(t.TempDir()), must.Do(os.Open(os.DevNull))(t) // read-only
		_ = cmd.Run()                                                                   // the exit status is checked below
		must.Equal(t, cmd.ProcessState.ExitCode(), want, "the exit status of", command)
	}
}

// If an endpoint's environment could run code of its own, such as with BASH_ENV, the worker reports that and doesn't start.
func TestTemplateEnvironmentRunsNoCode(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/bash"); err != nil && os.Getenv("CI") == "" {
		t.Skip("bash isn't installed")
	}
	dir := t.TempDir()
	mark, config := filepath.Join(dir, "mark"), filepath.Join(dir, "jobrunner.yaml")
	script := filepath.Join(dir, "evil.sh")
	for file, text := range map[string]string{script: "touch " + mark + "\n", config: "engine: none\nrules:\n  - image: a/b\n    command: {run: [/bin/bash, -c, 'echo 1']}\n"} {
		writeFile(t, file, text)
	}
	p := serve(t, environment(dir, "GPUCLOUD_API_KEY=k"), "--ephemeral", "--config="+config)
	c := p.client("k")
	e := must.Do(c.Endpoints.Create(t.Context(), api.Endpoint{
		Name: "e", Type: "QUEUE", Container: &api.Container{Image: new("a/b"), Env: map[string]string{"BASH_ENV": script}},
		Workers: api.Workers{Min: 1, Max: 1}, Scaling: api.Scaling{Type: "QUEUE_DELAY", QueueDelay: 4},
	}))(t)
	p.waitUntil("the worker's reason", func() bool {
		_, body := p.get("/v2/serverless/" + e.ID + "/workers")
		return strings.Contains(body, `"status":"UNHEALTHY"`) && strings.Contains(body, "has BASH_ENV, which can make a local command run other code")
	})
	must.Hold(t, must.Err(os.Stat(mark)) != nil, "the code ran")
	p.interrupt()
	must.Hold(t, strings.Contains(p.stderr.String(), "has BASH_ENV"), "the log lacks the reason", &p.stderr)
}

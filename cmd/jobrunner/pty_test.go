//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pty"
)

// A backup shows its progress only on a terminal without CI, and no command prints colours.
func TestTerminal(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := environment(home)
	serve(t, env).interrupt()
	for i, c := range []struct {
		env      []string
		progress bool
	}{{nil, true}, {[]string{"NO_COLOR=1"}, true}, {[]string{"CI=true"}, false}} {
		for _, args := range [][]string{{"backup", filepath.Join(home, "copy"+string(rune('a'+i)))}, {"keys", "list"}, {"serve", "--help"}} {
			cmd := exec.CommandContext(t.Context(), binary, args...)
			cmd.Env = append(env, c.env...)
			out, err := pty.Output(cmd)
			must.Succeed(t, err, args, string(out))
			text := strings.ReplaceAll(string(out), "\r\x1b[K", "")
			must.Hold(t, !strings.Contains(text, "\x1b"), args, "prints escape sequences:", text)
			must.Hold(t, args[0] != "backup" || strings.Contains(text, "copied 0 of about 0 MiB") == c.progress, "with the environment", c.env, "a backup prints", string(out), "want progress:", c.progress)
		}
	}
	handler := filepath.Join(home, "handler.sh") // in a background group of the terminal, a read would stop it
	writeFile(t, handler, "read -r line </dev/tty || echo 1\n")
	cmd := exec.CommandContext(t.Context(), binary, "dev", handler, "--once")
	cmd.Env = env
	terminalOutput, err := pty.Output(cmd)
	must.Hold(t, err == nil && strings.Contains(string(terminalOutput), "COMPLETED"), "a handler that reads the terminal printed", string(terminalOutput), err)
	out := mustPrint(t, env, "backup", filepath.Join(home, "copy"))
	must.Hold(t, !strings.Contains(out, "copied"), "without a terminal, a backup shows progress:", out)
}

// keys list --json prints the keys without secrets and hashes.
func TestKeysJSON(t *testing.T) {
	t.Parallel()
	env := environment(t.TempDir())
	secret := strings.TrimSpace(mustPrint(t, env, "keys", "add", "ci", "--endpoint=endpoint0001", "--expires=1h"))
	mustPrint(t, env, "keys", "add", "all")
	out := mustPrint(t, env, "keys", "list", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	keys := make([]map[string]any, len(lines))
	for i, line := range lines {
		must.Succeed(t, json.Unmarshal([]byte(line), &keys[i]), line)
	}
	must.Require(t, len(keys) == 2 && !strings.Contains(out, secret) && !strings.Contains(out, "sha256"), "the list is", out)
	fullKey, ciKey := keys[0], keys[1]
	if fullKey["name"] == "ci" {
		fullKey, ciKey = ciKey, fullKey
	}
	must.Hold(t, ciKey["management"] == "none" && ciKey["jobs"] == "all" && ciKey["expires"] != nil && ciKey["expired"] == false && len(ciKey["endpoints"].([]any)) == 1, "the key ci is", ciKey)
	must.Hold(t, fullKey["management"] == "all" && fullKey["owner"] == "all" && fullKey["expires"] == nil && fullKey["endpoints"] == nil, "the key all is", fullKey)
}

// Progress updates of a handler are shown only on a terminal, and not with --json.
func TestJobShowsProgress(t *testing.T) {
	t.Parallel()
	var statusRequests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/serverless"):
			fmt.Fprint(w, `{"endpoints": [{"id": "e1", "name": "e"}]}`)
		case strings.HasSuffix(r.URL.Path, "/run"):
			fmt.Fprint(w, `{"id": "j1", "status": "IN_QUEUE"}`)
		case !strings.Contains(r.URL.Path, "/status/"): // other requests
			fmt.Fprint(w, `{}`)
		case statusRequests.Add(1)%2 == 1:
			fmt.Fprint(w, `{"id": "j1", "status": "IN_PROGRESS", "output": "a third\nof it"}`)
		default:
			fmt.Fprint(w, `{"id": "j1", "status": "COMPLETED", "output": 7}`)
		}
	}))
	defer server.Close()
	newCommand := func(flags ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"job", "run", "e1"}, flags...)...)
		cmd.Env = environment(t.TempDir(), "GPUCLOUD_BASE_URL="+server.URL, "GPUCLOUD_API_KEY=k")
		return cmd
	}
	const line = "job j1 is IN_PROGRESS: a third of it"
	out := must.Do(pty.Output(newCommand()))(t)
	must.Hold(t, strings.Contains(string(out), line) && strings.Contains(string(out), "7"), "on a terminal, job run prints", string(out))
	out = must.Do(pty.Output(newCommand("--json")))(t)
	must.Hold(t, !strings.Contains(string(out), "a third of it\r\n") && strings.Contains(string(out), `"output":7`), "on a terminal with --json, job run prints", string(out))
	out = must.Do(newCommand().CombinedOutput())(t)
	must.Hold(t, !strings.Contains(string(out), "a third"), "without a terminal, job run prints", string(out))
}

//go:build linux

package main_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pty"
)

// A backup shows its progress to people alone, and no command prints colours.
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
			if err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
			plain := strings.ReplaceAll(string(out), "\r\x1b[K", "")
			if strings.Contains(plain, "\x1b") {
				t.Errorf("%v prints escape sequences: %q", args, plain)
			}
			if args[0] == "backup" && strings.Contains(plain, "copied 0 of about") != c.progress {
				t.Errorf("with %q, progress is expected: %t, got %q", c.env, c.progress, out)
			}
		}
	}
	if out := prints(t, env, "backup", filepath.Join(home, "copy")); strings.Contains(out, "copied") {
		t.Errorf("progress without a terminal: %q", out)
	}
}

// Machines read the keys; secrets and hashes are not among them.
func TestKeysJSON(t *testing.T) {
	t.Parallel()
	env := environment(t.TempDir())
	secret := strings.TrimSpace(prints(t, env, "keys", "add", "ci", "--endpoint=e1", "--expires=1h"))
	prints(t, env, "keys", "add", "all")
	out := prints(t, env, "keys", "list", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	keys := make([]map[string]any, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &keys[i]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	if len(keys) != 2 || strings.Contains(out, secret) || strings.Contains(out, "sha256") {
		t.Fatal(out)
	}
	all, ci := keys[0], keys[1]
	if all["name"] == "ci" {
		all, ci = ci, all
	}
	if ci["management"] != "none" || ci["jobs"] != "all" || ci["expires"] == nil || ci["expired"] != false || len(ci["endpoints"].([]any)) != 1 {
		t.Errorf("got %v", ci)
	}
	if all["management"] != "all" || all["owner"] != "all" || all["expires"] != nil || all["endpoints"] != nil {
		t.Errorf("got %v", all)
	}
}

package client

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// TestMain lets the test binary be a client: Terraform's provider, or a sample after the argument "as".
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("TF_PLUGIN_MAGIC_COOKIE") != "":
		err := providerserver.Serve(ctx, provider.New("test"), providerserver.ServeOpts{
			Address: "registry.terraform.io/gpucloud/gpucloud", ProtocolVersion: 6,
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case len(os.Args) > 2 && os.Args[1] == "as":
		os.Exit(runRole(os.Args[2:]))
	default:
		// With the race detector, each process would sleep for a second at its exit.
		os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
		dir, err := os.MkdirTemp("", "conformance-client-")
		if err != nil {
			panic(err)
		}
		binaries = dir
		code := m.Run()
		os.RemoveAll(dir)
		os.Exit(code)
	}
}

// binaries is the directory of the jobrunner.
var binaries string

// clientCommand returns the command that runs this test binary as a client.
func clientCommand(t *testing.T, role ...string) []string {
	t.Helper()
	self := must.Do(os.Executable())(t)
	return append([]string{self, "as"}, role...)
}

// Escape sequences are removed, and the text remains.
func TestPlainText(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"\x1b[31m│\x1b[0m \x1b[0m\x1b[1mError\x1b[0m: no":        "│ Error: no",
		"\x1b[38;5;196mred\x1b[m \x1b[?25lhidden\x1b[K":          "red hidden",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x07 \x1b]0;title\a.": "link .",
		"\x1bPdevice\x1b\\a\x1b(Bb\x1b7c":                        "abc",
		"10%\r20%\r\ndone\r\n":                                   "10%\n20%\ndone\n",
		"cut \x1b":                                               "cut ",
		"cut \x1b[31":                                            "cut 31",
		"plain [31m":                                             "plain [31m",
	} {
		must.Equal(t, plainText(output), want, output)
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("line\n\n", 30) + "last \n"
	got := lastLines(many)
	lines := strings.Split(got, "\n")
	must.Hold(t, len(lines) == maxLines+1 && lines[0] == "…" && lines[maxLines] == "last", "expected an ellipsis and the last lines, got", got)
	got = lastLines(strings.Repeat("é", 4000))
	must.Hold(t, len(got) <= maxBytes+10 && !strings.ContainsRune(got, '\uFFFD') && strings.HasPrefix(got, "…\n"), len(got), "bytes:", got)
	must.Equal(t, lastLines("\n one\ntwo\n\n"), " one\ntwo")
}

// setUpTerraform returns the command that drives a real Terraform with this test binary as provider.
func setUpTerraform(t *testing.T) []string {
	t.Helper()
	cli := must.Do(tfcli.Find(t.Context()))(t)
	self := must.Do(os.Executable())(t)
	script := must.Do(filepath.Abs("testdata/provider/client.sh"))(t)
	dir := t.TempDir()
	must.Succeed(t, os.Symlink(self, filepath.Join(dir, "terraform-provider-gpucloud")))
	rc := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    %q = %q\n    %q = %q\n  }\n}\n",
		"registry.terraform.io/gpucloud/gpucloud", dir, "registry.opentofu.org/gpucloud/gpucloud", dir)
	settings := filepath.Join(dir, "terraformrc")
	must.Succeed(t, os.WriteFile(settings, []byte(rc), 0o600))
	t.Setenv("TERRAFORM", cli)
	t.Setenv("TF_CLI_CONFIG_FILE", settings)
	t.Setenv("TF_IN_AUTOMATION", "1")
	t.Setenv("CHECKPOINT_DISABLE", "1")
	t.Setenv("TMPDIR", dir)
	return []string{script, "{scenario}"}
}

// The provider, which runs no jobs and receives no webhooks, passes every clause about clients.
func TestProvider(t *testing.T) {
	command := setUpTerraform(t)
	t.Run("v2", func(t *testing.T) {
		r := judgeWithoutLeak(t, command)
		want := []string{"CLI-01", "CLI-02", "CLI-04", "CLI-05", "CLI-06", "CLI-07", "CLI-08", "CLI-11"}
		got := clausesWith(r, report.Pass)
		must.Hold(t, slices.Equal(got, want) && r.Exit == 0, "exit", r.Exit, got, "pass, not", want, terminalText(r))
		must.Equal(t, len(r.Notes), 1, "notes", r.Notes) // only the note about the command: nothing fails in the scenario works
		got, want = clausesWith(r, report.Skip), []string{"CLI-03", "CLI-09", "CLI-10"}
		must.Hold(t, slices.Equal(got, want), got, "are skipped, not", want, terminalText(r))
	})
	t.Run("v1", func(t *testing.T) {
		if testing.Short() {
			t.Skip("short tests have one API version through Terraform")
		}
		r := judgeClient(t, Options{Command: command, APIVersion: "v1", Select: []string{"create-error", "create-lost", "shrink", "name-taken", "echo"}})
		want := []string{"CLI-01", "CLI-04", "CLI-05", "CLI-07", "CLI-08", "CLI-11"}
		got := clausesWith(r, report.Pass)
		must.Hold(t, slices.Equal(got, want) && r.Exit == 0, "exit", r.Exit, got, "pass, not", want, terminalText(r))
	})
}

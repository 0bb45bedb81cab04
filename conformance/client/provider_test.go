package client

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// terraform returns the command that drives a real Terraform with this test binary as
// provider.
func terraform(t *testing.T) []string {
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

// The provider passes every clause about clients that applies to it. It runs no jobs and
// receives no webhooks.
func TestProvider(t *testing.T) {
	command := terraform(t)
	t.Run("v2", func(t *testing.T) {
		r := judgeWithoutLeak(t, command)
		want := []string{"CLI-01", "CLI-02", "CLI-04", "CLI-05", "CLI-06", "CLI-07", "CLI-08", "CLI-11"}
		if got := clausesWith(r, report.Pass); !slices.Equal(got, want) || r.Exit != 0 {
			t.Errorf("exit %d, and %v pass, not %v:\n%s", r.Exit, got, want, terminalText(r))
		}
		if len(r.Notes) != 1 { // only the note about the command: nothing fails in the scenario works
			t.Errorf("notes: %q", r.Notes)
		}
		if got, want := clausesWith(r, report.Skip), []string{"CLI-03", "CLI-09", "CLI-10"}; !slices.Equal(got, want) {
			t.Errorf("%v are skipped, not %v:\n%s", got, want, terminalText(r))
		}
	})
	t.Run("v1", func(t *testing.T) {
		if testing.Short() {
			t.Skip("short tests have one API version through Terraform")
		}
		r := judgeClient(t, Options{Command: command, APIVersion: "v1", Select: []string{"create-error", "create-lost", "shrink", "name-taken", "echo"}})
		want := []string{"CLI-01", "CLI-04", "CLI-05", "CLI-07", "CLI-08", "CLI-11"}
		if got := clausesWith(r, report.Pass); !slices.Equal(got, want) || r.Exit != 0 {
			t.Errorf("exit %d, and %v pass, not %v:\n%s", r.Exit, got, want, terminalText(r))
		}
	})
}

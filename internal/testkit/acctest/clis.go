package acctest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

var allCLIs = sync.OnceValues(func() ([]tfcli.CLI, error) { return tfcli.All(context.Background()) })

// EachCLI runs a test on every command line of this machine, and skips each
// release of tfcli.Releases that is absent. A short run has the first alone.
func EachCLI(t *testing.T, test func(t *testing.T, cli tfcli.CLI)) {
	t.Helper()
	present, err := allCLIs()
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		present = present[:1]
	}
	for _, cli := range present {
		t.Run(strings.ReplaceAll(cli.String(), " ", "-"), func(t *testing.T) { test(t, cli) })
	}
	if testing.Short() {
		return
	}
	for _, release := range tfcli.Missing(present) {
		t.Run(strings.ReplaceAll(release.String(), " ", "-"), func(t *testing.T) { t.Skip(release.Absent()) })
	}
}

// Workspace is a folder with a configuration and a state, where a command line
// runs a provider as a process of its own.
type Workspace struct {
	CLI tfcli.CLI
	Dir string
	t   testing.TB
	env []string
}

// Workspace makes an empty folder. The provider is that of this tree, and its
// settings come from the environment.
func (d *Deployment) Workspace(t testing.TB, cli tfcli.CLI, v api.Version) *Workspace {
	t.Helper()
	return NewWorkspace(t, cli, providerName,
		"GPUCLOUD_BASE_URL="+d.URL, "GPUCLOUD_API_KEY="+d.Key, "GPUCLOUD_API_VERSION="+string(v))
}

// NewWorkspace makes an empty folder for gpucloud/NAME, a provider that the
// test binary serves where IsProviderProcess.
func NewWorkspace(t testing.TB, cli tfcli.CLI, name string, env ...string) *Workspace {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, providerFile(name))); err != nil {
		t.Fatal(err)
	}
	w := &Workspace{CLI: cli, Dir: t.TempDir(), t: t}
	settings := filepath.Join(bin, "terraformrc")
	rc := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"registry.terraform.io/gpucloud/%s\" = %q\n    \"registry.opentofu.org/gpucloud/%[1]s\" = %[2]q\n  }\n}\n", name, bin)
	if err := os.WriteFile(settings, []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TF_") && !strings.HasPrefix(v, "GPUCLOUD_") {
			w.env = append(w.env, v)
		}
	}
	w.env = append(w.env, "TF_CLI_CONFIG_FILE="+settings, "CHECKPOINT_DISABLE=1",
		"GORACE=atexit_sleep_ms=0") // the race detector would add a second to each provider process
	w.env = append(w.env, env...)
	w.Write("providers.tf", fmt.Sprintf("terraform {\n  required_providers {\n    %s = { source = \"gpucloud/%[1]s\" }\n  }\n}\n", name))
	return w
}

// At is the same folder with other variables of the environment.
func (w *Workspace) At(env ...string) *Workspace {
	other := *w
	other.env = append(slices.Clone(w.env), env...)
	return &other
}

// Write writes a file of the configuration.
func (w *Workspace) Write(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(w.Dir, name)), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// Run returns all that the command printed.
func (w *Workspace) Run(args ...string) (string, error) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), w.CLI.Path, append(args, "-no-color")...)
	cmd.Dir, cmd.Env = w.Dir, w.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// MustRun is Run of a command that has to succeed.
func (w *Workspace) MustRun(args ...string) string {
	w.t.Helper()
	out, err := w.Run(args...)
	if err != nil {
		w.t.Fatalf("%s: %s: %s\n%s", w.CLI, strings.Join(args, " "), err, out)
	}
	return out
}

// IsProviderProcess says whether a command line started this test binary as
// the provider of a Workspace.
func IsProviderProcess() bool { return os.Getenv("TF_PLUGIN_MAGIC_COOKIE") != "" }

func providerFile(name string) string {
	file := "terraform-provider-" + name
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	return file
}

package acctest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

var allCLIs = sync.OnceValues(func() ([]tfcli.CLI, error) { return tfcli.All(context.Background()) })

// EachCLI runs a test on every CLI of this machine, and skips each
// release of tfcli.Releases that is absent. A short run has the first alone.
func EachCLI(t *testing.T, test func(t *testing.T, cli tfcli.CLI)) {
	t.Helper()
	tfcli.SkipAgain(t)
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

// isSample reports whether make test runs, which leaves combinations to .ci/run.
func isSample() bool { return testing.Short() && os.Getenv("CI") == "" }

// LeaveToCI skips a test of many commands of Terraform in `make test`, which has what it checks
// in other tests, too. .ci/run and make test-all run it.
func LeaveToCI(t *testing.T, others string) {
	t.Helper()
	if isSample() {
		t.Skipf("left to .ci/run: %s", others)
	}
}

// Workspace is a folder with a configuration and a state, where a CLI
// runs a provider as a process of its own.
type Workspace struct {
	CLI tfcli.CLI
	Dir string
	t   testing.TB
	env []string

	bin    string   // folder of the providers' programs and the settings that name them
	served []string // as namespace/name
}

// builtProvider is the folder of the provider program, built once for the tests of a
// package; RemoveBuilt removes it. It is built as for a release: the test binary itself, with
// the race detector, needs three times the processor time for each command. What runs in
// parallel in the provider has the race detector in Run and in the protocol driver.
var builtProvider = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "provider"); err != nil {
		return "", err
	}
	providerBuilt.Store(true)
	return dir, gobuild.Programs(context.Background(), dir, "github.com/gpucloud/terraform-provider-gpucloud")
})

var providerBuilt atomic.Bool // builtProvider has a folder

// RemoveBuilt removes the provider that workspaces use, at the end of a package's tests.
func RemoveBuilt() {
	if providerBuilt.Load() {
		if dir, _ := builtProvider(); dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
}

// Workspace makes an empty folder. The provider is that of this tree, and its
// settings come from the environment.
func (d *Deployment) Workspace(t testing.TB, cli tfcli.CLI, v api.Version) *Workspace {
	t.Helper()
	return NewWorkspace(t, cli, providerName,
		"GPUCLOUD_BASE_URL="+d.URL, "GPUCLOUD_API_KEY="+d.Key, "GPUCLOUD_API_VERSION="+string(v))
}

// NewWorkspace makes an empty folder for gpucloud/NAME: the provider of this tree, or
// another one, which the test binary serves where IsProviderProcess.
func NewWorkspace(t testing.TB, cli tfcli.CLI, name string, env ...string) *Workspace {
	t.Helper()
	w := &Workspace{CLI: cli, Dir: t.TempDir(), t: t, bin: t.TempDir()}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TF_") && !strings.HasPrefix(v, "GPUCLOUD_") {
			w.env = append(w.env, v)
		}
	}
	w.env = append(w.env, "TF_CLI_CONFIG_FILE="+filepath.Join(w.bin, "terraformrc"), "CHECKPOINT_DISABLE=1",
		"GORACE=atexit_sleep_ms=0") // the race detector would add a second to each provider process
	w.env = append(w.env, env...)
	w.Serve("gpucloud/" + name)
	return w
}

// program is the file that serves a provider: the provider of this tree, or the test
// binary, which finds the name of another in its own.
func program(source string) (string, error) {
	if source != "gpucloud/"+providerName {
		return os.Executable()
	}
	dir, err := builtProvider()
	return filepath.Join(dir, providerFile(providerName)), err
}

// Serve adds a provider.
func (w *Workspace) Serve(source string) {
	w.t.Helper()
	served, err := program(source)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(served, filepath.Join(w.bin, providerFile(path.Base(source)))); err != nil {
		w.t.Fatal(err)
	}
	w.served = append(w.served, source)
	var overrides, required strings.Builder
	for _, source := range w.served {
		for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
			fmt.Fprintf(&overrides, "    \"%s/%s\" = %q\n", host, source, w.bin)
		}
		fmt.Fprintf(&required, "    %s = { source = %q }\n", path.Base(source), source)
	}
	rc := "provider_installation {\n  dev_overrides {\n" + overrides.String() + "  }\n}\n"
	if err := os.WriteFile(filepath.Join(w.bin, "terraformrc"), []byte(rc), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.Write("providers.tf", "terraform {\n  required_providers {\n"+required.String()+"  }\n}\n")
}

// Address is a provider's in a state.
func (w *Workspace) Address(source string) string {
	host := "registry.terraform.io"
	if w.CLI.Name == tfcli.OpenTofu {
		host = "registry.opentofu.org"
	}
	return fmt.Sprintf("provider[%q]", host+"/"+source)
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

// Shell runs a line of a shell, whose terraform is the workspace's CLI.
func (w *Workspace) Shell(line string) (string, error) {
	w.t.Helper()
	if err := os.Symlink(w.CLI.Path, filepath.Join(w.bin, "terraform")); err != nil && !os.IsExist(err) {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = w.Dir, append(slices.Clone(w.env), "PATH="+w.bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// IsProviderProcess says whether a CLI started this test binary as
// the provider of a Workspace.
func IsProviderProcess() bool { return os.Getenv("TF_PLUGIN_MAGIC_COOKIE") != "" }

func providerFile(name string) string {
	file := "terraform-provider-" + name
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	return file
}

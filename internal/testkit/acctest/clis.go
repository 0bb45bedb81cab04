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
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

var allCLIs = sync.OnceValues(func() ([]tfcli.CLI, error) { return tfcli.All(context.Background()) })

// EachCLI runs a test with every CLI of this machine, and reports each absent release of
// tfcli.Releases as skipped. With -short, it uses only the first CLI.
func EachCLI(t *testing.T, test func(t *testing.T, cli tfcli.CLI)) {
	t.Helper()
	tfcli.SkipRepeated(t)
	present := must.Do(allCLIs())(t)
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

// InMakeTest reports whether the tests run in make test. It tests fewer combinations than .ci/run.
func InMakeTest() bool { return testing.Short() && os.Getenv("CI") == "" }

// SampledAreas are the areas whose clauses `make test` judges with the conformance program. They
// cover each API, webhooks, waits, and cases for test deployments.
const SampledAreas = "OPS,WEB,AUT,V,VER"

// LeaveToCI skips a slow test in `make test`. others says which faster tests check the same.
// .ci/run and make test-all run it.
func LeaveToCI(t *testing.T, others string) {
	t.Helper()
	if InMakeTest() {
		t.Skipf("left to .ci/run: %s", others)
	}
}

// Workspace is a folder with a configuration and a state. Its CLI runs providers as processes.
type Workspace struct {
	CLI tfcli.CLI
	Dir string
	t   testing.TB
	env []string

	bin     string   // folder of the providers' programs and of the CLI's settings
	sources []string // of the served providers, as namespace/name
}

// builtProvider returns the folder of the provider program, which is built once per package.
// RemoveBuiltProvider removes it. The program has no race detector, with which each command would need
// three times the processor time. Tests that run the provider in their own process find its data races.
var builtProvider = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "provider"); err != nil {
		return "", err
	}
	providerBuilt.Store(true)
	return dir, gobuild.Programs(context.Background(), dir, "github.com/gpucloud/terraform-provider-gpucloud")
})

var providerBuilt atomic.Bool // builtProvider has a folder

// RemoveBuiltProvider removes the provider program of the workspaces, after a package's tests.
func RemoveBuiltProvider() {
	if providerBuilt.Load() {
		if dir, _ := builtProvider(); dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
}

// Workspace creates an empty folder with variables that configure this provider for the deployment.
func (d *Deployment) Workspace(t testing.TB, cli tfcli.CLI, v api.Version) *Workspace {
	t.Helper()
	return NewWorkspace(t, cli, providerName,
		"GPUCLOUD_BASE_URL="+d.URL, "GPUCLOUD_API_KEY="+d.Key, "GPUCLOUD_API_VERSION="+string(v))
}

// NewWorkspace creates an empty folder for the provider gpucloud/NAME. If the name isn't this
// provider's, the CLI starts the test binary as the provider; see IsProviderProcess.
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

// program returns a provider program's path. The test binary serves providers of other names.
func program(source string) (string, error) {
	if source != "gpucloud/"+providerName {
		return os.Executable()
	}
	dir, err := builtProvider()
	return filepath.Join(dir, providerFile(providerName)), err
}

// Serve adds a provider to the workspace.
func (w *Workspace) Serve(source string) {
	w.t.Helper()
	programPath := must.Do(program(source))(w.t)
	must.Succeed(w.t, os.Symlink(programPath, filepath.Join(w.bin, providerFile(path.Base(source)))))
	w.sources = append(w.sources, source)
	var overrides, required strings.Builder
	for _, source := range w.sources {
		for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
			fmt.Fprintf(&overrides, "    \"%s/%s\" = %q\n", host, source, w.bin)
		}
		fmt.Fprintf(&required, "    %s = { source = %q }\n", path.Base(source), source)
	}
	rc := "provider_installation {\n  dev_overrides {\n" + overrides.String() + "  }\n}\n"
	must.Succeed(w.t, os.WriteFile(filepath.Join(w.bin, "terraformrc"), []byte(rc), 0o600))
	w.Write("providers.tf", "terraform {\n  required_providers {\n"+required.String()+"  }\n}\n")
}

func (w *Workspace) Address(source string) string {
	host := "registry.terraform.io"
	if w.CLI.Name == tfcli.OpenTofu {
		host = "registry.opentofu.org"
	}
	return fmt.Sprintf("provider[%q]", host+"/"+source)
}

// WithEnv returns the same workspace with additional environment variables.
func (w *Workspace) WithEnv(env ...string) *Workspace {
	other := *w
	other.env = append(slices.Clone(w.env), env...)
	return &other
}

func (w *Workspace) Write(name, text string) {
	w.t.Helper()
	must.Succeed(w.t, os.MkdirAll(filepath.Dir(filepath.Join(w.Dir, name)), 0o700))
	must.Succeed(w.t, os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o600))
}

func (w *Workspace) Run(args ...string) (string, error) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), w.CLI.Path, append(args, "-no-color")...)
	cmd.Dir, cmd.Env = w.Dir, w.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w *Workspace) MustRun(args ...string) string {
	w.t.Helper()
	out, err := w.Run(args...)
	if err != nil {
		w.t.Fatalf("%s: %s: %s\n%s", w.CLI, strings.Join(args, " "), err, out)
	}
	return out
}

// Shell runs a shell command. terraform is the workspace's CLI there.
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

// IsProviderProcess reports whether a CLI started this test binary as a provider.
func IsProviderProcess() bool { return os.Getenv("TF_PLUGIN_MAGIC_COOKIE") != "" }

func providerFile(name string) string {
	file := "terraform-provider-" + name
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	return file
}

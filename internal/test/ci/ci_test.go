//go:build unix

// Package ci tests what users copy into their CI: the scripts of actions/ and the example
// repositories of examples/ci. actionlint checks the workflows (make lint).
package ci

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

const root = "../../.."

var programs string // folder of the built programs

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gpucloud-ci-")
	if err != nil {
		panic(err)
	}
	programs = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var build = sync.OnceValue(func() error {
	return gobuild.Programs(context.Background(), programs, root, root+"/cmd/jobrunner", root+"/cmd/conformance")
})

// machine is a runner of a CI service, with built programs, a CLI and an empty home folder.
type machine struct {
	t     *testing.T
	repo  string // copy of the example
	tree  string // the project, absolute
	tools string // folder of the CLI
	home  string
	env   []string
}

func newMachine(t *testing.T, example string) *machine {
	t.Helper()
	must.Succeed(t, build())
	cli, err := tfcli.Default(t.Context())
	must.Succeed(t, err)
	tree, err := filepath.Abs(root)
	must.Succeed(t, err)
	base := t.TempDir()
	m := &machine{t: t, tree: tree, repo: filepath.Join(base, "repository"), tools: filepath.Join(base, "tools"), home: filepath.Join(base, "home")}
	err = errors.Join(os.Mkdir(m.tools, 0o700), os.Mkdir(m.home, 0o700), os.Symlink(cli.Path, filepath.Join(m.tools, "terraform")), os.CopyFS(m.repo, os.DirFS(filepath.Join(root, example))))
	must.Succeed(t, err)
	m.env = []string{
		"HOME=" + m.home, "PATH=" + strings.Join([]string{m.tools, programs, os.Getenv("PATH")}, string(filepath.ListSeparator)), "CHECKPOINT_DISABLE=1", "TF_CLI_ARGS=-no-color",
		"TMPDIR=" + base, "GPUCLOUD_SOURCE=" + tree, "GPUCLOUD_QUEUE_URL=https://production.example.com", // no job may reach it
	}
	return m
}

// bash runs a script in the repository, with further variables. Output goes to a file, because
// a process that the script leaves would keep a pipe open.
func (m *machine) bash(script string, env ...string) (output string, err error) {
	m.t.Helper()
	printed, err := os.CreateTemp(m.t.TempDir(), "printed-")
	must.Succeed(m.t, err)
	defer printed.Close()
	cmd := exec.CommandContext(m.t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = m.repo, append(append([]string{}, m.env...), env...), printed, printed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	m.t.Cleanup(func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if nothing is left
		}
	})
	err = cmd.Run()
	text := must.ReadFile(m.t, printed.Name())
	return string(text), err
}

// read returns the content of a file in the repository.
func (m *machine) read(name string) string {
	m.t.Helper()
	text := must.ReadFile(m.t, filepath.Join(m.repo, name))
	return string(text)
}

// expectStopped checks that the jobrunner with this state folder was stopped and its key deleted.
func (m *machine) expectStopped(state string) {
	m.t.Helper()
	if left, _ := filepath.Glob(filepath.Join(state, "pid")); left != nil {
		m.t.Errorf("the jobrunner was not stopped: %s", left)
	}
	if left, _ := filepath.Glob(filepath.Join(state, "greeting")); left != nil {
		m.t.Errorf("the key is left in %s", left)
	}
}

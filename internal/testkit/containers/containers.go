// Package containers gives tests real container engines and a private
// registry: a Docker daemon with its data in a temporary folder, Podman with
// its storage there and in a mount namespace of its own, Debian's registry on
// loopback, and one image that has Python. Each is started once for a test
// binary, and is gone with the binary however it ends.
package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// startUp is how long a daemon may take to answer.
const (
	startUp = time.Minute
	step    = 50 * time.Millisecond // of waiting for it
)

// Engine is the command line of a container engine that runs here.
type Engine struct {
	Name string   // docker or podman
	Path string   // of the command line
	Env  []string // which the command line needs, and so does whoever uses it
}

// errMissing is wrapped where a program is not installed, or may not run.
var errMissing = errors.New("containers are not tested")

// Docker answers the command line of a daemon of this test binary.
func Docker(t testing.TB) *Engine {
	t.Helper()
	return need(t, docker)
}

// Podman answers its command line, with storage of this test binary.
func Podman(t testing.TB) *Engine {
	t.Helper()
	return need(t, podman)
}

var (
	docker   = sync.OnceValues(startDocker)
	podman   = sync.OnceValues(startPodman)
	registry = sync.OnceValues(startRegistry)
)

// Each runs a test with Docker and with Podman, beside each other. In a short
// run that is Docker alone.
func Each(t *testing.T, run func(t *testing.T, e *Engine)) {
	t.Helper()
	t.Run("docker", func(t *testing.T) {
		t.Parallel()
		run(t, Docker(t))
	})
	t.Run("podman", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("a short run tries Docker alone")
		}
		run(t, Podman(t))
	})
}

// need skips the test where something is missing. Under CI, where the variable
// CI is set, it fails.
func need[T any](t testing.TB, start func() (T, error)) (got T) {
	t.Helper()
	got, err := start()
	switch {
	case errors.Is(err, errMissing) && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return got
}

// programs finds what an engine needs.
func programs(names ...string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: only root may start %s", errMissing, names[0])
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: %s is not installed (Debian: apt-get install --no-install-recommends docker.io docker-registry podman crun)", errMissing, name)
		}
	}
	return nil
}

// Output runs a command of the engine, and answers what it writes to stdout.
func (e *Engine) Output(t testing.TB, args ...string) string {
	t.Helper()
	out, err := e.run(nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (e *Engine) run(stdin io.Reader, args ...string) (string, error) {
	c := exec.Command(e.Path, args...) //nolint:noctx,gosec // tests clean up by it when their context has ended
	var stderr bytes.Buffer
	c.Env, c.Stdin, c.Stderr = append(os.Environ(), e.Env...), stdin, &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", e.Name, strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// Containers answers the ids of those that have a label, NAME=VALUE, whether
// they run or not.
func (e *Engine) Containers(t testing.TB, label string) []string {
	t.Helper()
	return strings.Fields(e.Output(t, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+label))
}

var alive []io.Closer // hold the inputs of supervisors open, which close with this process and not before

// supervise runs a script of sh in a folder, as sh -c does. The script has to
// end what it started when its input, which the test binary holds, ends.
func supervise(dir, script string, args ...string) error {
	c := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...) //nolint:noctx,gosec // it outlives the test that starts it
	c.Dir = dir
	c.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + dir, "LC_ALL=C"}
	stdin, err := c.StdinPipe()
	if err != nil {
		return err
	}
	supervising.Lock()
	alive = append(alive, stdin)
	supervising.Unlock()
	return c.Start()
}

var supervising sync.Mutex

// await asks until there is no error.
func await(ask func() error, log string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startUp)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(step):
		case <-ctx.Done():
			said, _ := os.ReadFile(log) //nolint:gosec // of a daemon for tests
			return fmt.Errorf("it did not start within %s: %w\n%s", startUp, err, said)
		}
	}
}

func write(dir, name, text string, mode os.FileMode) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), mode)
}

// Package containers gives tests real container engines and a private registry: a Docker daemon
// with its data in a temporary folder, Podman with its storage there and its own mount
// namespace, Debian's registry on loopback, and an image with Python. Each is started once per
// test binary and ends with it, even if the binary is killed.
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

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const (
	startTimeout = 3 * time.Minute       // for the first answer of a daemon, on a busy machine
	startPoll    = 50 * time.Millisecond // between two attempts to reach it
)

// Engine is the CLI of a container engine that runs here.
type Engine struct {
	Name string   // docker or podman
	Path string   // of the CLI
	Env  []string // NAME=value; every process that uses the engine needs these variables
}

// errMissing is wrapped by errors about a program that isn't installed or can't run.
var errMissing = errors.New("containers are not tested")

// Docker returns this test binary's own Docker daemon.
func Docker(t testing.TB) *Engine {
	t.Helper()
	return startOrSkip(t, docker)
}

var (
	docker   = sync.OnceValues(startDocker)
	podman   = sync.OnceValues(startPodman)
	registry = sync.OnceValues(startRegistry)
)

// Each runs a test with Docker and with Podman, in parallel. With -short it runs only Docker.
func Each(t *testing.T, run func(t *testing.T, e *Engine)) {
	t.Helper()
	t.Run("docker", func(t *testing.T) {
		t.Parallel()
		run(t, Docker(t))
	})
	t.Run("podman", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("with -short only Docker is tested")
		}
		run(t, startOrSkip(t, podman))
	})
}

// startOrSkip starts a program. If it is missing, the test is skipped, but fails in CI (with the variable CI).
func startOrSkip[T any](t testing.TB, start func() (T, error)) (result T) {
	t.Helper()
	result, err := start()
	if errors.Is(err, errMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	must.Succeed(t, err)
	return result
}

// requirePrograms returns an error unless this user is root and programs of Debian's packages are installed.
func requirePrograms(packages string, names ...string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: only root may start %s", errMissing, names[0])
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: %s is not installed (Debian: apt-get install --no-install-recommends %s)", errMissing, name, packages)
		}
	}
	return nil
}

func (e *Engine) Output(t testing.TB, args ...string) string {
	t.Helper()
	return must.Do(e.run(nil, args...))(t)
}

func (e *Engine) run(stdin io.Reader, args ...string) (string, error) {
	c := exec.Command(e.Path, args...) //nolint:noctx,gosec // tests also use it to clean up, after the end of their context
	var stderr bytes.Buffer
	c.Env, c.Stdin, c.Stderr = append(os.Environ(), e.Env...), stdin, &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", e.Name, strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// Containers returns the ids of the running and stopped containers with a label, NAME=VALUE.
func (e *Engine) Containers(t testing.TB, label string) []string {
	t.Helper()
	return strings.Fields(e.Output(t, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+label))
}

var supervisorInputs []io.Closer // stay open until this process ends: see supervise

// supervise runs a shell script in a folder and returns its input. The input is closed when the
// test binary ends; the script must then end everything that it started.
func supervise(dir, script string, args ...string) (stdin io.Writer, err error) {
	c := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...) //nolint:noctx,gosec // it outlives the test that starts it
	c.Dir = dir
	c.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + dir, "LC_ALL=C"}
	input, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	supervisorsLock.Lock()
	supervisorInputs = append(supervisorInputs, input)
	supervisorsLock.Unlock()
	return input, c.Start()
}

var supervisorsLock sync.Mutex

// launch runs a script in a new temporary folder, with the files that files returns for that folder.
func launch(program, script string, files func(dir string) map[string]string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "gpucloud-"+program+"-"); err != nil {
		return "", err
	}
	for name, text := range files(dir) {
		if err := writeFile(dir, name, text, 0o700); err != nil { // podman is a program
			return "", err
		}
	}
	_, err = supervise(dir, script)
	return dir, err
}

// await calls try until it returns no error, at most for startTimeout. Its error contains the ends of the logs.
func await(try func() error, logs ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(startPoll):
		case <-ctx.Done():
			err = fmt.Errorf("gave up after %s: %w", startTimeout, err)
			for _, log := range logs {
				text, _ := os.ReadFile(log)                                                             //nolint:gosec // the log of a test daemon
				err = fmt.Errorf("%w\n%s:\n%s", err, filepath.Base(log), text[max(0, len(text)-8000):]) // the end of the log has the cause
			}
			return err
		}
	}
}

func writeFile(dir, name, text string, mode os.FileMode) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), mode)
}

// runDocker runs a daemon that doesn't change the machine's network. When it ends, it ends all containers.
const runDocker = `dockerd --iptables=false --bridge=none --host-gateway-ip=127.0.0.1 --exec-opt native.cgroupdriver=cgroupfs --shutdown-timeout=1 \
  --data-root "$PWD/data" --exec-root "$PWD/exec" --pidfile "$PWD/pid" --config-file "$PWD/daemon.json" -H "unix://$PWD/socket" >log 2>&1 </dev/null &
read -r _
docker -H "unix://$PWD/socket" network prune --force >/dev/null 2>&1
kill $!
wait
umount "$PWD/exec/netns/default" # left by the daemon
rm -rf --one-file-system "$PWD"`

func startDocker() (*Engine, error) {
	if err := requirePrograms("docker.io", "dockerd", "docker"); err != nil {
		return nil, err
	}
	dir, err := launch("docker", runDocker, func(string) map[string]string { return map[string]string{"daemon.json": "{}"} })
	if err != nil {
		return nil, err
	}
	e := &Engine{Name: "docker", Path: "docker", Env: []string{"DOCKER_HOST=unix://" + filepath.Join(dir, "socket"), "DOCKER_CONFIG=" + dir}}
	err = await(func() error {
		_, err := e.run(nil, "version", "--format", "{{.Server.Version}}")
		return err
	}, filepath.Join(dir, "log"))
	if err != nil {
		return nil, fmt.Errorf("dockerd: %w", err)
	}
	return e, nil
}

// Network creates a network for the test, which is skipped if the machine doesn't support that.
func (e *Engine) Network(t testing.TB) (name string) {
	t.Helper()
	name = "gpucloud-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	if _, err := e.run(nil, "network", "create", name); err != nil {
		t.Skipf("this machine has no networks of containers: %s", err)
	}
	t.Cleanup(func() { e.Output(t, "network", "rm", name) })
	return name
}

// podmanScript is the CLI. It hides cgroup v2 from crun if the machine mounts both cgroup v1 and v2.
const podmanScript = `#!/bin/sh
export CONTAINERS_STORAGE_CONF=%[1]s/storage.conf CONTAINERS_CONF=%[1]s/containers.conf CONTAINERS_REGISTRIES_CONF=%[1]s/registries.conf
exec unshare --mount sh -c 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"' sh %[2]s --tmpdir %[1]s/tmp "$@"
`

const podmanStorage = `[storage]
driver = "vfs"
graphroot = "%[1]s/data"
runroot = "%[1]s/run"
`

// The limits are low enough for a root that may not raise its own.
const podmanSettings = `[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
`

const insecureRegistry = `[[registry]]
location = %q
insecure = true
`

const runPodman = `read -r _
./podman rm --force --all --time 0 >/dev/null 2>&1
rm -rf --one-file-system "$PWD"`

func startPodman() (*Engine, error) {
	if err := requirePrograms("podman crun", "podman", "crun", "unshare"); err != nil {
		return nil, err
	}
	program, err := exec.LookPath("podman")
	if err != nil {
		return nil, err
	}
	private, err := registry() // its address goes into registries.conf
	location := ""
	if err == nil {
		location = fmt.Sprintf(insecureRegistry, private.Address)
	}
	dir, err := launch("podman", runPodman, func(dir string) map[string]string {
		return map[string]string{
			"podman": fmt.Sprintf(podmanScript, dir, program), "storage.conf": fmt.Sprintf(podmanStorage, dir), "containers.conf": podmanSettings, "registries.conf": location,
		}
	})
	if err != nil {
		return nil, err
	}
	e := &Engine{Name: "podman", Path: filepath.Join(dir, "podman")}
	if _, err := e.run(nil, "info"); err != nil {
		return nil, err
	}
	return e, nil
}

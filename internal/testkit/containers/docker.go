package containers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runDocker runs a daemon that doesn't change the machine's network. When it ends, it ends all
// containers.
const runDocker = `dockerd --iptables=false --bridge=none --host-gateway-ip=127.0.0.1 --exec-opt native.cgroupdriver=cgroupfs --storage-driver=vfs --shutdown-timeout=1 \
  --data-root "$PWD/data" --exec-root "$PWD/exec" --pidfile "$PWD/pid" --config-file "$PWD/daemon.json" -H "unix://$PWD/socket" >log 2>&1 </dev/null &
read -r _
docker -H "unix://$PWD/socket" network prune --force >/dev/null 2>&1
kill $!
wait
umount "$PWD/exec/netns/default" # left by the daemon
rm -rf --one-file-system "$PWD"`

func startDocker() (*Engine, error) {
	if err := requirePrograms("dockerd", "docker"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gpucloud-docker-")
	if err != nil {
		return nil, err
	}
	if err := writeFile(dir, "daemon.json", "{}", 0o600); err != nil {
		return nil, err
	}
	if _, err := supervise(dir, runDocker); err != nil {
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

// Network creates a network that is removed after the test. If the machine doesn't support it,
// the test is skipped.
func (e *Engine) Network(t testing.TB) (name string) {
	t.Helper()
	name = "gpucloud-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	if _, err := e.run(nil, "network", "create", name); err != nil {
		t.Skipf("this machine has no networks of containers: %s", err)
	}
	t.Cleanup(func() { e.Output(t, "network", "rm", name) })
	return name
}

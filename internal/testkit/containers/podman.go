package containers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// podmanScript is the CLI. If the machine mixes both versions of control groups, which crun
// doesn't support, it hides version 2.
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
	if err := requirePrograms("podman", "crun", "unshare"); err != nil {
		return nil, err
	}
	program, err := exec.LookPath("podman")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gpucloud-podman-")
	if err != nil {
		return nil, err
	}
	private, err := registry() // its address goes into registries.conf
	location := ""
	if err == nil {
		location = fmt.Sprintf(insecureRegistry, private.Address)
	}
	for name, text := range map[string]string{
		"podman": fmt.Sprintf(podmanScript, dir, program), "storage.conf": fmt.Sprintf(podmanStorage, dir), "containers.conf": podmanSettings, "registries.conf": location,
	} {
		mode := os.FileMode(0o600)
		if name == "podman" {
			mode = 0o700
		}
		if err := writeFile(dir, name, text, mode); err != nil {
			return nil, err
		}
	}
	if _, err := supervise(dir, runPodman); err != nil {
		return nil, err
	}
	e := &Engine{Name: "podman", Path: filepath.Join(dir, "podman")}
	if _, err := e.run(nil, "info"); err != nil {
		return nil, err
	}
	return e, nil
}

//go:build linux

package main_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// podProgram is the program of a pod's container: it records its starts on its disk and volume,
// prints numbers, and serves a file if requested.
const podProgram = `import os, sys, time, threading, http.server
def lines(path):
    try: return len(open(path).readlines())
    except OSError: return 0
def status(): # "" until it is written: the file exists a moment before
    try: return open("/volume/exit").read()
    except OSError: return ""
for path in ["/disk", "/volume/starts"]:
    try: open(path, "a").write("start\n")
    except OSError: pass
print("disk", lines("/disk"), "volume", lines("/volume/starts"), os.environ.get("COLOR"), flush=True)
if os.path.isdir("/volume"):
    os.chdir("/volume")
    threading.Thread(target=http.server.HTTPServer(("", 8080), http.server.SimpleHTTPRequestHandler).serve_forever, daemon=True).start() if "serve" in sys.argv else None
n = 0
while not status():
    n += 1
    print("count", n, flush=True)
    time.sleep(0.05)
os._exit(int(status())) # Python's own end can crash beside a daemon thread
`

// pythonArgs are a container's arguments that run a Python program.
func pythonArgs(program string) string {
	return `python3 -u -c '` + strings.ReplaceAll(program, "'", `'"'"'`) + `'`
}

// newContainerPods starts a deployment whose pods are containers.
func newContainerPods(t *testing.T, e *containers.Engine, settings string) *containerDeployment {
	t.Helper()
	if e.Name == "podman" && settings == "" {
		settings = "network: host" // another network needs plugins and iptables
	}
	c := prepareContainers(t, e, e.Path, settings)
	c.start(t)
	return c
}

// podContainers returns the containers of a pod.
func (c *containerDeployment) podContainers(id string) []string {
	c.t.Helper()
	return c.engine.Containers(c.t, "gpucloud.pod="+id)
}

// expectNumbers expects that a log has every number of the program once and in order.
func (c *containerDeployment) expectNumbers(id string, from int) (upTo int) {
	c.t.Helper()
	lines := c.logLinesAfter(id, "count")
	for i, line := range lines[from:] {
		if line != fmt.Sprint(i+1) {
			c.t.Fatalf("the log has %q at %d: lines are lost or duplicated: %q", line, i, lines)
		}
	}
	return len(lines)
}

// TestRealPods tests pods as containers of a real Docker and Podman.
func TestRealPods(t *testing.T) {
	acctest.LeaveToCI(t, "TestPodsFollowTheModel tests pods of processes")
	t.Parallel()
	containers.Each(t, func(t *testing.T, e *containers.Engine) {
		requireImage(t, e)
		t.Run("adoption", func(t *testing.T) { realAdoption(t, e) })
		if testing.Short() {
			return
		}
		t.Run("life", func(t *testing.T) { realPodLife(t, e) })
		t.Run("images", func(t *testing.T) { realPodImages(t, e) })
		t.Run("ephemeral", func(t *testing.T) { realEphemeralPods(t, e) })
	})
}

// A pod's container survives a kill -9 of the jobrunner, and the next start adopts it without losing
// or duplicating a line. If it ended meanwhile, the pod is over and has its last lines. If the pod
// was changed, the container is replaced.
func realAdoption(t *testing.T, e *containers.Engine) {
	c := newContainerPods(t, e, "options: [--env=NVIDIA_VISIBLE_DEVICES=void]"+map[string]string{"podman": ", network: host"}[e.Name])
	cpuPod := func() string {
		return c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":%q,%s}`, handlerImage, pythonArgs(podProgram), cpu))
	}
	goes, ends := cpuPod(), cpuPod()
	for _, id := range []string{goes, ends} {
		c.awaitPodStatus(id, "RUNNING")
		c.until("lines", func() bool { return len(c.logLinesAfter(id, "count")) > 5 })
	}
	before, over := c.podContainers(goes), c.podContainers(ends)
	if len(before) != 1 || len(over) != 1 {
		t.Fatalf("containers %v %v", before, over)
	}
	c.kill()
	e.Output(t, "stop", "--time", "0", over[0])
	time.Sleep(200 * time.Millisecond) // the other one continues to write
	c.start(t)
	p := c.awaitPodStatus(goes, "RUNNING")
	must.Hold(t, p.Runtime != nil, p)
	after := c.podContainers(goes)
	must.Hold(t, len(after) == 1 && after[0] == before[0], "the container was", before, after)
	c.podLog(goes, "?source=system&tail=5000", "adopted the pod's container, which ran on meanwhile", nil)
	n := c.expectNumbers(goes, 0)
	c.until("further lines", func() bool { return c.expectNumbers(goes, 0) > n+5 })
	var v1 struct{ LastStatusChange string }
	c.call(http.MethodGet, "/v1/pods/"+goes, "", &v1)
	must.Hold(t, strings.HasPrefix(v1.LastStatusChange, "Adopted: "), v1)
	p = c.awaitPodStatus(ends, "ERROR")
	must.Hold(t, p.Reason != nil && strings.Contains(*p.Reason, "exit status 137"), p)
	c.until("the removal", func() bool { return len(c.podContainers(ends)) == 0 })
	c.expectNumbers(ends, 0)

	// A stop of the jobrunner stops its pods, and the next start starts them.
	c.interrupt()
	must.Equal(t, c.podContainers(goes), nil, "containers are left")
	c.start(t)
	c.awaitPodStatus(goes, "RUNNING")
	c.podLog(goes, "?source=system&tail=5000", "it is started again", nil)
	c.act(goes, "terminate")
	c.until("the removal", func() bool { return len(c.podContainers(goes)) == 0 })
	c.interrupt()
}

// A container has the pod's arguments, variables, volume and ports. Its disk is new at each start;
// its volume is kept until a reset.
func realPodLife(t *testing.T, e *containers.Engine) {
	settings := "network: host" // podman needs plugins and iptables for another network
	if e.Name == "docker" {
		settings = "network: " + e.Network(t)
	}
	c := newContainerPods(t, e, settings)
	id := c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":%q,"gpu":{"id":"NVIDIA L4"},"env":{"COLOR":"red"},"ports":["8080/http"],"mounts":{"persistent":{"size":10,"path":"/volume"}}}`,
		handlerImage, pythonArgs(podProgram)+" serve"))
	c.awaitReason(id, "this machine has no GPU")
	c.act(id, "terminate")
	// The same works with a network volume and without GPUs.
	volume := c.createVolume()
	id = c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":%q,%s,"env":{"COLOR":"red"},"ports":["8080/http"],"mounts":{"network":[{"volumeId":%q,"path":"/volume"}]}}`,
		handlerImage, pythonArgs(podProgram)+" serve", cpu, volume))
	p := c.awaitPodStatus(id, "RUNNING")
	c.podLog(id, "", "disk 1 volume 1 red", nil)
	if len(p.Runtime.Ports) != 1 || p.Runtime.Ports[0].Public == 0 || e.Name == "podman" && p.Runtime.Ports[0].Public != 8080 {
		t.Fatalf("%+v", p.Runtime)
	}
	url := fmt.Sprintf("http://%s:%d/starts", p.Runtime.Ports[0].IP, p.Runtime.Ports[0].Public)
	c.until("the published port", func() bool {
		resp, err := http.Get(url) //nolint:noctx // it is ended by its server
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text) == "start\n"
	})
	for n, action := range []string{"restart", "stop"} {
		before := c.podContainers(id)
		c.act(id, action)
		if action == "stop" {
			c.until("the removal", func() bool { return len(c.podContainers(id)) == 0 })
			c.act(id, "start")
		}
		c.podLog(id, "", fmt.Sprintf("disk 1 volume %d red", n+2), nil)
		c.until("another container", func() bool { now := c.podContainers(id); return len(now) == 1 && now[0] != before[0] })
	}
	put(t, filepath.Join(c.home, "data", "volumes", volume, "exit"), "0")
	c.awaitPodStatus(id, "EXITED")
	c.until("the removal", func() bool { return len(c.podContainers(id)) == 0 })
	c.interrupt()
}

// If an image doesn't exist or its registry requires a login, the pod waits with the reason, which
// contains no password. With the right registry auth it runs.
func realPodImages(t *testing.T, e *containers.Engine) {
	registry := containers.NewRegistry(t)
	source := "team/private-pod-" + e.Name + ":1"
	buildImage(t, e, source, "contained", nil)
	private := registry.Push(t, e, source, "pods/"+e.Name+":1")
	e.Output(t, "rmi", source)
	c := newContainerPods(t, e, "")
	pod := func(image, more string) string {
		return c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":"python3 -c 'import time; time.sleep(1000)'",%s%s}`, image, cpu, more))
	}
	c.awaitReason(pod("127.0.0.1:1/team/absent", ""), "the registry 127.0.0.1:1 can't be reached")
	id := pod(private, "")
	c.awaitReason(id, "wants a login")
	auth := c.registryAuth("right", containers.Username, containers.Password)
	c.call(http.MethodPatch, "/v2/pods/"+id, `{"registry":"`+auth+`"}`, nil)
	c.awaitPodStatus(id, "RUNNING")
	must.Fail(t, c.try(http.MethodDelete, "/v2/registries/"+auth, "", nil), "is in use")
	if _, text := c.get("/v2/pods"); strings.Contains(text, containers.Password) {
		t.Errorf("%s", text)
	}
	absent := pod(handlerImage, "")
	c.call(http.MethodPatch, "/v2/pods/"+absent, `{"args":"absent-program"}`, nil)
	c.awaitReason(absent, "absent-program")
	c.interrupt()
}

// The next ephemeral jobrunner of the same user removes the pods' containers of a killed one.
func realEphemeralPods(t *testing.T, e *containers.Engine) {
	c := prepareContainers(t, e, e.Path, "network: host")
	c.startEphemeral(t)
	id := c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":"python3 -c 'import time; time.sleep(1000)'",%s}`, handlerImage, cpu))
	c.awaitPodStatus(id, "RUNNING")
	if all := c.podContainers(id); len(all) != 1 {
		t.Fatalf("containers: %v", all)
	}
	c.kill()
	c.startEphemeral(t)
	must.Equal(t, c.podContainers(id), nil, "containers are left")
	c.interrupt()
}

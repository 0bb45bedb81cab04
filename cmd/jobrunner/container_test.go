//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// An engine's worker gets GPUs, variables, registry login, volume and ports. No secret is shown; no container is left.
func TestAContainerOfAnEndpoint(t *testing.T) {
	t.Parallel()
	home, tools, engineDir := t.TempDir(), t.TempDir(), t.TempDir()
	script := must.Do(filepath.Abs("../../jobrunner/run/host/testdata/engine.sh"))(t)
	must.Succeed(t, os.Symlink(script, filepath.Join(tools, "docker")))
	writeFile(t, filepath.Join(home, "jobrunner.yaml"), "rules:\n  - image: registry.example/private/model\n    container: {network: bridge, options: [--shm-size=1g]}\n")
	env := append(environment(home, "GPUCLOUD_API_KEY=k", "FAKE_ENGINE="+engineDir), "PATH="+tools+":/usr/bin:/bin")
	p := serve(t, env, "--data="+filepath.Join(home, "data"), "--config="+filepath.Join(home, "jobrunner.yaml"), "--simulate-gpus=h200x8")
	must.Contain(t, strings.Join(p.startupLines, "\n"), "docker 99.1 ("+filepath.Join(tools, "docker")+")")
	login, volume := p.createObject("/v2/registries", `{"name": "private", "username": "robot", "password": "planted-password"}`), p.createVolume()
	endpoint := p.createObject("/v2/serverless", `{"name": "contained", "image": "registry.example/private/model", "args": "serve 'two words'", "registry": "`+login+`",
		"env": {"TOKEN": "planted-token"}, "ports": ["8000/http"], "networkVolumes": ["`+volume+`"], "gpu": {"pools": ["HOPPER_141"], "count": 2}, "workers": {"min": 1, "max": 1}}`)
	var list struct {
		Workers []struct {
			ID        string
			StartedAt *string
			GPUs      []struct{ ID string }
		}
	}
	p.waitUntil("a worker", func() bool {
		p.call(http.MethodGet, "/v2/serverless/"+endpoint+"/workers", "", &list)
		return len(list.Workers) == 1 && list.Workers[0].StartedAt != nil
	})
	worker := list.Workers[0]
	readEngineFile := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(engineDir, name)) // "" if it doesn't exist
		return string(text)
	}
	var create []string
	for line := range strings.Lines(readEngineFile("calls")) {
		if words := strings.Split(strings.TrimSuffix(line, "\n"), "|"); slices.Contains(words[:min(5, len(words))], "create") {
			create = words
		}
	}
	must.Require(t, len(worker.GPUs) == 2, "the worker has the GPUs", worker.GPUs)
	args := strings.Join(create, " ")
	for _, want := range []string{
		`--gpus "device=` + worker.GPUs[0].ID + "," + worker.GPUs[1].ID + `"`, "--network bridge", "--publish 127.0.0.1::8000", "--shm-size=1g",
		"target=/runpod-volume", "source=" + filepath.Join(home, "data"), "--label gpucloud.endpoint=" + endpoint, "--label gpucloud.worker=" + worker.ID,
		"registry.example/private/model serve two words",
	} {
		must.Contain(t, args, want)
	}
	if vars := readEngineFile("env"); !strings.Contains(vars, "TOKEN=planted-token\n") || !strings.Contains(vars, "RUNPOD_AI_API_KEY=") || !strings.Contains(vars, "//host.docker.internal:") || readEngineFile("env.mode") != "600\n" {
		t.Errorf("the variables, mode %s:\n%s", readEngineFile("env.mode"), vars)
	}
	must.Contain(t, readEngineFile("login"), `"registry.example"`)
	p.interrupt()
	all, _ := os.ReadDir(filepath.Join(engineDir, "containers"))
	must.Hold(t, len(all) == 0, "containers are left:", all)
	for _, secret := range []string{"planted-password", "planted-token"} {
		must.Hold(t, !strings.Contains(readEngineFile("calls"), secret) && !strings.Contains(p.stderr.String(), secret), secret, "is in arguments or in the log")
	}
}

// podProgram records its starts on disk and volume, prints numbers, and with the argument serve is an HTTP server.
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

func startContainerPods(t *testing.T, e *containers.Engine, settings string) *containerDeployment {
	t.Helper()
	if e.Name == "podman" && settings == "" {
		settings = "network: host" // another network needs plugins and iptables
	}
	c := prepareContainers(t, e, e.Path, settings)
	c.start(t)
	return c
}

func (c *containerDeployment) podContainers(id string) []string {
	c.t.Helper()
	return c.engine.Containers(c.t, "gpucloud.pod="+id)
}

// expectNumbers expects that a pod's log has every number of the program once and in order, and returns the last one.
func (c *containerDeployment) expectNumbers(id string) (last int) {
	c.t.Helper()
	lines := c.logLinesStartingWith(id, "count")
	for i, line := range lines {
		must.Require(c.t, line == fmt.Sprint(i+1), "the log has", line, "at", i, "lines are lost or duplicated:", lines)
	}
	return len(lines)
}

// TestRealPods tests pods as containers of a real Docker and Podman.
func TestRealPods(t *testing.T) {
	acctest.LeaveToCI(t, "TestPodsFollowTheModel tests pods of processes")
	t.Parallel()
	containers.Each(t, func(t *testing.T, e *containers.Engine) {
		requireImage(t, e)
		t.Run("adoption", func(t *testing.T) { testRealAdoption(t, e) })
		if testing.Short() {
			return
		}
		t.Run("life", func(t *testing.T) { testRealPodLife(t, e) })
		t.Run("images", func(t *testing.T) { testRealPodImages(t, e) })
		t.Run("ephemeral", func(t *testing.T) { testRealEphemeralPods(t, e) })
	})
}

// A pod's container survives a kill -9 of the jobrunner, and the next start adopts it without losing
// or duplicating a line. If the container ended meanwhile, the pod ends and its log is complete.
func testRealAdoption(t *testing.T, e *containers.Engine) {
	c := startContainerPods(t, e, "options: [--env=NVIDIA_VISIBLE_DEVICES=void]"+map[string]string{"podman": ", network: host"}[e.Name])
	createCPUPod := func() string {
		return c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":%q,%s}`, handlerImage, pythonArgs(podProgram), cpu))
	}
	runningPod, endedPod := createCPUPod(), createCPUPod()
	for _, id := range []string{runningPod, endedPod} {
		c.awaitPodStatus(id, "RUNNING")
		c.waitUntil("lines", func() bool { return len(c.logLinesStartingWith(id, "count")) > 5 })
	}
	runningContainers, endedContainers := c.podContainers(runningPod), c.podContainers(endedPod)
	must.Require(t, len(runningContainers) == 1 && len(endedContainers) == 1, "containers", runningContainers, endedContainers)
	c.kill()
	e.Output(t, "stop", "--time", "0", endedContainers[0])
	countLogLines := func() int { return strings.Count(e.Output(t, "logs", runningContainers[0]), "\n") }
	atKill := countLogLines()
	c.waitUntil("lines that the next start must find", func() bool { return countLogLines() > atKill })
	c.start(t)
	p := c.awaitPodStatus(runningPod, "RUNNING")
	must.Hold(t, p.Runtime != nil, "the adopted pod has no runtime:", p)
	after := c.podContainers(runningPod)
	must.Hold(t, len(after) == 1 && after[0] == runningContainers[0], "the container was", runningContainers, "and is", after)
	c.awaitLogLine(runningPod, "?source=system&tail=5000", "adopted the pod's container, which had kept running", nil)
	last := c.expectNumbers(runningPod)
	c.waitUntil("further lines", func() bool { return c.expectNumbers(runningPod) > last+5 })
	var v1 struct{ LastStatusChange string }
	c.call(http.MethodGet, "/v1/pods/"+runningPod, "", &v1)
	must.Hold(t, strings.HasPrefix(v1.LastStatusChange, "Adopted: "), "its last status change is", v1.LastStatusChange)
	p = c.awaitPodStatus(endedPod, "ERROR")
	must.Hold(t, p.Reason != nil && strings.Contains(*p.Reason, "exit status 137"), "the ended pod is", p)
	c.waitUntil("the removal", func() bool { return len(c.podContainers(endedPod)) == 0 })
	c.expectNumbers(endedPod)

	// A stop of the jobrunner stops its pods, and the next start starts them.
	c.interrupt()
	must.Equal(t, c.podContainers(runningPod), nil, "containers are left")
	c.start(t)
	c.awaitPodStatus(runningPod, "RUNNING")
	c.awaitLogLine(runningPod, "?source=system&tail=5000", "starts the pod again", nil)
	c.performAction(runningPod, "terminate")
	c.waitUntil("the removal", func() bool { return len(c.podContainers(runningPod)) == 0 })
	c.interrupt()
}

// A container has the pod's arguments, variables, volume and ports. A start renews its disk, not its volume.
func testRealPodLife(t *testing.T, e *containers.Engine) {
	settings := "network: host" // podman needs plugins and iptables for another network
	if e.Name == "docker" {
		settings = "network: " + e.Network(t)
	}
	c := startContainerPods(t, e, settings)
	id := c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":%q,"gpu":{"id":"NVIDIA L4"},"env":{"COLOR":"red"},"ports":["8080/http"],"mounts":{"persistent":{"size":10,"path":"/volume"}}}`,
		handlerImage, pythonArgs(podProgram)+" serve"))
	c.awaitReason(id, "no GPU was found")
	c.performAction(id, "terminate")
	// Without GPUs and with a network volume, a pod runs.
	volume := c.createVolume()
	id = c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":%q,%s,"env":{"COLOR":"red"},"ports":["8080/http"],"mounts":{"network":[{"volumeId":%q,"path":"/volume"}]}}`,
		handlerImage, pythonArgs(podProgram)+" serve", cpu, volume))
	p := c.awaitPodStatus(id, "RUNNING")
	c.awaitLogLine(id, "", "disk 1 volume 1 red", nil)
	must.Require(t, len(p.Runtime.Ports) == 1 && p.Runtime.Ports[0].Public != 0 && (e.Name != "podman" || p.Runtime.Ports[0].Public == 8080), "the pod's runtime is", p.Runtime)
	url := fmt.Sprintf("http://%s:%d/starts", p.Runtime.Ports[0].IP, p.Runtime.Ports[0].Public)
	c.waitForAnswer(url, "start\n")
	for n, action := range []string{"restart", "stop"} {
		before := c.podContainers(id)
		c.performAction(id, action)
		if action == "stop" {
			c.waitUntil("the removal", func() bool { return len(c.podContainers(id)) == 0 })
			c.performAction(id, "start")
		}
		c.awaitLogLine(id, "", fmt.Sprintf("disk 1 volume %d red", n+2), nil)
		c.waitUntil("another container", func() bool { now := c.podContainers(id); return len(now) == 1 && now[0] != before[0] })
	}
	writeFile(t, filepath.Join(c.home, "data", "volumes", volume, "exit"), "0")
	c.awaitPodStatus(id, "EXITED")
	c.waitUntil("the removal", func() bool { return len(c.podContainers(id)) == 0 })
	c.interrupt()
}

// A pod whose image can't be pulled waits with the reason, without a password. The right registry auth lets it run.
func testRealPodImages(t *testing.T, e *containers.Engine) {
	registry := containers.StartRegistry(t)
	source := "team/private-pod-" + e.Name + ":1"
	buildImage(t, e, source, "contained", nil)
	private := registry.Push(t, e, source, "pods/"+e.Name+":1")
	e.Output(t, "rmi", source)
	c := startContainerPods(t, e, "")
	createSleeper := func(image string) (id string) {
		return c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":"python3 -c 'import time; time.sleep(1000)'",%s}`, image, cpu))
	}
	c.awaitReason(createSleeper("127.0.0.1:1/team/absent"), "the registry 127.0.0.1:1 can't be reached")
	id := createSleeper(private)
	c.awaitReason(id, "wants a login")
	auth := c.createRegistryAuth("right", containers.Username, containers.Password)
	c.call(http.MethodPatch, "/v2/pods/"+id, `{"registry":"`+auth+`"}`, nil)
	c.awaitPodStatus(id, "RUNNING")
	must.ErrorContains(t, c.tryCall(http.MethodDelete, "/v2/registries/"+auth, "", nil), "is in use")
	_, text := c.get("/v2/pods")
	must.Hold(t, !strings.Contains(text, containers.Password), "the list of pods has the password:", text)
	podOfAbsentProgram := createSleeper(handlerImage)
	c.call(http.MethodPatch, "/v2/pods/"+podOfAbsentProgram, `{"args":"absent-program"}`, nil)
	c.awaitReason(podOfAbsentProgram, "absent-program")
	c.interrupt()
}

// If an ephemeral jobrunner was killed, the next one of the same user removes the containers of its pods.
func testRealEphemeralPods(t *testing.T, e *containers.Engine) {
	c := prepareContainers(t, e, e.Path, "network: host")
	c.startEphemeral(t)
	id := c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":"python3 -c 'import time; time.sleep(1000)'",%s}`, handlerImage, cpu))
	c.awaitPodStatus(id, "RUNNING")
	all := c.podContainers(id)
	must.Require(t, len(all) == 1, "containers:", all)
	c.kill()
	c.startEphemeral(t)
	must.Equal(t, c.podContainers(id), nil, "containers are left")
	c.interrupt()
}

// engineWithoutGPUs is an engine that drops GPU options, so that tests can simulate GPUs.
const engineWithoutGPUs = `#!/bin/sh
for word; do
	shift
	case "$word" in
	--gpus) skip=1; continue ;;
	--device) device=1; continue ;;
	esac
	[ -n "$skip" ] && { skip=; continue; }
	[ -n "$device" ] && { device=; case "$word" in nvidia.com/*) continue ;; esac; set -- "$@" --device; }
	set -- "$@" "$word"
done
exec %s "$@"
`

// startContainerClusters starts a deployment whose clusters are containers of an engine.
func startContainerClusters(t *testing.T, e *containers.Engine, settings string, gpus int, args ...string) *containerDeployment {
	t.Helper()
	engine := filepath.Join(t.TempDir(), e.Name)
	writeFile(t, engine, fmt.Sprintf(engineWithoutGPUs, e.Path))
	must.Succeed(t, os.Chmod(engine, 0o700)) //nolint:gosec // an executable file
	c := prepareContainers(t, e, engine, settings)
	writeFile(t, c.gpuFile(), fmt.Sprintf("gpus: [{type: NVIDIA L4, count: %d}]\n", gpus))
	c.start(t, append([]string{"--simulate-gpus=" + c.gpuFile()}, args...)...)
	return c
}

func (c *containerDeployment) createGreetingCluster(name, image string, pods int) string {
	c.t.Helper()
	return c.createCluster(name, image, pods, 1, fmt.Sprintf(`,"args":%q,"env":{"COLOR":%q}`, pythonArgs(clusterProgram), name))
}

func (c *containerDeployment) networksOf(label string) []string {
	c.t.Helper()
	return strings.Fields(c.engine.Output(c.t, "network", "ls", "--filter", "label="+label, "--format", "{{.Name}}"))
}

// TestRealClusters tests clusters of containers with a real Docker and Podman.
func TestRealClusters(t *testing.T) {
	acctest.LeaveToCI(t, "TestPodsFollowTheModel tests clusters of processes")
	t.Parallel()
	containers.Each(t, func(t *testing.T, e *containers.Engine) {
		requireImage(t, e)
		t.Run("own network", func(t *testing.T) { testRealClusterNetwork(t, e) })
		t.Run("host network", func(t *testing.T) { testRealClusterOnHost(t, e) })
	})
}

// The containers of a cluster have addresses in its own network. The next jobrunner adopts both after a kill -9,
// and a deletion removes them, even if it was interrupted.
func testRealClusterNetwork(t *testing.T, e *containers.Engine) {
	if e.Name == "podman" {
		t.Skip("each command of the tests' podman has separate mounts and doesn't see networks of other commands")
	}
	e.Network(t) // skips the test without a container network
	c := startContainerClusters(t, e, "", 4)
	red, blue := c.createGreetingCluster("red", handlerImage, 2), c.createGreetingCluster("blue", handlerImage, 2)
	blocks := map[string]bool{}
	for name, id := range map[string]string{"red": red, "blue": blue} {
		cluster := c.awaitClusterStatus(id, "RUNNING")
		members := c.members(id)
		variables := c.awaitGreetings(members, name, 1)
		must.Require(t, cluster.Network != nil && strings.HasPrefix(cluster.Network.CIDR, "10.65.") && !blocks[cluster.Network.CIDR], "the cluster is", cluster)
		blocks[cluster.Network.CIDR] = true
		start := strings.TrimSuffix(cluster.Network.CIDR, "0/24")
		for rank, m := range members {
			ip := fmt.Sprint(start, rank+2)
			want := []string{fmt.Sprint(rank), "2", "1", "2", ip, start + "2", "29400"}
			must.Hold(t, slices.Equal(variables[rank], want) && m.Cluster.IP == ip && !m.GlobalNetworking.Enabled, "the member", rank, "has the variables", variables[rank], "want", want, "and is", m.Cluster)
		}
	}
	label := "gpucloud.cluster="
	networks := c.networksOf(label + red)
	must.Require(t, len(networks) == 1, "networks", networks)
	before := c.getCluster(red)
	containersBefore := c.podContainers(c.members(red)[1].ID)
	c.kill()
	c.start(t, "--simulate-gpus="+c.gpuFile())
	after := c.awaitClusterStatus(red, "RUNNING")
	must.Hold(t, *after.Network == *before.Network && slices.Equal(c.podContainers(c.members(red)[1].ID), containersBefore), "the cluster was", before, "and is", after)
	// The kill likely comes before the removal of the network.
	removedMembers := c.members(blue)
	c.call(http.MethodDelete, "/v2/clusters/"+blue, "", nil)
	c.kill()
	c.start(t, "--simulate-gpus="+c.gpuFile())
	c.waitUntil("the removal", func() bool {
		return len(c.networksOf(label+blue)) == 0 && len(c.podContainers(removedMembers[0].ID)) == 0 && len(c.podContainers(removedMembers[1].ID)) == 0
	})
	c.call(http.MethodDelete, "/v2/clusters/"+red, "", nil)
	c.waitUntil("the removal", func() bool { return len(c.networksOf(label+red)) == 0 })
	// A stopped jobrunner leaves no network. After its next start the addresses are the same.
	green := c.createGreetingCluster("green", handlerImage, 3)
	before = c.awaitClusterStatus(green, "RUNNING")
	c.interrupt()
	must.Equal(t, c.networksOf("gpucloud.cluster"), nil, "a stopped jobrunner left the networks")
	c.start(t, "--simulate-gpus="+c.gpuFile())
	after = c.awaitClusterStatus(green, "RUNNING")
	must.Hold(t, *after.Network == *before.Network, "the network was", before.Network, "and is", after.Network)
	c.awaitGreetings(c.members(green), "green", 2)
	c.interrupt()
}

// Containers in the host network share its loopback address, like processes.
func testRealClusterOnHost(t *testing.T, e *containers.Engine) {
	c := startContainerClusters(t, e, "network: host", 2)
	id := c.createGreetingCluster("red", handlerImage, 2)
	cluster := c.awaitClusterStatus(id, "RUNNING")
	c.awaitGreetings(c.members(id), "red", 1)
	must.Hold(t, cluster.Network != nil && cluster.Network.CIDR == "127.0.0.0/8", "the cluster is", cluster)
	c.call(http.MethodDelete, "/v2/clusters/"+id, "", nil)
	c.interrupt()
}

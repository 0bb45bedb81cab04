//go:build unix

package main_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

type clusterFacts struct {
	ID, Name, Type, DataCenterID string
	Pods                         struct {
		Total    int
		ByStatus map[string]int
	}
	Network *struct{ CIDR string }
	Primary *struct{ PodID, Status, SSHEndpoint string }
}

// clusterProgram runs in each pod of a cluster. The primary answers greetings; each pod logs what it receives.
const clusterProgram = `import os, socket, sys, time
def env(name): return os.environ[name]
print("member " + " ".join(env(name) for name in ["NODE_RANK", "NUM_NODES", "NUM_TRAINERS", "WORLD_SIZE", "NODE_ADDR", "MASTER_ADDR", "MASTER_PORT"]), flush=True)
assert env("PRIMARY_ADDR") == env("MASTER_ADDR") and env("PRIMARY_PORT") == env("MASTER_PORT")
assert env("HOST_NODE_ADDR") == env("MASTER_ADDR") + ":" + env("MASTER_PORT")
primary = (env("MASTER_ADDR"), int(env("MASTER_PORT")))
if env("NODE_RANK") == "0":
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((env("NODE_ADDR"), primary[1]))
    server.listen()
    for _ in range(int(env("NUM_NODES")) - 1):
        peer, _ = server.accept()
        rank = peer.makefile().readline().strip()
        peer.sendall(("welcome %s of %s\n" % (rank, env("COLOR"))).encode())
        print("heard " + rank, flush=True)
else:
    while True:
        try:
            peer = socket.create_connection(primary)
            break
        except OSError:
            time.sleep(0.02)
    peer.sendall((env("NODE_RANK") + "\n").encode())
    print("heard " + peer.makefile().readline().strip(), flush=True)
while not os.path.exists(os.path.join(os.environ.get("GPUCLOUD_VOLUME", "/volume"), "exit")):
    time.sleep(0.02)
`

// startL4Deployment starts a deployment on a machine with simulated L4 GPUs.
func startL4Deployment(t *testing.T, gpus int) *testDeployment {
	t.Helper()
	h := preparePods(t)
	writeFile(t, h.gpuFile(), fmt.Sprintf("gpus: [{type: NVIDIA L4, count: %d}]\n", gpus))
	h.start(t, "--simulate-gpus="+h.gpuFile())
	return h
}

func (h *testDeployment) gpuFile() string { return filepath.Join(h.home, "gpus.yaml") }

// createCluster creates a cluster with L4s and returns its id.
func (h *testDeployment) createCluster(name, image string, pods, gpus int, members string) string {
	h.t.Helper()
	return h.createObject("/v2/clusters", fmt.Sprintf(`{"name":%q,"type":"TRAINING","image":%q,"compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":%d,"podCount":%d}%s}`, name, image, gpus, pods, members))
}

func (h *testDeployment) getCluster(id string) (c clusterFacts) {
	h.t.Helper()
	h.call(http.MethodGet, "/v2/clusters/"+id, "", &c)
	return c
}

// members returns the pods of a cluster in the order of their ranks.
func (h *testDeployment) members(id string) []podFacts {
	h.t.Helper()
	var list struct{ Pods []podFacts }
	h.call(http.MethodGet, "/v2/clusters/"+id+"/pods", "", &list)
	return list.Pods
}

func (h *testDeployment) awaitClusterStatus(id, status string) (c clusterFacts) {
	h.t.Helper()
	defer func() {
		if h.t.Failed() {
			_, text := h.get("/v2/clusters/" + id + "/pods")
			h.t.Log(text)
		}
	}()
	h.waitUntil(status+" of the cluster "+id, func() bool { c = h.getCluster(id); return c.Pods.ByStatus[status] == c.Pods.Total })
	return c
}

// logLinesStartingWith returns the lines of a pod's log that start with a word, without the word.
func (h *testDeployment) logLinesStartingWith(id, word string) (lines []string) {
	text, _ := os.ReadFile(filepath.Join(h.home, "data", "pods", id, "log.jsonl")) // empty before the first line
	for line := range strings.Lines(string(text)) {
		if _, text, ok := strings.Cut(line, `"x":"`+word+" "); ok {
			text, _, _ = strings.Cut(text, `"`)
			lines = append(lines, text)
		}
	}
	return lines
}

// awaitGreetings waits until each other member has n answers. It returns the variables that each member printed last.
func (h *testDeployment) awaitGreetings(members []podFacts, color string, n int) (variables [][]string) {
	h.t.Helper()
	defer func() {
		for _, m := range members {
			if h.t.Failed() {
				text, _ := os.ReadFile(filepath.Join(h.home, "data", "pods", m.ID, "log.jsonl"))
				h.t.Logf("the log of member %d:\n%s", m.Cluster.Rank, text)
			}
		}
	}()
	wantGreetings := map[string]int{}
	for rank, m := range members[1:] {
		wantGreetings[fmt.Sprint(rank+1)] = n
		want := slices.Repeat([]string{fmt.Sprintf("welcome %d of %s", rank+1, color)}, n)
		h.waitUntil("the primary's answer", func() bool { return slices.Equal(h.logLinesStartingWith(m.ID, "heard"), want) })
	}
	h.waitUntil("the greetings", func() bool {
		greetings := map[string]int{}
		for _, rank := range h.logLinesStartingWith(members[0].ID, "heard") {
			greetings[rank]++
		}
		return maps.Equal(greetings, wantGreetings)
	})
	for _, m := range members {
		lines := h.logLinesStartingWith(m.ID, "member")
		variables = append(variables, strings.Fields(lines[len(lines)-1]))
	}
	return variables
}

// The pods of a cluster know their ranks and reach the primary, even after a kill -9 and next to another cluster.
func TestClusterExchangesMessages(t *testing.T) {
	acctest.LeaveToCI(t, "package pod tests a cluster's addresses")
	t.Parallel()
	h := startL4Deployment(t, 8)
	id := h.createCluster("c", "team/member", 2, 2, `,"env":{"COLOR":"red","NODE_RANK":"7"},"ports":["22/tcp"],"dataCenterIds":["EU-RO-1"]`)
	otherCluster := h.createCluster("o", "team/member", 3, 1, `,"env":{"COLOR":"blue"}`)
	for n := range 2 {
		c := h.awaitClusterStatus(id, "RUNNING")
		h.awaitClusterStatus(otherCluster, "RUNNING")
		members := h.members(id)
		variables := h.awaitGreetings(members, "red", n+1)
		h.awaitGreetings(h.members(otherCluster), "blue", n+1)
		for rank, m := range members {
			want := []string{fmt.Sprint(rank), "2", "2", "4", m.Cluster.IP, members[0].Cluster.IP, variables[0][6]}
			must.Hold(t, slices.Equal(variables[rank], want) && m.Cluster.ID == id && m.Cluster.Rank == rank && m.Cluster.IP == "127.0.0.1" &&
				!m.GlobalNetworking.Enabled && len(m.Actions) == 0, "the member", rank, "knows", variables[rank], "want", want, m)
			must.Hold(t, m.Env["NODE_RANK"] == "7" && m.Env["WORLD_SIZE"] == "", "a response shows the variables of the cluster:", m.Env)
		}
		must.Hold(t, c.Network != nil && c.Network.CIDR == "127.0.0.0/8" && c.Primary != nil && c.Primary.PodID == members[0].ID &&
			c.Primary.Status == "RUNNING" && c.DataCenterID == "EU-RO-1", "the cluster is", c)
		ssh := members[0].SSH.Direct
		must.Hold(t, ssh != nil && ssh.Command == "ssh root@127.0.0.1 -p "+strings.TrimPrefix(c.Primary.SSHEndpoint, "127.0.0.1:"), "the primary's SSH is", ssh, "and the cluster's", c.Primary)
		if n == 0 {
			h.kill()
			h.start(t, "--simulate-gpus="+h.gpuFile())
		}
	}
	h.call(http.MethodDelete, "/v2/clusters/"+id, "", nil)
	h.awaitPodStatus(h.createPod(`{"name":"p","image":"team/pod","gpu":{"id":"NVIDIA L4","count":5}}`), "RUNNING")
	c := h.getCluster(otherCluster)
	must.Hold(t, c.Pods.ByStatus["RUNNING"] == 3, "the other cluster is", c)
}

// Either all pods of a cluster get their GPUs, or none. A waiting cluster reports the reason.
func TestClustersArePlacedWhole(t *testing.T) {
	t.Parallel()
	h := startL4Deployment(t, 4)
	singlePod := h.createPod(`{"name":"p","image":"team/pod","gpu":{"id":"NVIDIA L4","count":1}}`)
	h.awaitPodStatus(singlePod, "RUNNING")
	id := h.createCluster("c", "team/pod", 2, 2, "")
	largeCluster := h.createCluster("l", "team/pod", 3, 2, "")
	awaitReasons := func(id, part string) {
		t.Helper()
		h.waitUntil("the reason "+part, func() bool {
			return !slices.ContainsFunc(h.members(id), func(m podFacts) bool {
				return m.Status != "PROVISIONING" || m.Reason == nil || !strings.Contains(*m.Reason, part)
			})
		})
	}
	awaitReasons(id, "a cluster asks for 4 GPUs of one type, and only 3 × NVIDIA L4 are free")
	awaitReasons(largeCluster, "a cluster asks for 6 GPUs of one type, and this machine has 4 × NVIDIA L4")
	c := h.getCluster(id)
	must.Hold(t, c.Primary == nil && c.Network == nil && c.DataCenterID == "", "a waiting cluster is shown as placed:", c)
	// Free GPUs are reserved for the cluster, which has waited longer.
	latePod := h.createPod(`{"name":"late","image":"team/pod","gpu":{"id":"NVIDIA L4","count":2}}`)
	h.awaitReason(latePod, "reserved")
	h.performAction(singlePod, "stop")
	h.awaitClusterStatus(id, "RUNNING")
	h.call(http.MethodDelete, "/v2/clusters/"+id, "", nil)
	h.awaitPodStatus(latePod, "RUNNING")
	// A deletion removes a waiting cluster from the queue.
	waitingCluster := h.createCluster("s", "team/pod", 2, 2, "")
	awaitReasons(waitingCluster, "a cluster asks for 4 GPUs")
	h.call(http.MethodDelete, "/v2/clusters/"+waitingCluster, "", nil)
	h.performAction(singlePod, "start")
	h.awaitPodStatus(singlePod, "RUNNING")
	awaitReasons(largeCluster, "a cluster asks for 6 GPUs")
}

// A member that ends by itself releases its GPUs and isn't restarted. The others continue.
func TestClusterMembersEnd(t *testing.T) {
	t.Parallel()
	h := startL4Deployment(t, 4)
	id := h.createCluster("c", "team/pod", 3, 1, `,"mounts":{"persistent":{"size":10,"path":"/w"}}`)
	h.awaitClusterStatus(id, "RUNNING")
	members := h.members(id)
	for rank, exitStatus := range []string{"0", "7"} {
		h.waitUntil("its start", func() bool { return len(h.recordedStarts(members[rank].ID)) == 1 })
		writeFile(t, filepath.Join(h.volumeOf(members[rank].ID), "exit"), exitStatus)
	}
	h.awaitPodStatus(members[0].ID, "EXITED")
	h.awaitPodStatus(members[1].ID, "ERROR")
	want := map[string]int{"EXITED": 1, "ERROR": 1, "RUNNING": 1}
	singlePod := h.createPod(`{"name":"p","image":"team/pod","gpu":{"id":"NVIDIA L4","count":3}}`)
	h.awaitPodStatus(singlePod, "RUNNING")
	h.kill()
	h.start(t, "--simulate-gpus="+h.gpuFile())
	h.awaitPodStatus(singlePod, "RUNNING")
	h.awaitPodStatus(members[2].ID, "RUNNING")
	c := h.getCluster(id)
	must.Hold(t, maps.Equal(c.Pods.ByStatus, want) && c.Primary != nil && c.Primary.Status == "EXITED" && c.Primary.SSHEndpoint == "", "the cluster is", c)
	for _, m := range members {
		must.ErrorContains(t, h.tryCall(http.MethodPost, "/v2/pods/"+m.ID+"/action", `{"action":"start"}`, nil), "409")
	}
	h.call(http.MethodDelete, "/v2/clusters/"+id, "", nil)
	h.waitUntil("the removal of their folders", func() bool {
		return !slices.ContainsFunc(members, func(m podFacts) bool {
			_, err := os.Stat(filepath.Dir(h.volumeOf(m.ID)))
			return !os.IsNotExist(err)
		})
	})
}

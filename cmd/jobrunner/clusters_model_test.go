//go:build linux

package main_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// clusterModel is what a cluster, or a pod of its own, is to be.
type clusterModel struct {
	id, name string
	gpus     int      // of each pod
	single   bool     // a pod of its own
	pods     []string // ids, by rank
	ended    []string // by rank, the status after its program ended by itself, "" for none
	ran      bool     // was seen as placed
}

// clusterModels is a deployment, and what is to be there.
type clusterModels struct {
	*history
	all []*clusterModel
}

const clusterGPUs = 6

// TestClustersFollowTheModel does random operations on clusters and pods of a real
// jobrunner, kill -9 included, and compares what there is with a model after each: members,
// states, names, GPUs and processes. A cluster is placed whole or not at all.
func TestClustersFollowTheModel(t *testing.T) {
	steps := 50
	if testing.Short() {
		steps = 20
	}
	eachHistory(t, 6, func(t *testing.T, h *history) {
		h.handlers = newClusters(t, clusterGPUs)
		h.gpus = h.machine()
		m := &clusterModels{history: h}
		for range steps {
			m.step()
			m.settle(m.difference)
		}
	})
}

// step does one operation.
func (m *clusterModels) step() {
	m.t.Helper()
	if len(m.all) == 0 || len(m.all) < 5 && m.random.IntN(3) == 0 {
		m.create()
		return
	}
	c := m.all[m.random.IntN(len(m.all))]
	switch m.random.IntN(6) {
	case 0:
		m.restartDeployment()
	case 1, 2:
		m.remove(c)
	case 3:
		if !c.single {
			c.name = fmt.Sprintf("renamed%d", len(m.steps))
			m.note("%s is renamed %s", c.id, c.name)
			m.call(http.MethodPatch, "/v2/clusters/"+c.id, `{"name":"`+c.name+`"}`, nil)
		}
	case 4:
		m.end(c)
	case 5:
		if !c.single {
			pod := c.pods[m.random.IntN(len(c.pods))]
			for _, call := range [][3]string{{http.MethodPatch, "", `{"name":"x"}`}, {http.MethodDelete, "", ""}, {http.MethodPost, "/action", `{"action":"stop"}`}} {
				if err := m.try(call[0], "/v2/pods/"+pod+call[1], call[2], nil); err == nil || !strings.Contains(err.Error(), "409") {
					m.t.Fatalf("%s of a member: %v", call[0], err)
				}
			}
		}
	}
}

func (m *clusterModels) create() {
	m.t.Helper()
	c := &clusterModel{name: fmt.Sprintf("c%d", len(m.steps)), gpus: 1 + m.random.IntN(2), single: m.random.IntN(4) == 0}
	const mounts = `,"mounts":{"persistent":{"size":10,"path":"/w"}}`
	if c.single {
		c.id = m.pod(fmt.Sprintf(`{"name":%q,"image":"team/pod","gpu":{"id":"NVIDIA L4","count":%d}%s}`, c.name, c.gpus, mounts))
		c.pods = []string{c.id}
	} else {
		c.id = m.cluster(c.name, "team/pod", 2+m.random.IntN(3), c.gpus, mounts)
		for rank, member := range m.members(c.id) {
			if member.Cluster == nil || member.Cluster.Rank != rank {
				m.t.Fatalf("the pod %d of %s has another rank: %+v", rank, c.name, member.Cluster)
			}
			c.pods = append(c.pods, member.ID)
		}
	}
	c.ended = make([]string, len(c.pods))
	m.note("%s is made: id %s, %d × %d GPUs, a pod of its own %v", c.name, c.id, len(c.pods), c.gpus, c.single)
	m.all = append(m.all, c)
}

func (m *clusterModels) remove(c *clusterModel) {
	m.t.Helper()
	m.note("%s is deleted", c.name)
	path := "/v2/clusters/"
	if c.single {
		path = "/v2/pods/"
	}
	m.call(http.MethodDelete, path+c.id, "", nil)
	m.all = slices.DeleteFunc(m.all, func(other *clusterModel) bool { return other == c })
	m.until("the removal of the folders", func() bool {
		return !slices.ContainsFunc(c.pods, func(id string) bool {
			_, err := os.Stat(filepath.Dir(m.volumeOf(id)))
			return !os.IsNotExist(err)
		})
	})
}

// end has the program of a pod that runs end by itself.
func (m *clusterModels) end(c *clusterModel) {
	m.t.Helper()
	rank := m.random.IntN(len(c.pods))
	if m.podNow(c.pods[rank]).Status != "RUNNING" {
		return
	}
	status := m.random.IntN(2) * 7
	c.ended[rank] = map[int]string{0: "EXITED", 7: "ERROR"}[status]
	m.note("the program of the rank %d of %s ends with %d", rank, c.name, status)
	put(m.t, filepath.Join(m.volumeOf(c.pods[rank]), "exit"), strconv.Itoa(status))
}

func (m *clusterModels) restartDeployment() {
	m.t.Helper()
	for _, c := range m.all {
		c.ran = false // it is placed again
	}
	m.history.restartDeployment()
}

// difference is what is not as the model says yet, "" for nothing.
func (m *clusterModels) difference() string {
	var list struct{ Pods []memberFacts }
	m.call(http.MethodGet, "/v2/pods?includeClusterPods=true", "", &list)
	var clusters struct{ Clusters []clusterFacts }
	m.call(http.MethodGet, "/v2/clusters", "", &clusters)
	byID, shown := map[string]memberFacts{}, map[string]clusterFacts{}
	for _, p := range list.Pods {
		byID[p.ID] = p
	}
	for _, c := range clusters.Clusters {
		shown[c.ID] = c
	}
	pods, used, running := 0, 0, map[string]bool{}
	for _, c := range m.all {
		pods += len(c.pods)
		counts := map[string]int{}
		for rank, id := range c.pods {
			now := byID[id]
			counts[now.Status]++
			if now.Status == "RUNNING" {
				running[id] = true
				used += c.gpus
			}
			switch want := c.ended[rank]; {
			case want != "" && now.Status != want:
				return fmt.Sprintf("the rank %d of %s is %s, want %s", rank, c.name, now.Status, want)
			case want == "" && now.Status != "RUNNING" && now.Status != "PROVISIONING":
				return fmt.Sprintf("the rank %d of %s is %s (%v)", rank, c.name, now.Status, now.Reason)
			case now.Status == "PROVISIONING" && now.Reason == nil:
				return c.name + " does not say why it waits"
			}
		}
		if counts["RUNNING"] > 0 && counts["PROVISIONING"] > 0 {
			return fmt.Sprintf("%s is placed in part: %v", c.name, counts)
		}
		if c.ran = c.ran || counts["RUNNING"] > 0; c.ran && counts["PROVISIONING"] > 0 {
			m.t.Fatalf("%s was placed and waits again: %v", c.name, counts)
		}
		if one := shown[c.id]; !c.single && (one.Name != c.name || one.Pods.Total != len(c.pods) || !maps.Equal(one.Pods.ByStatus, counts)) {
			return fmt.Sprintf("%s is shown as %+v, and its pods are %v", c.name, one, counts)
		}
	}
	if len(list.Pods) != pods {
		return fmt.Sprintf("%d pods, want %d", len(list.Pods), pods)
	}
	if used > clusterGPUs {
		m.t.Fatalf("pods have %d GPUs of %d", used, clusterGPUs)
	}
	return cmp.Or(m.waitDifference(byID, clusterGPUs-used), m.processDifference(running, m.rankDifference))
}

// waitDifference is that all that waits would fit.
func (m *clusterModels) waitDifference(byID map[string]memberFacts, free int) string {
	waiting, fits := 0, 0
	for _, c := range m.all {
		need := 0
		for _, id := range c.pods {
			if byID[id].Status == "PROVISIONING" {
				need += c.gpus
			}
		}
		if need == 0 || need > clusterGPUs {
			continue
		}
		if waiting++; need <= free {
			fits++
		}
	}
	if waiting > 0 && fits == waiting {
		return fmt.Sprintf("%d wait, and %d GPUs are free", waiting, free)
	}
	return ""
}

// rankDifference tells whether a process has another rank than its pod.
func (m *clusterModels) rankDifference(id string, env map[string]string) string {
	for _, c := range m.all {
		rank := slices.Index(c.pods, id)
		want := strconv.Itoa(rank)
		if c.single {
			want = ""
		}
		if rank >= 0 && env["NODE_RANK"] != want {
			m.t.Fatalf("the pod %d of %s has NODE_RANK %q", rank, c.name, env["NODE_RANK"])
		}
	}
	return ""
}

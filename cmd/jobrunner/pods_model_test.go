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

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

type podModel struct {
	id, name, color string
	gpus            int // 0: a CPU pod
	imageExists     bool
	shouldRun       bool
	exitStatus      string // if its program ended by itself, or ""
	locked          bool
	hasMark         bool // the volume has the file mark, which the test writes
	volumeFolder    string
	onNetwork       bool          // the volume is a network volume
	cluster         *clusterModel // nil: a pod of its own
}

type clusterModel struct {
	id, name string
	pods     []*podModel // by rank
	placed   bool        // has been seen with its GPUs
}

// podModels is a deployment with the expected state of its pods and clusters.
type podModels struct {
	*history
	pods     []*podModel // includes members of clusters
	clusters []*clusterModel
}

const machineGPUs = 6

// TestPodsFollowTheModel performs random operations and kills on pods and clusters of a real jobrunner, and
// compares states, GPUs, processes and volumes with a model.
func TestPodsFollowTheModel(t *testing.T) {
	steps := 80
	if testing.Short() {
		steps = 40
	}
	eachHistory(t, 6, func(t *testing.T, h *history) {
		h.testDeployment = startL4Deployment(t, machineGPUs)
		h.gpus = h.gpuFile()
		m := &podModels{history: h}
		for range steps {
			m.step()
			m.waitForEquality()
		}
	})
}

func (m *podModels) step() {
	m.t.Helper()
	switch n := m.random.IntN(8); {
	case len(m.pods) == 0 || len(m.pods) < 8 && n < 2:
		if m.random.IntN(2) == 0 {
			m.create()
		} else {
			m.createCluster()
		}
		return
	case n == 2:
		for _, c := range m.clusters {
			c.placed = false // it needs GPUs again
		}
		m.restartDeployment()
		return
	}
	p := m.pods[m.random.IntN(len(m.pods))]
	if p.cluster != nil {
		m.stepOfCluster(p)
		return
	}
	facts := m.getPod(p.id)
	switch m.random.IntN(8) {
	case 0, 1, 2:
		m.actOn(p, facts.Status, []string{"start", "stop", "restart", "terminate"}[m.random.IntN(4)])
	case 3, 4:
		m.actOnV1(p, facts.Status, []string{"start", "stop", "restart", "reset"}[m.random.IntN(4)])
	case 5:
		p.locked = !p.locked
		m.logf("%s: locked %v", p.name, p.locked)
		m.call(http.MethodPatch, "/v2/pods/"+p.id, fmt.Sprintf(`{"locked":%v}`, p.locked), nil)
	case 6:
		color := []string{"red", "green", "blue"}[m.random.IntN(3)]
		wantRefusal := p.locked && p.shouldRun && color != p.color
		m.logf("%s (%s): color %s, refused %v", p.name, facts.Status, color, wantRefusal)
		err := m.tryCall(http.MethodPatch, "/v2/pods/"+p.id, `{"env":{"COLOR":"`+color+`"}}`, nil)
		m.expectOutcome(err, wantRefusal, "409")
		if !wantRefusal {
			p.color = color
		}
	case 7:
		m.end(p)
	}
}

// end lets the program of a running pod end by itself.
func (m *podModels) end(p *podModel) {
	m.t.Helper()
	if m.getPod(p.id).Status != "RUNNING" {
		return
	}
	p.shouldRun, p.exitStatus = false, strconv.Itoa(m.random.IntN(2)*7)
	m.logf("%s: its program ends with %s", p.name, p.exitStatus)
	writeFile(m.t, filepath.Join(p.volumeFolder, "exit"), p.exitStatus)
}

// expectOutcome ends the test unless a call was refused with the status, or succeeded if no refusal is wanted.
func (m *podModels) expectOutcome(err error, wantRefusal bool, status string) {
	m.t.Helper()
	must.Require(m.t, (err != nil) == wantRefusal && (!wantRefusal || strings.Contains(err.Error(), status)),
		"want a refusal:", wantRefusal, "with", status, "got", err)
}

func (m *podModels) create() {
	m.t.Helper()
	p := &podModel{name: fmt.Sprintf("pod%d", len(m.steps)), color: "red", shouldRun: true, imageExists: m.random.IntN(5) > 0, gpus: m.random.IntN(3)}
	image := "team/pod"
	if !p.imageExists {
		image = "team/unknown"
	}
	compute, mounts := fmt.Sprintf(`"gpu":{"id":"NVIDIA L4","count":%d}`, p.gpus), `{"persistent":{"size":10,"path":"/w"}}`
	if p.gpus == 0 {
		volume := m.createVolume()
		p.onNetwork, p.volumeFolder = true, filepath.Join(m.home, "data", "volumes", volume)
		compute, mounts = cpu, `{"network":[{"volumeId":"`+volume+`","path":"/w"}]}`
	}
	p.id = m.createPod(fmt.Sprintf(`{"name":%q,"image":%q,%s,"mounts":%s,"env":{"COLOR":"red"}}`, p.name, image, compute, mounts))
	if !p.onNetwork {
		p.volumeFolder = m.volumeOf(p.id)
	}
	m.logf("%s created: %d GPUs, image %s, id %s", p.name, p.gpus, image, p.id)
	m.pods = append(m.pods, p)
}

func (m *podModels) createCluster() {
	m.t.Helper()
	c := &clusterModel{name: fmt.Sprintf("c%d", len(m.steps))}
	gpus := 1 + m.random.IntN(2)
	c.id = m.testDeployment.createCluster(c.name, "team/pod", 2+m.random.IntN(3), gpus, `,"mounts":{"persistent":{"size":10,"path":"/w"}},"env":{"COLOR":"red"}`)
	for rank, member := range m.members(c.id) {
		must.Require(m.t, member.Cluster != nil && member.Cluster.Rank == rank,
			"pod", rank, "of", c.name, "has another rank:", member.Cluster)
		c.pods = append(c.pods, &podModel{
			id: member.ID, name: fmt.Sprintf("%s-%d", c.name, rank), color: "red", gpus: gpus, imageExists: true, shouldRun: true, volumeFolder: m.volumeOf(member.ID), cluster: c,
		})
	}
	m.logf("%s created: id %s, %d × %d GPUs", c.name, c.id, len(c.pods), gpus)
	m.pods, m.clusters = append(m.pods, c.pods...), append(m.clusters, c)
}

// stepOfCluster performs a random operation on a cluster or one of its pods.
func (m *podModels) stepOfCluster(p *podModel) {
	m.t.Helper()
	c := p.cluster
	switch m.random.IntN(5) {
	case 0, 1:
		m.logf("%s is deleted", c.name)
		m.call(http.MethodDelete, "/v2/clusters/"+c.id, "", nil)
		m.clusters = slices.DeleteFunc(m.clusters, func(other *clusterModel) bool { return other == c })
		for _, member := range c.pods {
			m.apply(member, "terminate")
		}
	case 2:
		c.name = fmt.Sprintf("renamed%d", len(m.steps))
		m.logf("%s is renamed %s", c.id, c.name)
		m.call(http.MethodPatch, "/v2/clusters/"+c.id, `{"name":"`+c.name+`"}`, nil)
	case 3:
		m.end(p)
	case 4:
		for _, call := range [][3]string{{http.MethodPatch, "", `{"name":"x"}`}, {http.MethodDelete, "", ""}, {http.MethodPost, "/action", `{"action":"stop"}`}} {
			m.expectOutcome(m.tryCall(call[0], "/v2/pods/"+p.id+call[1], call[2], nil), true, "409")
		}
	}
}

// actionsByStatus are a pod's actions that the v2 document allows.
var actionsByStatus = map[string][]string{
	"PROVISIONING": {"stop", "terminate"}, "STARTING": {"stop", "terminate"}, "RUNNING": {"stop", "restart", "terminate"},
	"EXITED": {"start", "terminate"}, "ERROR": {"start", "terminate"},
}

func (m *podModels) actOn(p *podModel, status, action string) {
	m.t.Helper()
	wantRefusal := !slices.Contains(actionsByStatus[status], action) || p.locked && action == "stop"
	m.logf("%s (%s): %s, refused %v", p.name, status, action, wantRefusal)
	m.expectOutcome(m.tryCall(http.MethodPost, "/v2/pods/"+p.id+"/action", `{"action":"`+action+`"}`, nil), wantRefusal, "409")
	if !wantRefusal {
		m.apply(p, action)
	}
}

func (m *podModels) actOnV1(p *podModel, status, action string) {
	m.t.Helper()
	active := status != "EXITED" && status != "ERROR"
	noEffect := action == "start" && active || action == "stop" && !active
	wantRefusal := action == "restart" && status != "RUNNING" || p.locked && (action == "reset" || action == "stop" && active)
	m.logf("%s (%s): %s in version 1, refused %v", p.name, status, action, wantRefusal)
	m.expectOutcome(m.tryCall(http.MethodPost, "/v1/pods/"+p.id+"/"+action, "", nil), wantRefusal, "400")
	if !wantRefusal && !noEffect {
		m.apply(p, action)
	}
}

func (m *podModels) apply(p *podModel, action string) {
	switch action {
	case "start":
		p.shouldRun, p.exitStatus = true, ""
	case "stop":
		p.shouldRun, p.exitStatus = false, ""
	case "reset":
		p.exitStatus = ""
		p.hasMark = p.hasMark && p.onNetwork
	case "terminate":
		m.pods = slices.DeleteFunc(m.pods, func(other *podModel) bool { return other == p })
		m.waitUntil("the removal of its folder", func() bool {
			_, err := os.Stat(filepath.Join(m.home, "data", "pods", p.id))
			return os.IsNotExist(err)
		})
		if _, err := os.Stat(filepath.Join(p.volumeFolder, "mark")); p.onNetwork && p.hasMark && err != nil {
			m.t.Fatalf("the deletion of %s deleted the folder of its network volume: %v", p.name, err)
		}
	}
}

func (m *podModels) waitForEquality() {
	m.t.Helper()
	m.history.waitForEquality(m.difference)
	for _, p := range m.pods {
		_, err := os.Stat(filepath.Join(p.volumeFolder, "mark"))
		must.Require(m.t, (err == nil) == p.hasMark, "the volume of", p.name, "has the mark:", err == nil, "want", p.hasMark)
		if p.shouldRun && !p.hasMark && m.getPod(p.id).Status == "RUNNING" {
			writeFile(m.t, filepath.Join(p.volumeFolder, "mark"), "")
			p.hasMark = true
		}
	}
}

// difference returns a difference between the deployment and the model, or "".
func (m *podModels) difference() string {
	var list struct{ Pods []podFacts }
	m.call(http.MethodGet, "/v2/pods?includeClusterPods=true", "", &list)
	if len(list.Pods) != len(m.pods) {
		return fmt.Sprintf("%d pods, want %d", len(list.Pods), len(m.pods))
	}
	running, usedGPUs := map[string]bool{}, 0
	byID := map[string]podFacts{}
	for _, p := range list.Pods {
		byID[p.ID] = p
		if p.Status == "RUNNING" {
			running[p.ID] = true
			if p.GPU != nil {
				usedGPUs += p.GPU.Count
			}
		}
	}
	must.Require(m.t, usedGPUs <= machineGPUs, "pods have", usedGPUs, "GPUs of", machineGPUs)
	clusterNeeds := map[*clusterModel]int{} // GPUs of waiting members
	var neededGPUs []int                    // GPUs of each waiting pod or cluster
	for _, p := range m.pods {
		facts := byID[p.id]
		if text := m.podDifference(p, facts); text != "" {
			return text
		}
		switch {
		case facts.Status != "PROVISIONING" || !p.imageExists:
		case p.cluster != nil:
			clusterNeeds[p.cluster] += p.gpus
		default:
			neededGPUs = append(neededGPUs, p.gpus)
		}
	}
	neededGPUs = slices.DeleteFunc(slices.AppendSeq(neededGPUs, maps.Values(clusterNeeds)), func(need int) bool { return need > machineGPUs })
	if len(neededGPUs) > 0 && slices.Max(neededGPUs) <= machineGPUs-usedGPUs {
		return fmt.Sprintf("pods or clusters wait for %v GPUs, but %d of %d are free", neededGPUs, machineGPUs-usedGPUs, machineGPUs)
	}
	return cmp.Or(m.clusterDifference(byID), m.processDifference(running, m.environmentDifference))
}

// podDifference returns a difference between a pod and its model, or "".
func (m *podModels) podDifference(p *podModel, facts podFacts) string {
	want := []string{"EXITED"}
	switch {
	case p.shouldRun && !p.imageExists:
		want = []string{"PROVISIONING"}
	case p.shouldRun && p.gpus > 0:
		want = []string{"RUNNING", "PROVISIONING"}
	case p.shouldRun:
		want = []string{"RUNNING"}
	case p.exitStatus == "7":
		want = []string{"ERROR"}
	}
	if !slices.Contains(want, facts.Status) || facts.Locked != p.locked || facts.Env["COLOR"] != p.color {
		return fmt.Sprintf("%s is %s (%v), locked %v, %v; want %v, %v, %s", p.name, facts.Status, facts.Reason, facts.Locked, facts.Env, want, p.locked, p.color)
	}
	allowed := slices.DeleteFunc(slices.Clone(actionsByStatus[facts.Status]), func(a string) bool { return a == "stop" && p.locked })
	if slices.Sort(facts.Actions); p.cluster == nil && !slices.Equal(facts.Actions, slices.Sorted(slices.Values(allowed))) {
		m.t.Fatalf("%s is %s and allows %v, want %v", p.name, facts.Status, facts.Actions, allowed)
	}
	if facts.Status == "PROVISIONING" && facts.Reason == nil {
		return p.name + " does not say why it waits"
	}
	return ""
}

func (m *podModels) clusterDifference(byID map[string]podFacts) string {
	var list struct{ Clusters []clusterFacts }
	m.call(http.MethodGet, "/v2/clusters", "", &list)
	clusters := map[string]clusterFacts{}
	for _, c := range list.Clusters {
		clusters[c.ID] = c
	}
	for _, c := range m.clusters {
		counts := map[string]int{}
		for _, p := range c.pods {
			counts[byID[p.id].Status]++
		}
		if counts["RUNNING"] > 0 && counts["PROVISIONING"] > 0 {
			return fmt.Sprintf("%s is placed in part: %v", c.name, counts)
		}
		c.placed = c.placed || counts["RUNNING"] > 0
		must.Require(m.t, !c.placed || counts["PROVISIONING"] <= 0, c.name, "was placed and waits again:", counts)
		if p := clusters[c.id].Primary; c.placed && (p == nil || p.Status != byID[c.pods[0].id].Status || p.Status != "RUNNING" && p.SSHEndpoint != "") {
			return fmt.Sprintf("the primary of %s is shown as %+v", c.name, p)
		}
		if facts := clusters[c.id]; facts.Name != c.name || facts.Pods.Total != len(c.pods) || !maps.Equal(facts.Pods.ByStatus, counts) {
			return fmt.Sprintf("%s is shown as %+v, and its pods are %v", c.name, facts, counts)
		}
	}
	return ""
}

// environmentDifference returns a difference in color or rank between a process and its pod, or "".
func (m *podModels) environmentDifference(id string, env map[string]string) string {
	i := slices.IndexFunc(m.pods, func(p *podModel) bool { return p.id == id })
	p, rank := m.pods[i], ""
	if p.cluster != nil {
		rank = strconv.Itoa(slices.Index(p.cluster.pods, p))
	}
	must.Require(m.t, env["NODE_RANK"] == rank, p.name, "has NODE_RANK", env["NODE_RANK"], "want", rank)
	if env["COLOR"] != p.color {
		return fmt.Sprintf("%s runs in %s, want %s", p.name, env["COLOR"], p.color)
	}
	return ""
}

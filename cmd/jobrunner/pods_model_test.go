//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// podModel is what a pod is to be.
type podModel struct {
	id, name, color string
	gpus            int // 0: a CPU pod
	known           bool
	wanted          bool
	ended           string // the status with which its program ended last, "" for another end
	locked          bool
	marked          bool   // the volume has the test's file
	volume          string // the folder
	network         bool   // the volume is a network volume
}

// podModels is a deployment, and what its pods are to be.
type podModels struct {
	*history
	pods []*podModel
}

const machineGPUs = 2

// TestPodsFollowTheModel does random operations on pods of a real jobrunner, kill -9
// included, and compares what there is with a model after each: states, actions, GPUs,
// processes and volumes.
func TestPodsFollowTheModel(t *testing.T) {
	steps := 60
	if testing.Short() {
		steps = 30
	}
	eachHistory(t, 6, func(t *testing.T, h *history) {
		h.handlers = newPods(t, "--simulate-gpus=l4x2")
		h.gpus = "l4x2"
		m := &podModels{history: h}
		for range steps {
			m.step()
			m.settle()
		}
	})
}

// step does one operation.
func (m *podModels) step() {
	m.t.Helper()
	if len(m.pods) == 0 || len(m.pods) < 5 && m.random.IntN(4) == 0 {
		m.create()
		return
	}
	if m.random.IntN(8) == 0 {
		m.restartDeployment()
		return
	}
	p := m.pods[m.random.IntN(len(m.pods))]
	now := m.podNow(p.id)
	switch m.random.IntN(8) {
	case 0, 1, 2:
		m.actOn(p, now.Status, []string{"start", "stop", "restart", "terminate"}[m.random.IntN(4)])
	case 3, 4:
		m.actOnV1(p, now.Status, []string{"start", "stop", "restart", "reset"}[m.random.IntN(4)])
	case 5:
		p.locked = !p.locked
		m.note("%s: locked %v", p.name, p.locked)
		m.call(http.MethodPatch, "/v2/pods/"+p.id, fmt.Sprintf(`{"locked":%v}`, p.locked), nil)
	case 6:
		color := []string{"red", "green", "blue"}[m.random.IntN(3)]
		refused := p.locked && p.wanted && color != p.color
		m.note("%s (%s): color %s, refused %v", p.name, now.Status, color, refused)
		err := m.try(http.MethodPatch, "/v2/pods/"+p.id, `{"env":{"COLOR":"`+color+`"}}`, nil)
		m.expect(err, refused, "409")
		if !refused {
			p.color = color
		}
	case 7:
		if now.Status == "RUNNING" && p.volume != "" {
			p.ended = strconv.Itoa(m.random.IntN(2) * 7)
			p.wanted = false
			m.note("%s: its program ends with %s", p.name, p.ended)
			put(m.t, filepath.Join(p.volume, "exit"), p.ended)
		}
	}
}

func (m *podModels) expect(err error, refused bool, status string) {
	m.t.Helper()
	if (err != nil) != refused || refused && !strings.Contains(err.Error(), status) {
		m.t.Fatalf("refused is to be %v with %s, got %v", refused, status, err)
	}
}

func (m *podModels) create() {
	m.t.Helper()
	p := &podModel{name: fmt.Sprintf("pod%d", len(m.steps)), color: "red", wanted: true, known: m.random.IntN(5) > 0, gpus: m.random.IntN(3)}
	image := "team/pod"
	if !p.known {
		image = "team/unknown"
	}
	compute, mounts := fmt.Sprintf(`"gpu":{"id":"NVIDIA L4","count":%d}`, p.gpus), `{"persistent":{"size":10,"path":"/w"}}`
	if p.gpus == 0 {
		var v struct{ ID string }
		m.call(http.MethodPost, "/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"EU-RO-1"}`, &v)
		p.network, p.volume = true, filepath.Join(m.home, "data", "volumes", v.ID)
		compute, mounts = cpu, `{"network":[{"volumeId":"`+v.ID+`","path":"/w"}]}`
	}
	p.id = m.pod(fmt.Sprintf(`{"name":%q,"image":%q,%s,"mounts":%s,"env":{"COLOR":"red"}}`, p.name, image, compute, mounts))
	if !p.network {
		p.volume = m.volumeOf(p.id)
	}
	m.note("%s is made: %d GPUs, image %s, id %s", p.name, p.gpus, image, p.id)
	m.pods = append(m.pods, p)
}

// podAllows is what the v2 document allows by state.
var podAllows = map[string][]string{
	"PROVISIONING": {"stop", "terminate"}, "STARTING": {"stop", "terminate"}, "RUNNING": {"stop", "restart", "terminate"},
	"EXITED": {"start", "terminate"}, "ERROR": {"start", "terminate"},
}

func (m *podModels) actOn(p *podModel, status, action string) {
	m.t.Helper()
	refused := !slices.Contains(podAllows[status], action) || p.locked && action == "stop"
	m.note("%s (%s): %s, refused %v", p.name, status, action, refused)
	m.expect(m.try(http.MethodPost, "/v2/pods/"+p.id+"/action", `{"action":"`+action+`"}`, nil), refused, "409")
	if !refused {
		m.did(p, action)
	}
}

func (m *podModels) actOnV1(p *podModel, status, action string) {
	m.t.Helper()
	active := status != "EXITED" && status != "ERROR"
	nothing := action == "start" && active || action == "stop" && !active
	refused := action == "restart" && status != "RUNNING" || p.locked && (action == "reset" || action == "stop" && active)
	m.note("%s (%s): %s in version 1, refused %v", p.name, status, action, refused)
	m.expect(m.try(http.MethodPost, "/v1/pods/"+p.id+"/"+action, "", nil), refused, "400")
	if !refused && !nothing {
		m.did(p, action)
	}
}

// did notes what an action makes of a pod.
func (m *podModels) did(p *podModel, action string) {
	switch action {
	case "start":
		p.wanted, p.ended = true, ""
	case "stop":
		p.wanted, p.ended = false, ""
	case "reset":
		p.ended = ""
		p.marked = p.marked && p.network
	case "terminate":
		m.pods = slices.DeleteFunc(m.pods, func(other *podModel) bool { return other == p })
		m.until("the removal of its folder", func() bool {
			_, err := os.Stat(filepath.Join(m.home, "data", "pods", p.id))
			return os.IsNotExist(err)
		})
		if _, err := os.Stat(filepath.Join(p.volume, "mark")); p.network && p.marked && err != nil {
			m.t.Fatalf("the network volume of %s is gone with it: %v", p.name, err)
		}
	}
}

// settle waits until what there is is what the model says.
func (m *podModels) settle() {
	m.t.Helper()
	m.history.settle(m.difference)
	for _, p := range m.pods {
		if _, err := os.Stat(filepath.Join(p.volume, "mark")); (err == nil) != p.marked {
			m.t.Fatalf("the volume of %s has the mark: %v, want %v", p.name, err == nil, p.marked)
		}
		if p.wanted && !p.marked && m.podNow(p.id).Status == "RUNNING" {
			put(m.t, filepath.Join(p.volume, "mark"), "")
			p.marked = true
		}
	}
}

// difference is what is not as the model says yet, "" for nothing.
func (m *podModels) difference() string {
	var list struct{ Pods []podFacts }
	m.call(http.MethodGet, "/v2/pods", "", &list)
	if len(list.Pods) != len(m.pods) {
		return fmt.Sprintf("%d pods, want %d", len(list.Pods), len(m.pods))
	}
	running, used, waiting, fits := map[string]bool{}, 0, 0, 0
	byID := map[string]podFacts{}
	for _, p := range list.Pods {
		byID[p.ID] = p
		if p.Status == "RUNNING" {
			running[p.ID] = true
			if p.GPU != nil {
				used += p.GPU.Count
			}
		}
	}
	for _, p := range m.pods {
		now := byID[p.id]
		want := []string{"EXITED"}
		switch {
		case p.wanted && !p.known:
			want = []string{"PROVISIONING"}
		case p.wanted && p.gpus > 0:
			want = []string{"RUNNING", "PROVISIONING"}
		case p.wanted:
			want = []string{"RUNNING"}
		case p.ended == "7":
			want = []string{"ERROR"}
		}
		if !slices.Contains(want, now.Status) || now.Locked != p.locked || now.Env["COLOR"] != p.color {
			return fmt.Sprintf("%s is %s (%v), locked %v, %v; want %v, %v, %s", p.name, now.Status, now.Reason, now.Locked, now.Env, want, p.locked, p.color)
		}
		allowed := slices.DeleteFunc(slices.Clone(podAllows[now.Status]), func(a string) bool { return a == "stop" && p.locked })
		if slices.Sort(now.Actions); !slices.Equal(now.Actions, slices.Sorted(slices.Values(allowed))) {
			m.t.Fatalf("%s is %s and allows %v, want %v", p.name, now.Status, now.Actions, allowed)
		}
		switch {
		case now.Status == "PROVISIONING" && now.Reason == nil:
			return p.name + " does not say why it waits"
		case now.Status == "PROVISIONING" && p.known:
			waiting++
			if p.gpus <= machineGPUs-used {
				fits++
			}
		}
	}
	if used > machineGPUs {
		m.t.Fatalf("pods have %d GPUs of %d", used, machineGPUs)
	}
	if waiting > 0 && fits == waiting {
		return fmt.Sprintf("%d pods wait for GPUs, and %d of %d are free", waiting, machineGPUs-used, machineGPUs)
	}
	return m.processDifference(running, m.colorDifference)
}

// colorDifference tells whether a process has another color than its pod.
func (m *podModels) colorDifference(id string, env map[string]string) string {
	for _, p := range m.pods {
		if p.id == id && env["COLOR"] != p.color {
			return fmt.Sprintf("%s runs in %s, want %s", p.name, env["COLOR"], p.color)
		}
	}
	return ""
}

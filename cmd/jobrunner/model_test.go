//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// history is a deployment on which a test performs random operations, and their log.
type history struct {
	*testDeployment
	random *rand.Rand
	gpus   string // value of --simulate-gpus
	steps  []string
}

// eachHistory runs histories of random operations concurrently. A failing one prints its seed.
func eachHistory(t *testing.T, count int, run func(t *testing.T, h *history)) {
	t.Parallel()
	if testing.Short() {
		count = 1
	}
	for range count {
		seed := rand.Uint64() >> 32
		if text := os.Getenv("GPUCLOUD_TEST_SEED"); text != "" {
			seed, _ = strconv.ParseUint(text, 10, 64)
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			h := &history{random: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // seeded, so that a failure can be repeated
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("GPUCLOUD_TEST_SEED=%d\n%s", seed, strings.Join(h.steps, "\n"))
				}
			})
			run(t, h)
		})
	}
}

func (h *history) logf(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

func (h *history) restartDeployment() {
	h.t.Helper()
	if h.random.IntN(3) == 0 {
		h.logf("the jobrunner is stopped")
		h.interrupt()
	} else {
		h.logf("the jobrunner is killed")
		h.kill()
	}
	h.start(h.t, "--simulate-gpus="+h.gpus)
}

// waitForEquality waits until difference returns "".
func (h *history) waitForEquality(difference func() string) {
	h.t.Helper()
	lastDifference := "nothing was compared"
	defer func() {
		if h.t.Failed() {
			h.logf("%s", lastDifference)
			h.t.Log(lastDifference)
		}
	}()
	h.waitUntil("the model's state", func() bool { lastDifference = difference(); return lastDifference == "" })
}

// processDifference compares the running pods with their processes, and returns "" or a difference. Each pod
// must have one process, and no two pods may have the same GPU. envDifference returns a fault of
// the environment of a pod's process, or "".
func (h *history) processDifference(running map[string]bool, envDifference func(id string, env map[string]string) string) string {
	withProcess, devices := map[string]bool{}, map[string]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, _ := os.ReadFile(file) // fails if the process has ended
		if !strings.Contains(string(text), filepath.Join(h.dir, "pod.sh")) {
			continue
		}
		env := map[string]string{}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		for variable := range strings.SplitSeq(string(environ), "\x00") {
			name, value, _ := strings.Cut(variable, "=")
			env[name] = value
		}
		id := env["RUNPOD_POD_ID"]
		if id == "" || withProcess[id] || !running[id] {
			return fmt.Sprintf("the process %s of the pod %q: the pod runs: %v, it has another process: %v", file, id, running[id], withProcess[id])
		}
		withProcess[id] = true
		for device := range strings.SplitSeq(env["CUDA_VISIBLE_DEVICES"], ",") {
			otherID := devices[device]
			must.Require(h.t, device == "" || otherID == "", "the pods", otherID, id, "have the same GPU", device)
			devices[device] = id
		}
		if difference := envDifference(id, env); difference != "" {
			return difference
		}
	}
	if !maps.Equal(withProcess, running) {
		return fmt.Sprintf("the pods %v have processes, and the pods %v run", withProcess, running)
	}
	return ""
}

// objectKind is a kind of object that only the management API changes.
type objectKind struct {
	path, list string
	create     string // body, with %d for a unique number
	update     string // such a body, or "" if the kind has no update
}

var objectKinds = []objectKind{
	{"/v2/templates", "templates", `{"name":"t%[1]d","image":"i:%[1]d","env":{"N":"%[1]d"}}`, `{"image":"j:%[1]d","disk":%[1]d,"public":true}`},
	{"/v2/network-volumes", "networkVolumes", `{"name":"v%[1]d","size":10,"dataCenter":"EU-RO-1"}`, `{"size":%[1]d}`},
	{"/v2/registries", "registries", `{"name":"r%[1]d","username":"u","password":"p"}`, ""},
	{"/v2/registries/delegations", "delegations", `{"name":"d%[1]d","resource":"arn:aws:ecr:us-east-2:123456789012:repository/team/app%[1]d"}`, ""},
	{"/v2/serverless", "endpoints", `{"name":"e%[1]d","image":"i","workers":{"min":0,"max":0},"cpu":[{"id":"cpu3c","vcpuCount":2}]}`, `{"name":"f%[1]d","timeout":%[1]d000}`},
}

// objectModels is a deployment with its expected objects by path and id.
type objectModels struct {
	*history
	objects map[string]map[string]map[string]any
	keys    []any // expected SSH keys
	n       int   // number of the current operation
}

// TestObjectsFollowTheModel performs random operations and kills on the objects of a real jobrunner, except pods
// and clusters, and compares them with a model.
func TestObjectsFollowTheModel(t *testing.T) {
	steps := 150
	if testing.Short() {
		steps = 40
	}
	eachHistory(t, 6, func(t *testing.T, h *history) {
		h.testDeployment = startProcessPods(t, "--simulate-gpus=l4x2")
		h.gpus = "l4x2"
		m := &objectModels{history: h, objects: map[string]map[string]map[string]any{}, keys: []any{}, n: 100}
		for _, k := range objectKinds {
			m.objects[k.path] = map[string]map[string]any{}
		}
		for range steps {
			m.step()
			m.compare()
		}
	})
}

func (m *objectModels) step() {
	m.t.Helper()
	m.n++
	k := objectKinds[m.random.IntN(len(objectKinds))]
	objects := m.objects[k.path]
	ids := slices.Sorted(maps.Keys(objects))
	switch op := m.random.IntN(8); {
	case op == 0:
		m.restartDeployment()
	case op == 1:
		m.keys = []any{}
		for i := range m.random.IntN(3) {
			m.keys = append(m.keys, fmt.Sprintf("ssh-ed25519 AAAA%d%d", m.n, i))
		}
		body, _ := json.Marshal(map[string]any{"keys": m.keys})
		m.logf("the SSH keys are %s", body)
		m.call(http.MethodPut, "/v2/account/ssh-keys", string(body), nil)
	case op < 5 || len(ids) == 0:
		body := fmt.Sprintf(k.create, m.n)
		created := map[string]any{}
		m.call(http.MethodPost, k.path, body, &created)
		m.logf("%s: %s is made of %s", k.path, created["id"], body)
		objects[fmt.Sprint(created["id"])] = created
	case op < 7 && k.update != "":
		id, body := ids[m.random.IntN(len(ids))], fmt.Sprintf(k.update, m.n)
		m.logf("%s: %s is changed to %s", k.path, id, body)
		m.call(http.MethodPatch, k.path+"/"+id, body, nil)
		changes := map[string]any{}
		must.Succeed(m.t, json.Unmarshal([]byte(body), &changes))
		maps.Copy(objects[id], changes)
	default:
		id := ids[m.random.IntN(len(ids))]
		m.logf("%s: %s is deleted", k.path, id)
		m.call(http.MethodDelete, k.path+"/"+id, "", nil)
		delete(objects, id)
	}
}

// withoutAddress removes the deployment's address, which a restart changes.
func withoutAddress(object map[string]any) map[string]any {
	rest := maps.Clone(object)
	maps.DeleteFunc(rest, func(name string, _ any) bool { return name == "requestUrls" })
	return rest
}

func (m *objectModels) compare() {
	m.t.Helper()
	for _, k := range objectKinds {
		var page map[string]json.RawMessage
		m.call(http.MethodGet, k.path, "", &page)
		var list []map[string]any
		err := json.Unmarshal(page[k.list], &list)
		must.Require(m.t, err == nil && len(list) == len(m.objects[k.path]), k.path, "has", len(list), "objects, want", len(m.objects[k.path]), err)
		for _, object := range list {
			want := m.objects[k.path][fmt.Sprint(object["id"])]
			got, want := withoutAddress(object), withoutAddress(want)
			must.Require(m.t, reflect.DeepEqual(got, want), k.path, "shows", got, "want", want)
		}
	}
	var keys map[string]any
	m.call(http.MethodGet, "/v2/account/ssh-keys", "", &keys)
	must.Require(m.t, reflect.DeepEqual(keys["keys"], any(m.keys)), "the SSH keys are", keys["keys"], "want", m.keys)
}

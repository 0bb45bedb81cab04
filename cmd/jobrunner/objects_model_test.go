//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

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
	n       int   // number of the operation
}

// TestObjectsFollowTheModel performs random operations, with kill -9, on templates, network volumes,
// registry auths, delegations, endpoints and SSH keys of a real jobrunner, and compares the objects
// with a model after each.
func TestObjectsFollowTheModel(t *testing.T) {
	steps := 150
	if testing.Short() {
		steps = 40
	}
	eachHistory(t, 6, func(t *testing.T, h *history) {
		h.handlers = newPods(t, "--simulate-gpus=l4x2")
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
		m.note("the SSH keys are %s", body)
		m.call(http.MethodPut, "/v2/account/ssh-keys", string(body), nil)
	case op < 5 || len(ids) == 0:
		body := fmt.Sprintf(k.create, m.n)
		shown := map[string]any{}
		m.call(http.MethodPost, k.path, body, &shown)
		m.note("%s: %s is made of %s", k.path, shown["id"], body)
		objects[fmt.Sprint(shown["id"])] = shown
	case op < 7 && k.update != "":
		id, body := ids[m.random.IntN(len(ids))], fmt.Sprintf(k.update, m.n)
		m.note("%s: %s is changed to %s", k.path, id, body)
		m.call(http.MethodPatch, k.path+"/"+id, body, nil)
		changes := map[string]any{}
		must.Succeed(m.t, json.Unmarshal([]byte(body), &changes))
		maps.Copy(objects[id], changes)
	default:
		id := ids[m.random.IntN(len(ids))]
		m.note("%s: %s is deleted", k.path, id)
		m.call(http.MethodDelete, k.path+"/"+id, "", nil)
		delete(objects, id)
	}
}

// withoutAddress removes the deployment's address, which a restart changes.
func withoutAddress(object map[string]any) map[string]any {
	out := maps.Clone(object)
	maps.DeleteFunc(out, func(name string, _ any) bool { return name == "requestUrls" })
	return out
}

func (m *objectModels) compare() {
	m.t.Helper()
	for _, k := range objectKinds {
		var page map[string]json.RawMessage
		m.call(http.MethodGet, k.path, "", &page)
		var list []map[string]any
		if err := json.Unmarshal(page[k.list], &list); err != nil || len(list) != len(m.objects[k.path]) {
			m.t.Fatalf("%s has %d objects, want %d: %v", k.path, len(list), len(m.objects[k.path]), err)
		}
		for _, shown := range list {
			want := m.objects[k.path][fmt.Sprint(shown["id"])]
			if got, want := withoutAddress(shown), withoutAddress(want); !reflect.DeepEqual(got, want) {
				m.t.Fatalf("%s shows\n%v\nwant\n%v", k.path, got, want)
			}
		}
	}
	var keys map[string]any
	if m.call(http.MethodGet, "/v2/account/ssh-keys", "", &keys); !reflect.DeepEqual(keys["keys"], any(m.keys)) {
		m.t.Fatalf("the SSH keys are %v, want %v", keys["keys"], m.keys)
	}
}

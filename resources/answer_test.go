package resources_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const plantedSecret = "hunter2-planted"

// answering has, by type, the attributes of a create and the changes of an update.
var answering = map[string]struct{ create, change map[string]any }{
	"gpucloud_network_volume": {map[string]any{"size": 10, "data_center": "EU-RO-1"}, map[string]any{"size": 20}},
	"gpucloud_template": {
		map[string]any{"image": "a", "args": plantedSecret, "env": map[string]any{"A": plantedSecret}, "ports": []any{"80/http"}, "mounts": map[string]any{"persistent": map[string]any{"size": 20, "path": "/a"}}},
		map[string]any{"image": "b", "disk": 60, "args": plantedSecret + "2", "env": map[string]any{"A": plantedSecret + "2"}, "ports": []any{"81/http"}, "public": true},
	},
	"gpucloud_global_volume":       {map[string]any{}, map[string]any{"name": "renamed"}},
	"gpucloud_secret":              {map[string]any{"value_wo": plantedSecret, "value_wo_version": 1, "description": "a"}, map[string]any{"value_wo": plantedSecret + "2", "value_wo_version": 2, "description": "b"}},
	"gpucloud_registry_auth":       {map[string]any{"username": "u", "password": plantedSecret}, nil},
	"gpucloud_registry_delegation": {map[string]any{"resource": "arn:aws:ecr:us-east-2:123456789012:repository/app"}, nil},
	"gpucloud_ssh_keys":            {map[string]any{"keys": []any{annesKey}}, map[string]any{"keys": []any{annesKey + "2"}}},
	"gpucloud_endpoint": {
		map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}, "data_center_ids": []any{"EU-RO-1"}, "timeout": 60000},
		map[string]any{"workers": map[string]any{"max": 5, "idle_timeout": 9}, "scaling": map[string]any{"queue_delay": 9}, "timeout": 70000, "data_center_ids": []any{"US-TX-3"}, "name": "renamed"},
	},
	"gpucloud_pod": {
		map[string]any{"image": "builtin/echo", "gpu": map[string]any{"id": "NVIDIA L4"}, "args": plantedSecret, "env": map[string]any{"A": plantedSecret}, "ports": []any{"80/http"},
			"mounts": map[string]any{"persistent": map[string]any{"size": 20, "path": "/a"}}},
		map[string]any{"image": "builtin/conformance", "disk": 60, "args": plantedSecret + "2", "env": map[string]any{"A": plantedSecret + "2"}, "ports": []any{"81/http"}, "locked": true,
			"mounts": map[string]any{"persistent": map[string]any{"size": 30, "path": "/b"}}},
	},
	"gpucloud_cluster": {clusterConfig(map[string]any{"env": map[string]any{"A": plantedSecret}}), map[string]any{"name": "renamed"}},
}

// unreported are members whose value in an answer may differ from the sent one without a
// warning, because the answer doesn't always show the stored value.
var unreported = []string{
	"gpuTypeIds", "cloud", "cloudType", // what the scheduler chose
	"globalNetworking", "computeType", "gpuCount", "volumeInGb/create", "flashboot", "templateId", "registry", "containerRegistryAuthId", "dockerEntrypoint",
}

// If a server stores another value than the sent one, or answers an update with the old object,
// the error blames the server and not the provider. This holds for every member of every kind.
// The created object isn't tainted, and no message shows a secret.
func TestAnswerOtherThanSent(t *testing.T) {
	acctest.LeaveToCI(t, "TestEndpointTemplateDrift reads other values")
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		liar := lieTo(t, d)
		p := drive(t, d, v)
		template, _ := serverlessTemplate(t, d, p, nil)
		for typeName, c := range answering {
			t.Run(typeName, func(t *testing.T) {
				config := with(map[string]any{"name": d.Name("lie")}, c.create)
				if typeName == endpointType {
					config["template_id"] = template.Get("id")
				}
				if typeName == "gpucloud_ssh_keys" {
					delete(config, "name")
				}
				if p.Plan(typeName, tfdrive.State{}, config).Diagnostics.Err() != nil {
					return // the version doesn't have the kind
				}
				members := liar.sentMembers(func() { apply(t, p, typeName, tfdrive.State{}, config, "create") })
				for _, member := range members {
					name := member
					if config["name"] != nil {
						config = with(config, map[string]any{"name": d.Name("lie-" + member)})
					}
					planned := p.Walk().Plan(typeName, tfdrive.State{}, config)
					liar.lieAbout(member)
					state, diags := p.Apply(planned)
					if liar.lied() && !slices.Contains(unreported, name) && !slices.Contains(unreported, name+"/create") && !strings.Contains(diags.Warnings(), "The deployment answered") {
						t.Errorf("a create whose answer has another %s: %s", name, diags)
					}
					if err := diags.Err(); err != nil || !state.Exists() {
						t.Errorf("a create whose answer has another %s fails, which taints the object: %s", name, diags)
						continue
					}
					checkNoSecret(t, diags)
					if c.change != nil {
						liar.checkStale(t, p, state, with(config, c.change), typeName)
					}
					err := p.Walk().Destroy(state).Err()
					must.Hold(t, err == nil, err)
				}
			})
		}
	})
}

func checkNoSecret(t *testing.T, diags tfdrive.Diagnostics) {
	t.Helper()
	must.Hold(t, !strings.Contains(diags.String(), plantedSecret), "a message shows a secret", diags)
}

// liar is a proxy in front of a deployment. It changes a member of the next answer to a write,
// or answers an update with the unchanged object.
type liar struct {
	mu      sync.Mutex
	member  string          // the member to change in the next answer
	stale   bool            // updates are answered with the unchanged object
	done    bool            // an answer was changed
	members map[string]bool // the members of all request bodies
}

func lieTo(t *testing.T, d *acctest.Deployment) *liar {
	t.Helper()
	l := &liar{members: map[string]bool{}}
	intercept(t, d, func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if r.Method == http.MethodGet || r.Method == http.MethodDelete {
			forward.ServeHTTP(w, r)
			return
		}
		if l.stale && (r.Method == http.MethodPatch || r.Method == http.MethodPut) {
			again := r.Clone(r.Context())
			again.Method, again.Body, again.ContentLength = http.MethodGet, http.NoBody, 0
			again.Header.Del("Content-Type")
			l.done = true
			forward.ServeHTTP(w, again)
			return
		}
		var has map[string]any
		if json.Unmarshal(body, &has) == nil {
			for name := range has {
				l.members[name] = true
			}
		}
		answer := httptest.NewRecorder()
		forward.ServeHTTP(answer, r)
		var object map[string]any
		text := answer.Body.Bytes()
		if json.Unmarshal(text, &object) == nil && object[l.member] != nil {
			object[l.member], l.done = differentValue(object[l.member]), true
			text, _ = json.Marshal(object)
		}
		maps.Copy(w.Header(), answer.Header())
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(text)
	})
	return l
}

// differentValue returns another value of the same type.
func differentValue(v any) any {
	switch v := v.(type) {
	case string:
		return v + "-other"
	case float64:
		return v + 1
	case bool:
		return !v
	case []any:
		if len(v) == 0 {
			return []any{"9999/tcp"}
		}
		return v[:len(v)-1]
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			out[name] = differentValue(member)
		}
		return out
	}
	return v
}

// sentMembers returns the members that f sends.
func (l *liar) sentMembers(f func()) []string {
	clear(l.members)
	l.member = ""
	f()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.members))
}

func (l *liar) lieAbout(member string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.member, l.done = member, false
}

func (l *liar) lied() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.member, l.stale = "", false
	return l.done
}

// checkStale expects an error from an update that is answered with the old object, and the same
// update in the next plan.
func (l *liar) checkStale(t *testing.T, p *tfdrive.Provider, state tfdrive.State, config map[string]any, typeName string) {
	t.Helper()
	state, _ = p.Walk().Read(state)
	planned := p.Plan(typeName, state, config)
	if planned.Action != "update" {
		return // the plan can't see the difference
	}
	l.mu.Lock()
	l.stale, l.done = true, false
	l.mu.Unlock()
	after, diags := p.Apply(planned)
	must.Hold(t, !l.lied() || diags.Err() != nil && strings.Contains(diags.Err().Error(), "The deployment answered"), "an update that is answered with the old object", diags)
	checkNoSecret(t, diags)
	read, diags := p.Walk().Read(after)
	again := p.Plan(typeName, read, config)
	must.Hold(t, diags.Err() == nil && again.Action == "update", "the next plan is to", again.Action, again.Diagnostics)
}

// If a gateway answers a request about one object with another object, the read and the update
// fail and the state stays.
func TestResponseAboutAnotherObjectChangesNoState(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		var mine, others string
		direct := drive(t, d, v)
		intercept(t, d, func(w http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
			switch path, isMine := strings.CutSuffix(r.URL.Path, "/"+mine); {
			case isMine:
				r.URL.Path = path + "/" + others
			case r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") == 2: // so that objects are read by id
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"title":"Forbidden","status":403,"message":"no lists"}`)
				return
			}
			forward.ServeHTTP(w, r)
		})
		through := drive(t, d, v)
		template, _ := serverlessTemplate(t, d, direct, nil)
		for kind, config := range everyKind(d, template.Get("id").(string)) {
			state := apply(t, direct, kind, tfdrive.State{}, config, "create")
			other := apply(t, direct.Walk(), kind, tfdrive.State{}, with(config, map[string]any{"name": d.Name("other")}), "create")
			mine, others = state.Get("id").(string), other.Get("id").(string)
			read, diags := through.Walk().Read(state)
			err := diags.Err()
			must.Hold(t, err != nil && strings.Contains(err.Error(), `"`+others+`", not `+mine) && read.Value.Equal(state.Value), kind, "the read is", read.Value, err)
			if kind == "gpucloud_registry_auth" {
				continue // the type has no update
			}
			after, diags := through.Apply(direct.Walk().Plan(kind, state, with(config, map[string]any{"name": d.Name("renamed")})))
			err = diags.Err()
			must.Hold(t, err != nil && after.Get("id") == mine && after.Get("name") == state.Get("name"), kind, "the update is", after.Value, err)
		}
	})
}

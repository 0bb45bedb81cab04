package resources_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// lossyProxy is a proxy between provider and deployment. It drops the responses to the next POSTs.
type lossyProxy struct {
	toDrop    atomic.Int64 // number of responses
	sendTwice atomic.Bool  // sends these POSTs twice
}

func newLossyProxy(t *testing.T, d *acctest.Deployment) *lossyProxy {
	t.Helper()
	proxy := &lossyProxy{}
	d.Intercept(t, func(w http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
		var faults []*wirefault.Fault
		if r.Method == http.MethodPost && proxy.toDrop.Add(-1) >= 0 {
			lost := &wirefault.Fault{Drop: "after"}
			if proxy.sendTwice.Load() {
				lost.Again = &wirefault.Edit{}
			}
			faults = append(faults, lost)
		}
		wirefault.Handler(forward, wirefault.Deployment{}, faults...).ServeHTTP(w, r)
	})
	return proxy
}

// configsOfKinds returns a configuration of each of four kinds.
func configsOfKinds(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider) map[string]map[string]any {
	t.Helper()
	return map[string]map[string]any{
		"gpucloud_template": newConfig(t, p, "gpucloud_template", d.Name("tt"), map[string]any{"env": map[string]any{"A": "1"}, "ports": []any{"80/http", "22/tcp"}}),
		volumeType:          newConfig(t, p, volumeType, d.Name("v")), "gpucloud_registry_auth": newConfig(t, p, "gpucloud_registry_auth", d.Name("r")),
		endpointType: newConfig(t, p, endpointType, d.Name("e"), map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}, "workers": map[string]any{"min": 0, "max": 2}}),
	}
}

// If the response to a create is lost, the object is in the state and the next plan is empty. An
// object with secrets is created again, because no response shows whether they were stored.
func TestLostCreateEndsInTheState(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		proxy := newLossyProxy(t, d)
		p := drive(t, d, v)
		for typeName, config := range configsOfKinds(t, d, p) {
			proxy.toDrop.Store(1)
			writes, expected := d.Writes(), int64(1)
			if typeName == "gpucloud_registry_auth" {
				expected = 3 // POST, DELETE, POST
			}
			apply(t, p.Reconfigure(), typeName, tfdrive.State{}, config, "create")
			must.Equal(t, d.Writes()-writes, expected, "writes for", typeName)
		}
		must.Equal(t, len(must.Do(d.Client(t, v).RegistryAuths.List(t.Context()))(t)), 1, "registry auths")
	})
}

// If a lost create leaves two equal objects, the error and next plan name both and how to import them.
func TestAmbiguousLostCreate(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		proxy := newLossyProxy(t, d)
		p := drive(t, d, v)
		config := newConfig(t, p, volumeType, d.Name("v"))
		proxy.toDrop.Store(1)
		proxy.sendTwice.Store(true)
		state, diags := p.Apply(p.Plan("gpucloud_network_volume", tfdrive.State{}, config))
		must.Require(t, !state.Exists() && diags.Err() != nil, "the create chose an object", state.Value, diags)
		created, err := d.Client(t, v).NetworkVolumes.List(t.Context())
		must.Require(t, err == nil && len(created) == 2, "expected two volumes, got", len(created), err)
		planned := p.Reconfigure().Plan("gpucloud_network_volume", tfdrive.State{}, config)
		for _, volume := range created {
			for _, text := range []string{diags.Err().Error(), planned.Diagnostics.Warnings()} {
				must.Contain(t, text, "terraform import gpucloud_network_volume.NAME "+volume.ID)
			}
		}
	})
}

// A provider killed between a POST and its response leaves an object in no state. The next plan names its import
// command. With unique names the apply fails and doesn't adopt the object; an import does.
func TestObjectOfAKilledRun(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		killed, p := drive(t, d, v), drive(t, d, v)
		for typeName, config := range configsOfKinds(t, d, p) {
			orphan := tfdrive.Do(killed.Reconfigure().Apply(killed.Plan(typeName, tfdrive.State{}, config)))(t)
			id := orphan.Get("id").(string)
			command := "terraform import " + typeName + ".NAME " + id
			planned := expectPlan(t, p.Reconfigure(), typeName, tfdrive.State{}, config, "create", command)
			if unique := typeName == "gpucloud_template" || typeName == "gpucloud_registry_auth"; unique {
				state, diags := p.Apply(planned)
				err := diags.Err()
				must.Hold(t, err != nil && !state.Exists() && strings.Contains(err.Error(), command), "expected an error with", command, "and no", typeName, "got", state.Value, diags)
			}
			must.Hold(t, importState(t, p.Reconfigure(), typeName, id).Exists(), typeName, "the import finds nothing")
			must.Succeed(t, killed.Reconfigure().Destroy(orphan).Err(), typeName)
		}
	})
}

// A list that is older than an update doesn't undo it in the state.
func TestStaleListIsNotDrift(t *testing.T) {
	d, lists := acctest.Deploy(t), &wirefault.Fault{Method: "GET", Path: "^/v2/[a-z-]+$"}
	d.Intercept(t, func(w http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
		wirefault.Handler(forward, wirefault.Deployment{}, lists).ServeHTTP(w, r)
	})
	p := drive(t, d, api.V2)
	state, config := endpointOfTemplate(t, d, p, nil, map[string]any{"scaling": map[string]any{"queue_delay": 0.7}})
	calls := d.Calls(func() { state = refresh(t, p, state) })
	must.Hold(t, calls["GET /v2/serverless"] == 1 && calls["GET /v2/serverless/"+state.Get("id").(string)] == 0, "an unchanged fraction is read by id, too", calls)
	lists.Stale = 3600
	apply(t, p, endpointType, refresh(t, p, state), withChanges(config, map[string]any{"name": "new"}), "update")
}

// An update of an object that was deleted after the plan fails and says how to create it again.
func TestUpdateOfADeletedObject(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p := drive(t, d, v)
		configs := configsOfKinds(t, d, p)
		delete(configs, "gpucloud_registry_auth") // a new name replaces it
		for typeName, config := range configs {
			state := apply(t, p, typeName, tfdrive.State{}, config, "create")
			planned := p.Plan(typeName, state, withChanges(config, map[string]any{"name": d.Name("renamed")}))
			must.Succeed(t, p.Reconfigure().Destroy(state).Err())
			must.ErrorContains(t, tfdrive.Err(p.Reconfigure().Apply(planned)), "was deleted after the plan. Plan again to create it")
		}
	})
}

// A create never adopts an object of the same name, whether made before or after the plan, even if its response was lost.
func TestCreateRejectsTakenName(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		other := drive(t, d, v)
		proxy := newLossyProxy(t, d)
		p := drive(t, d, v)
		for _, typeName := range []string{"gpucloud_template", "gpucloud_registry_auth"} {
			for what, madeAfter := range map[string]bool{"before the plan": false, "after the plan": true} {
				for _, lost := range []int64{0, 1} {
					config := newConfig(t, other, typeName, d.Name(fmt.Sprint(typeName, madeAfter, lost)))
					var planned tfdrive.PlannedChange
					if madeAfter {
						planned = p.Reconfigure().Plan(typeName, tfdrive.State{}, config)
					}
					existing := apply(t, other.Reconfigure(), typeName, tfdrive.State{}, config, "create")
					if !madeAfter {
						planned = expectPlan(t, p.Reconfigure(), typeName, tfdrive.State{}, config, "create", "terraform import "+typeName+".NAME")
					}
					proxy.toDrop.Store(lost)
					state, diags := p.Apply(planned)
					err := diags.Err()
					must.Hold(t, err != nil && !state.Exists() && strings.Contains(err.Error(), "NAME "+existing.Get("id").(string)), "expected no", typeName, "if the other is made", what, "and", lost, "responses are lost, got", state.Value, diags)
					read, diags := other.Reconfigure().Read(existing)
					must.Hold(t, diags.Err() == nil && read.Exists(), "the other", typeName, "made", what, "is gone after", lost, "lost responses", diags)
				}
			}
		}
	})
}

const plantedSecret = "hunter2-planted"

// writesOfKinds has, by type, the attributes of a create, in addition to the required ones, and the changes of an update.
var writesOfKinds = map[string]struct{ create, change map[string]any }{
	"gpucloud_network_volume": {nil, map[string]any{"size": 20}},
	"gpucloud_template": {
		map[string]any{"image": "a", "args": plantedSecret, "env": map[string]any{"A": plantedSecret}, "ports": []any{"80/http"}, "mounts": map[string]any{"persistent": map[string]any{"size": 20, "path": "/a"}}},
		map[string]any{"image": "b", "disk": 60, "args": plantedSecret + "2", "env": map[string]any{"A": plantedSecret + "2"}, "ports": []any{"81/http"}, "public": true},
	},
	"gpucloud_global_volume":       {nil, map[string]any{"name": "renamed"}},
	"gpucloud_secret":              {map[string]any{"value_wo": plantedSecret, "value_wo_version": 1, "description": "a"}, map[string]any{"value_wo": plantedSecret + "2", "value_wo_version": 2, "description": "b"}},
	"gpucloud_registry_auth":       {map[string]any{"password": plantedSecret}, nil},
	"gpucloud_registry_delegation": {nil, nil},
	"gpucloud_ssh_keys":            {nil, map[string]any{"keys": []any{annesKey + "2"}}},
	"gpucloud_endpoint": {map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}, "data_center_ids": []any{"EU-RO-1"}, "timeout": 60000},
		map[string]any{"workers": map[string]any{"max": 5, "idle_timeout": 9}, "scaling": map[string]any{"queue_delay": 9}, "timeout": 70000, "data_center_ids": []any{"US-TX-3"}, "name": "renamed"}},
	"gpucloud_pod": {
		map[string]any{"args": plantedSecret, "env": map[string]any{"A": plantedSecret}, "ports": []any{"80/http"},
			"mounts": map[string]any{"persistent": map[string]any{"size": 20, "path": "/a"}}},
		map[string]any{"image": "builtin/conformance", "disk": 60, "args": plantedSecret + "2", "env": map[string]any{"A": plantedSecret + "2"}, "ports": []any{"81/http"}, "locked": true,
			"mounts": map[string]any{"persistent": map[string]any{"size": 30, "path": "/b"}}},
	},
	"gpucloud_cluster": {map[string]any{"env": map[string]any{"A": plantedSecret}}, map[string]any{"name": "renamed"}},
}

// unreported are members whose value in responses to creates may differ without a warning.
var unreported = []string{
	"gpuTypeIds", "cloud", "cloudType", // what the scheduler chose
	"globalNetworking", "computeType", "gpuCount", "volumeInGb", "flashboot", "templateId", "registry", "containerRegistryAuthId", "dockerEntrypoint",
}

// If a create's response has another value than sent, a warning says so; if an update's has the old object, an
// error does. Both name the deployment and show no secret. unreported members are excepted.
func TestResponseOtherThanSent(t *testing.T) {
	acctest.LeaveToCI(t, "TestEndpointTemplateDrift covers responses with other values")
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		proxy := newAlteringProxy(t, d)
		sentMembers := recordMembers(t, d)
		p := drive(t, d, v)
		for typeName, c := range writesOfKinds {
			t.Run(typeName, func(t *testing.T) {
				config := newConfig(t, p, typeName, d.Name("altered"), c.create)
				if p.Plan(typeName, tfdrive.State{}, config).Diagnostics.Err() != nil {
					return // the version doesn't have the kind
				}
				sentMembers() // forget the previous kind's
				apply(t, p, typeName, tfdrive.State{}, config, "create")
				for _, member := range sentMembers() {
					if config["name"] != nil {
						config = withChanges(config, map[string]any{"name": d.Name("altered-" + member)})
					}
					planned := p.Reconfigure().Plan(typeName, tfdrive.State{}, config)
					proxy.mu.Lock()
					proxy.member, proxy.changed = member, false
					proxy.mu.Unlock()
					state, diags := p.Apply(planned)
					must.Hold(t, !proxy.stop() || slices.Contains(unreported, member) || strings.Contains(diags.Warnings(), "The deployment answered"),
						"a create whose response has another", member, diags)
					must.Require(t, diags.Err() == nil && state.Exists(), "a create whose response has another", member, "fails, which taints the object", diags)
					must.Hold(t, !strings.Contains(diags.String(), plantedSecret), "a message shows a secret", diags)
					if c.change != nil {
						proxy.checkStale(t, p, state, withChanges(config, c.change), typeName)
					}
					must.Succeed(t, p.Reconfigure().Destroy(state).Err())
				}
			})
		}
	})
}

// alteringProxy changes a member of responses to writes, or answers updates with the old object, until stop.
type alteringProxy struct {
	mu      sync.Mutex
	member  string // the member to change in responses
	stale   bool   // updates are answered with the unchanged object
	changed bool   // a response was changed
}

func newAlteringProxy(t *testing.T, d *acctest.Deployment) *alteringProxy {
	t.Helper()
	l := new(alteringProxy)
	d.Intercept(t, func(w http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if r.Method == http.MethodGet || r.Method == http.MethodDelete {
			forward.ServeHTTP(w, r)
			return
		}
		if l.stale && (r.Method == http.MethodPatch || r.Method == http.MethodPut) {
			read := r.Clone(r.Context())
			read.Method, read.Body, read.ContentLength = http.MethodGet, http.NoBody, 0
			read.Header.Del("Content-Type")
			l.changed = true
			forward.ServeHTTP(w, read)
			return
		}
		response := httptest.NewRecorder()
		forward.ServeHTTP(response, r)
		var object map[string]any
		text := response.Body.Bytes()
		if json.Unmarshal(text, &object) == nil && object[l.member] != nil {
			object[l.member], l.changed = differentValue(object[l.member]), true
			text, _ = json.Marshal(object)
		}
		maps.Copy(w.Header(), response.Header())
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(response.Code)
		_, _ = w.Write(text)
	})
	return l
}

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

// stop ends the alteration, and reports whether a response was changed.
func (l *alteringProxy) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.member, l.stale = "", false
	return l.changed
}

// checkStale expects an error from an update that is answered with the old object, and plans it again.
func (l *alteringProxy) checkStale(t *testing.T, p *tfdrive.Provider, state tfdrive.State, config map[string]any, typeName string) {
	t.Helper()
	state = refresh(t, p, state)
	planned := p.Plan(typeName, state, config)
	if planned.Action != "update" {
		return // the plan can't see the difference
	}
	l.mu.Lock()
	l.stale, l.changed = true, false
	l.mu.Unlock()
	after, diags := p.Apply(planned)
	must.Hold(t, !l.stop() || diags.Err() != nil && strings.Contains(diags.Err().Error(), "The deployment answered"), "an update that is answered with the old object", diags)
	must.Hold(t, !strings.Contains(diags.String(), plantedSecret), "a message shows a secret", diags)
	read, diags := p.Reconfigure().Read(after)
	again := p.Plan(typeName, read, config)
	must.Hold(t, diags.Err() == nil && again.Action == "update", "the next plan is to", again.Action, again.Diagnostics)
}

// If a gateway answers with another object, the read and the update fail and the state stays.
func TestResponseAboutAnotherObjectChangesNoState(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		var id, otherID string
		direct := drive(t, d, v)
		d.Intercept(t, func(w http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
			switch path, isOwn := strings.CutSuffix(r.URL.Path, "/"+id); {
			case isOwn:
				r.URL.Path = path + "/" + otherID
			case r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") == 2: // so that objects are read by id
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"title":"Forbidden","status":403,"message":"no lists"}`)
				return
			}
			forward.ServeHTTP(w, r)
		})
		viaProxy := drive(t, d, v)
		for typeName, config := range configsOfKinds(t, d, direct) {
			state := apply(t, direct, typeName, tfdrive.State{}, config, "create")
			other := apply(t, direct.Reconfigure(), typeName, tfdrive.State{}, withChanges(config, map[string]any{"name": d.Name("other")}), "create")
			id, otherID = state.Get("id").(string), other.Get("id").(string)
			read, diags := viaProxy.Reconfigure().Read(state)
			err := diags.Err()
			must.Hold(t, err != nil && strings.Contains(err.Error(), `"`+otherID+`", not `+id) && read.Value.Equal(state.Value), typeName, "the read is", read.Value, err)
			if typeName == "gpucloud_registry_auth" {
				continue // a new name replaces it
			}
			after, diags := viaProxy.Apply(direct.Reconfigure().Plan(typeName, state, withChanges(config, map[string]any{"name": d.Name("renamed")})))
			err = diags.Err()
			must.Hold(t, err != nil && after.Get("id") == id && after.Get("name") == state.Get("name"), typeName, "the update is", after.Value, err)
		}
	})
}

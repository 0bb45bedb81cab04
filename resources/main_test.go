package resources_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

func TestMain(m *testing.M) { acctest.Main(m) }

func drive(t *testing.T, d *acctest.Deployment, v api.Version) *tfdrive.Provider {
	t.Helper()
	return driveWith(t, d, v, nil)
}

// deploy starts a deployment and configures the provider for its API v2.
func deploy(t *testing.T) (*acctest.Deployment, *tfdrive.Provider) {
	t.Helper()
	d := acctest.Deploy(t)
	return d, drive(t, d, api.V2)
}

func eachVersion(t *testing.T, test func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version)) {
	t.Helper()
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) { test(t, d, drive(t, d, v), v) })
}

// apply plans and applies, and expects the action and no error.
func apply(t *testing.T, p *tfdrive.Provider, typeName string, prior tfdrive.State, config map[string]any, action string) tfdrive.State {
	t.Helper()
	planned := expectPlan(t, p, typeName, prior, config, action)
	if action == "no-op" {
		return prior
	}
	state := tfdrive.Do(p.Apply(planned))(t)
	if action != "update" {
		// Delete the object from a remote deployment. It may already be deleted.
		t.Cleanup(func() {
			must.Succeed(t, p.Destroy(state).Err(), "cleaning up")
		})
	}
	return expectEmptyPlan(t, p, state, config)
}

// expectPlan expects a plan without an error, with this action and these warnings.
func expectPlan(t *testing.T, p *tfdrive.Provider, typeName string, prior tfdrive.State, config map[string]any, action string, warnings ...string) tfdrive.PlannedChange {
	t.Helper()
	planned := p.Plan(typeName, prior, config)
	must.Succeed(t, planned.Diagnostics.Err())
	must.Require(t, planned.Action == action, "planned to", planned.Action, "replace", planned.Replace, "not to", action)
	must.Contain(t, planned.Diagnostics.Warnings(), warnings...)
	return planned
}

func refresh(t *testing.T, p *tfdrive.Provider, state tfdrive.State) tfdrive.State {
	t.Helper()
	return tfdrive.Do(p.Reconfigure().Read(state))(t)
}

func importState(t *testing.T, p *tfdrive.Provider, typeName, id string) tfdrive.State {
	t.Helper()
	return tfdrive.Do(p.Import(typeName, id))(t)
}

// expectEmptyPlan refreshes a state and expects an empty plan. It returns the refreshed state.
func expectEmptyPlan(t *testing.T, p *tfdrive.Provider, state tfdrive.State, config map[string]any) tfdrive.State {
	t.Helper()
	read := refresh(t, p, state)
	again := p.Plan(state.Type, read, config)
	must.Equal(t, again.Action, "no-op", "the next plan is not empty", again.Diagnostics, "state", read.Value, "plan", again.Value)
	return read
}

// applyRestore refreshes a state whose object was changed elsewhere, and applies the update that reverts it.
func applyRestore(t *testing.T, p *tfdrive.Provider, state tfdrive.State, config map[string]any) tfdrive.State {
	t.Helper()
	return apply(t, p, state.Type, refresh(t, p, state), config, "update")
}

// edit changes an object without Terraform.
func edit[T any](t *testing.T, objects *api.Collection[T], id any, change func(*T)) {
	t.Helper()
	have := must.Do(objects.GetFresh(t.Context(), id.(string)))(t)
	want := must.Do(objects.GetFresh(t.Context(), id.(string)))(t)
	change(&want)
	must.Do(objects.Update(t.Context(), have, want))(t)
}

func expectState(t *testing.T, state tfdrive.State, want map[string]any) {
	t.Helper()
	for attribute, value := range want {
		must.Equal(t, state.Get(attribute), value, attribute)
	}
}

// expectRejection expects a plan error at an attribute with this text, and no write.
func expectRejection(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, prior tfdrive.State, typeName string, config map[string]any, path, text string) {
	t.Helper()
	writes := d.Writes()
	err := p.Plan(typeName, prior, config).Diagnostics.Err()
	must.Hold(t, err != nil && strings.HasPrefix(err.Error(), path+":") && strings.Contains(err.Error(), text) && !strings.Contains(err.Error(), "\n"),
		"got the error", err, "expected one at", path, "…", text)
	must.Equal(t, d.Writes(), writes, "the plan sent a write")
}

// rejection is a change of a configuration that the plan rejects at an attribute with this text.
type rejection struct {
	changes  map[string]any
	at, text string
}

// expectRejections expects that each change of a new object's configuration is rejected.
func expectRejections(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, typeName string, config map[string]any, rejections ...rejection) {
	t.Helper()
	for _, r := range rejections {
		expectRejection(t, d, p, tfdrive.State{}, typeName, withChanges(config, r.changes), r.at, r.text)
	}
}

// withChanges returns config with changed attributes. Nil removes an attribute.
func withChanges(config map[string]any, changes ...map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, config)
	for _, change := range changes {
		for k, v := range change {
			if v == nil {
				delete(out, k)
			} else {
				out[k] = v
			}
		}
	}
	return out
}

// requiredAttributes has the attributes that an object of each kind needs, except its name.
var requiredAttributes = map[string]map[string]any{
	"gpucloud_cluster":             clusterConfig(nil),
	"gpucloud_endpoint":            {"template_id": tfdrive.Unknown},
	"gpucloud_global_volume":       {},
	"gpucloud_network_volume":      {"size": 10, "data_center": "US-TX-3"},
	"gpucloud_pod":                 gpuPod(nil),
	"gpucloud_registry_auth":       {"username": "u", "password": "p"},
	"gpucloud_registry_delegation": {"resource": repository},
	"gpucloud_secret":              {"value_wo": "v", "value_wo_version": 1},
	"gpucloud_ssh_keys":            {"keys": []any{annesKey}},
	"gpucloud_template":            {"image": "i"},
}

// newConfig returns the configuration of a new object: the required attributes, a name and the changes. An endpoint without
// an image gets a new template.
func newConfig(t *testing.T, p *tfdrive.Provider, typeName, name string, changes ...map[string]any) map[string]any {
	t.Helper()
	config := withChanges(withChanges(requiredAttributes[typeName], changes...), map[string]any{"name": name})
	switch {
	case typeName == sshKeysType: // an account has one list, without a name
		delete(config, "name")
	case config["template_id"] == tfdrive.Unknown && config["image"] != nil:
		delete(config, "template_id")
	case config["template_id"] == tfdrive.Unknown:
		config["template_id"] = newObject(t, p, "gpucloud_template", map[string]any{"image": "builtin/echo", "serverless": true})
	}
	return config
}

// newObject creates an object with the configuration of newConfig, and returns its id.
func newObject(t *testing.T, p *tfdrive.Provider, typeName string, changes ...map[string]any) any {
	t.Helper()
	return apply(t, p, typeName, tfdrive.State{}, newConfig(t, p, typeName, rand.Text(), changes...), "create").Get("id")
}

// attributeCase describes how a test sets, changes and removes an attribute. After each step, the next plan is empty.
type attributeCase struct {
	version    api.Version    // the only version of the case; "" for both
	others     map[string]any // other attributes of all steps
	values     []any          // the create sets the first value; nil removes the attribute; Unknown is a new object
	actions    []string       // the planned actions of changes to the other values
	removal    string         // the planned action of a removal
	unreadable bool           // no response has the value of the last create or update
	readAs     string         // an import reads the value as this attribute
	kept       bool           // a configuration without the attribute keeps an imported value
}

func (c attributeCase) test(t *testing.T, d *acctest.Deployment, v api.Version, typeName, attribute string) {
	t.Helper()
	p := drive(t, d, v)
	config := newConfig(t, p, typeName, d.Name("every"), c.others)
	var state tfdrive.State
	for i, action := range append([]string{"create"}, c.actions...) {
		config[attribute] = c.values[i]
		switch {
		case attribute == "name":
			config[attribute] = d.Name(c.values[i].(string))
		case attribute == "network_volumes":
			config[attribute] = []any{newObject(t, p, volumeType)}
		case c.values[i] == tfdrive.Unknown:
			config[attribute] = newObject(t, p, "gpucloud_registry_auth")
		}
		state = apply(t, p, typeName, state, config, action)
		expectImport(t, p, state, config, c.unreadable || c.readAs != "")
	}
	if c.removal != "" {
		config = withChanges(config, map[string]any{attribute: nil})
		c.expectOmission(t, p, state, config)
		removed := apply(t, p, typeName, state, config, c.removal)
		must.Hold(t, c.removal != "update" || !reflect.DeepEqual(removed.Get(attribute), state.Get(attribute)), attribute, "keeps its value")
	}
}

// expectOmission expects that a configuration without the attribute never replaces an imported or moved object: an update
// clears the attribute, or the plan is empty.
func (c attributeCase) expectOmission(t *testing.T, p *tfdrive.Provider, state tfdrive.State, config map[string]any) {
	t.Helper()
	id := state.Get("id").(string)
	states := map[string]tfdrive.State{"an import": importState(t, p.Reconfigure(), state.Type, id)}
	if source, ok := officialTypes[state.Type]; ok {
		moved := tfdrive.Do(p.Move(state.Type, "registry.terraform.io/runpod/runpod", source, fmt.Appendf(nil, `{"id": %q, "name": %q}`, id, state.Get("name"))))(t)
		states["a move"] = tfdrive.Do(p.Read(moved))(t)
	}
	for origin, known := range states {
		planned := p.Plan(state.Type, known, config)
		must.Succeed(t, planned.Diagnostics.Err(), "after", origin)
		changes := changesOf(p, planned, known)
		clears := c.removal == "update" && !c.kept
		must.Hold(t, planned.Action != "replace" && (clears == (len(changes) > 0) || clears && c.unreadable) && (c.readAs == "" || known.Get(c.readAs) != nil),
			"after", origin, "it is planned to", planned.Action, "replace", planned.Replace, changes)
	}
}

// changesOf returns the attributes that a plan changes, except an imported endpoint's template.
func changesOf(p *tfdrive.Provider, planned tfdrive.PlannedChange, state tfdrive.State) (changes []string) {
	for _, a := range p.Schema(state.Type).Block.Attributes {
		before, after := state.Get(a.Name), planned.Get(a.Name)
		recorded := state.Type == endpointType && state.Get("template_id") == nil && slices.Contains([]string{"template_id", "from_template", "image", "disk"}, a.Name)
		if !reflect.DeepEqual(before, after) && !recorded {
			changes = append(changes, fmt.Sprintf("%s: %v -> %v", a.Name, before, after))
		}
	}
	return changes
}

// officialTypes maps types to the types of the official provider 2.0.
var officialTypes = map[string]string{
	"gpucloud_network_volume": "runpod_network_volume", "gpucloud_template": "runpod_template", "gpucloud_endpoint": "runpod_serverless_endpoint",
	"gpucloud_pod": "runpod_pod", "gpucloud_cluster": "runpod_cluster",
}

// coveredElsewhere maps an attribute that isn't in the tables to the tests that cover it.
var coveredElsewhere = map[string]string{
	"deletion_protection": "TestProtection", "max_hourly_cost": "TestPlanCost", "timeouts": "TestWaitPlan", "wait_for": "TestWaitPlan",
	"env_wo": "TestEnvWriteOnly", "env_wo_version": "TestEnvWriteOnly", "template_id": "TestEndpointTemplateDrift, TestPodOfATemplate",
}

// testEveryAttribute tests the cases of a kind's attributes. The first word of a case's name is its attribute. It fails if neither
// the table nor coveredElsewhere has a configurable attribute.
func testEveryAttribute(t *testing.T, typeName string, table map[string]attributeCase) {
	t.Helper()
	tested, removed := map[string]bool{}, map[string]bool{"image": true, "gpu": true, "cpu": true} // an object needs these or others
	for name, c := range table {
		attribute, _, _ := strings.Cut(name, " ")
		tested[attribute] = true
		removed[attribute] = removed[attribute] || c.removal != "" || slices.Contains(c.values, nil)
		for _, v := range acctest.Versions {
			if c.version != "" && c.version != v { // TestOneVersionTable expects a rejection
				continue
			}
			t.Run(name+"/"+string(v), func(t *testing.T) {
				t.Parallel()
				c.test(t, acctest.Deploy(t), v, typeName, attribute)
			})
		}
	}
	for _, a := range drive(t, acctest.Deploy(t), api.V2).Schema(typeName).Block.Attributes {
		must.Hold(t, !a.Optional && !a.Required || tested[a.Name] || coveredElsewhere[a.Name] != "", "no case sets", typeName, a.Name, "add one to the table")
		must.Hold(t, !a.Optional || removed[a.Name] || coveredElsewhere[a.Name] != "", "no case removes", typeName, a.Name, "give it a removal")
	}
}

// expectRejectionOnV1 expects a plan error because API v1 lacks the kind.
func expectRejectionOnV1(t *testing.T, d *acctest.Deployment, typeName string, config map[string]any) {
	t.Helper()
	err := drive(t, d, api.V1).Plan(typeName, tfdrive.State{}, config).Diagnostics.Err()
	must.ErrorContains(t, err, `in management API v2 only. Remove the resource, or set api_version = "v2"`)
}

// expectImport imports an object: the plan is empty or records unreadable attributes in place.
func expectImport(t *testing.T, p *tfdrive.Provider, state tfdrive.State, config map[string]any, unreadable bool) {
	t.Helper()
	imported := tfdrive.Do(p.Reconfigure().Import(state.Type, state.Get("id").(string)))(t)
	planned := p.Plan(state.Type, imported, config)
	want := map[bool]string{true: "update", false: "no-op"}[unreadable]
	must.Hold(t, planned.Action == want || planned.Action == "no-op" && unreadable || planned.Action == "update" && len(changesOf(p, planned, imported)) == 0,
		"after an import it is planned to", planned.Action, "replace", planned.Replace, "not to", want, planned.Diagnostics, "state", imported.Value, "plan", planned.Value)
}

// driveWith is drive with additional settings in the provider block.
func driveWith(t *testing.T, d *acctest.Deployment, v api.Version, settings map[string]any) *tfdrive.Provider {
	t.Helper()
	p := tfdrive.Start(t, provider.New("test")(), withChanges(d.Settings(v), settings))
	must.Succeed(t, p.ConfigureDiagnostics.Err())
	return p
}

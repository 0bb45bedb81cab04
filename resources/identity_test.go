package resources_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// kindFixture is the configuration with which the tests in this file create an object of one kind.
type kindFixture struct {
	config             map[string]any // changes of the required attributes
	uniqueNames        bool
	nameless           bool           // an account has one object, without a name
	v2Only             bool           // only API v2 has the kind
	recordsAfterImport bool           // the first apply after an import is an update, which records settings
	full               map[string]any // configuration of another object, for API v2
}

var kindFixtures = map[string]kindFixture{
	"gpucloud_cluster": {config: map[string]any{"disk": 50}, v2Only: true, full: clusterConfig(map[string]any{
		"name": "full", "type": "RAY", "args": "print 'a b'", "disk": 30, "env": map[string]any{"A": "b"}, "ports": []any{"22/tcp", "8000/http"},
		"mounts": map[string]any{"persistent": map[string]any{"size": 20, "path": "/data"}}, "data_center_ids": []any{"EU-RO-1"}, "start_ssh": true, "start_jupyter": true,
	})},
	"gpucloud_endpoint": {config: map[string]any{"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}}, full: map[string]any{
		"name": "full", "image": "i", "args": "print 'a b'", "disk": 20, "env": map[string]any{"A": "b"}, "ports": []any{"8000/http"},
		"gpu": map[string]any{"pools": []any{"ADA_24"}, "excluded_types": []any{"NVIDIA L4"}, "count": 2, "allowed_cuda_versions": []any{"12.8"}}, "workers": map[string]any{"min": 0, "max": 2, "idle_timeout": 20},
		"scaling": map[string]any{"type": "QUEUE_DELAY", "queue_delay": 2.5}, "data_center_ids": []any{"EU-RO-1"}, "timeout": 60000, "flashboot": "FLASHBOOT",
	}},
	"gpucloud_network_volume": {full: map[string]any{"name": "full", "size": 20, "data_center": "EU-RO-1", "type": "STANDARD"}},
	"gpucloud_pod": {config: map[string]any{"gpu": nil, "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}, "disk": 10}, full: gpuPod(map[string]any{
		"name": "full", "args": "print 'a b'", "disk": 30, "env": map[string]any{"A": "b"}, "ports": []any{"22/tcp", "8000/http"},
		"gpu": map[string]any{"id": "NVIDIA L4", "count": 2, "allowed_cuda_versions": []any{"12.8"}}, "mounts": map[string]any{"persistent": map[string]any{"size": 20, "path": "/data"}},
		"cloud": "COMMUNITY", "data_center_ids": []any{"EU-RO-1"}, "locked": true, "start_ssh": true, "start_jupyter": true, "desired_state": "RUNNING",
	})},
	"gpucloud_global_volume":       {v2Only: true, full: map[string]any{"name": "full"}},
	"gpucloud_secret":              {config: map[string]any{"value_wo": "secret-of-this-test", "value_wo_version": 1, "description": "d"}, uniqueNames: true, recordsAfterImport: true, v2Only: true},
	"gpucloud_registry_auth":       {config: map[string]any{"password": nil, "password_wo": "secret-of-this-test", "password_wo_version": 1}, uniqueNames: true, recordsAfterImport: true},
	"gpucloud_registry_delegation": {v2Only: true, full: map[string]any{"name": "full", "resource": repository + ":v1"}},
	"gpucloud_ssh_keys":            {nameless: true, v2Only: true},
	"gpucloud_template": {uniqueNames: true, full: map[string]any{
		"name": "full", "image": "i", "args": "print 'a b'", "disk": 20, "env": map[string]any{"A": "b"}, "ports": []any{"8000/http"}, "mounts": map[string]any{"persistent": map[string]any{"size": 20, "path": "/data"}},
		"public": true, "serverless": false, "category": "AMD", "start_ssh": false, "start_jupyter": false, "allowed_cuda_versions": []any{"12.8"},
	}},
}

// create creates an object of the kind, and returns its state and configuration.
func (k kindFixture) create(t *testing.T, p *tfdrive.Provider, typeName, name string) (tfdrive.State, map[string]any) {
	t.Helper()
	config := newConfig(t, p, typeName, name, k.config)
	return apply(t, p, typeName, tfdrive.State{}, config, "create"), config
}

// eachKind runs a test for every kind of each version, each on its own deployment.
func eachKind(t *testing.T, test func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, typeName string, k kindFixture)) {
	t.Helper()
	for _, v := range acctest.Versions {
		for _, typeName := range slices.Sorted(maps.Keys(kindFixtures)) {
			if k := kindFixtures[typeName]; !k.v2Only || v == api.V2 {
				t.Run(string(v)+"/"+typeName, func(t *testing.T) {
					t.Parallel()
					d := acctest.Deploy(t)
					test(t, d, drive(t, d, v), typeName, k)
				})
			}
		}
	}
}

func TestEveryKindIsInTheTable(t *testing.T) {
	must.Equal(t, slices.Sorted(maps.Keys(kindFixtures)), drive(t, acctest.Deploy(t), api.V2).Types(), "the types in kindFixtures and in the provider differ")
}

// An object's identity is its id. Imports by identity, by id and by name give the same state.
func TestIdentityAndImport(t *testing.T) {
	eachKind(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, typeName string, k kindFixture) {
		state, config := k.create(t, p, typeName, d.Name("one"))
		id := state.Get("id").(string)
		must.Equal[any](t, p.Identity(state, "id"), id, "the identity isn't the id")
		byID := importState(t, p.Reconfigure(), typeName, id)
		planned := p.Plan(typeName, byID, config)
		switch {
		case planned.Action == "update" && typeName == endpointType: // v2 returns no template
		case planned.Action != map[bool]string{true: "update", false: "no-op"}[k.recordsAfterImport]:
			t.Errorf("after an import it is planned to %s: %s\n%s\n%s", planned.Action, planned.Diagnostics, byID.Value, planned.Value)
		}
		generatedConfig := map[string]any{} // as Terraform generates it for an imported object
		for _, a := range p.Schema(typeName).Block.Attributes {
			if (a.Optional || a.Required) && !a.Sensitive {
				generatedConfig[a.Name] = configurablePart(a, byID.Get(a.Name))
			}
		}
		generated := p.Plan(typeName, byID, generatedConfig)
		flashboot := generated.Action == "update" && typeName == endpointType // v1 returns none, so the update records it
		must.Hold(t, generated.Diagnostics.Err() == nil && (generated.Action == "no-op" || flashboot), "the generated configuration is planned to", generated.Action, generated.Diagnostics)
		byIdentity, diags := p.Reconfigure().ImportIdentity(typeName, map[string]any{"id": id})
		must.Hold(t, diags.Err() == nil && byIdentity.Value.Equal(byID.Value) && p.Identity(byIdentity, "id") == id,
			"an import by identity gives", byIdentity.Value, "and by id", byID.Value, diags)
		must.ErrorContains(t, tfdrive.Err(p.Reconfigure().Import(typeName, "")), "Invalid import ID")
		if k.nameless {
			must.ErrorContains(t, tfdrive.Err(p.Reconfigure().Import(typeName, "another")), `Its id is "account", not "another".`)
			must.ErrorContains(t, tfdrive.Err(p.Reconfigure().ImportIdentity(typeName, map[string]any{"id": "another"})), `Its id is "account", not "another".`)
			return
		}
		byName, diags := p.Reconfigure().Import(typeName, d.Name("one"))
		must.Hold(t, diags.Err() == nil && byName.Value.Equal(byID.Value) && p.Identity(byName, "id") == id, "an import by name gives", byName.Value, "and by id", byID.Value, diags)
		must.ErrorContains(t, tfdrive.Err(p.Reconfigure().Import(typeName, d.Name("no such name "))), "Invalid import ID")
		if !k.uniqueNames {
			second, _ := k.create(t, p, typeName, d.Name("one"))
			ids := slices.Sorted(slices.Values([]string{id, second.Get("id").(string)}))
			must.ErrorContains(t, tfdrive.Err(p.Reconfigure().Import(typeName, d.Name("one"))), strings.Join(ids, ", "))
		}
		gone, _ := k.create(t, p, typeName, d.Name("two"))
		must.Succeed(t, p.Destroy(gone).Err())
		absent, diags := p.Reconfigure().Import(typeName, gone.Get("id").(string))
		must.Hold(t, !absent.Exists() && diags.Err() == nil, "the import of a deleted object gives", absent.Value, diags)
	})
}

// A plan recreates an object that was deleted elsewhere.
func TestDeletedElsewhere(t *testing.T) {
	eachKind(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, typeName string, k kindFixture) {
		state, config := k.create(t, p, typeName, d.Name("one"))
		must.Succeed(t, p.Destroy(state).Err())
		gone, diags := p.Reconfigure().Read(state)
		if k.nameless { // the account's document is empty, but still exists
			apply(t, p, typeName, gone, config, "update")
			return
		}
		must.Require(t, diags.Err() == nil && !gone.Exists(), "it is still in the state", gone.Value, diags)
		apply(t, p, typeName, gone, config, "create")
	})
}

// configurablePart returns the part of an attribute's value that can be configured.
func configurablePart(a *tfprotov6.SchemaAttribute, value any) any {
	members, isObject := value.(map[string]any)
	if !isObject || a.NestedType == nil {
		return value
	}
	config := map[string]any{}
	for _, nested := range a.NestedType.Attributes {
		if nested.Optional || nested.Required {
			config[nested.Name] = configurablePart(nested, members[nested.Name])
		}
	}
	return config
}

// A list block finds every object of the kind, with its identity and the state of an import.
func TestLists(t *testing.T) {
	eachKind(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, typeName string, k kindFixture) {
		names := []string{d.Name("a"), d.Name("b"), d.Name("c")}
		if k.nameless {
			names = names[:1]
		}
		want := map[any]tfdrive.State{}
		for _, name := range names {
			created, _ := k.create(t, p, typeName, name)
			want[created.Get("id")] = importState(t, p.Reconfigure(), typeName, created.Get("id").(string))
		}
		found, diags := p.Reconfigure().List(typeName, map[string]any{}, 0)
		must.Require(t, diags.Err() == nil && len(found) == len(want), "found", len(found), "objects, expected", len(want), diags)
		for _, object := range found {
			id := p.Identity(object.State, "id")
			stable := typeName != podType // a pod's status and runtime may change between import and list
			must.Hold(t, (!stable || object.Value.Equal(want[id].Value)) && object.Get("id") == id,
				id, "is listed as", object.Value, "and imported as", want[id].Value)
			must.Hold(t, k.nameless || object.Name == object.Get("name"), "it is shown as", object.Name)
		}
		if !k.nameless {
			one, diags := p.Reconfigure().List(typeName, map[string]any{"name": names[1]}, 1)
			must.Hold(t, diags.Err() == nil && len(one) == 1 && one[0].Name == names[1], "by name", len(one), "found", diags)
			first, diags := p.Reconfigure().List(typeName, map[string]any{}, 2)
			must.Hold(t, diags.Err() == nil && len(first) == 2 && strings.Contains(diags.Warnings(), "2 of 3 objects are listed"), "with a limit of 2", len(first), "found", diags)
		}
	})
}

func TestListOfAKindThatV1Lacks(t *testing.T) {
	p := drive(t, acctest.Deploy(t), api.V1)
	for typeName, k := range kindFixtures {
		if !k.v2Only || k.nameless {
			continue
		}
		title := strings.ReplaceAll(strings.TrimPrefix(typeName, "gpucloud_"), "_", " ")
		must.ErrorContains(t, tfdrive.Err(p.List(typeName, map[string]any{}, 0)), "Could not list the "+title+"s: management API v1 has no "+title+"s: set api_version or GPUCLOUD_API_VERSION to v2")
	}
}

// Listed names have no control characters, because the CLI prints them on a terminal. A value of env isn't a secret in a name.
func TestListedNamesHaveNoControlCharacters(t *testing.T) {
	d := acctest.Deploy(t)
	post(t, d, "/v2/templates", `{"name":"sdxl\u001b[31m\nb\u001b]0;c\u0007","image":"i","env":{"MODEL":"sdxl"}}`)
	found, diags := drive(t, d, api.V2).List("gpucloud_template", map[string]any{}, 0)
	must.Hold(t, diags.Err() == nil && len(found) == 1 && found[0].Name == "sdxl b", "listed", found, diags)
}

// A query's objects can be imported with the configuration that it generates, and the plan is empty.
func TestQueryWritesConfiguration(t *testing.T) {
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		if !cli.HasActionsAndQueries() {
			t.Skip(cli.String() + " has no query")
		}
		for _, typeName := range slices.Sorted(maps.Keys(kindFixtures)) {
			k := kindFixtures[typeName]
			t.Run(typeName, func(t *testing.T) {
				t.Parallel()
				d, p := deploy(t)
				k.create(t, p, typeName, d.Name("found"))
				objects := 1
				if k.full != nil {
					apply(t, p, typeName, tfdrive.State{}, k.full, "create")
					objects++
				}
				w := d.Workspace(t, cli, api.V2)
				w.Write("find.tfquery.hcl", "list \""+typeName+"\" \"all\" {\n  provider         = gpucloud\n  include_resource = true\n}\n")
				w.MustRun("query", "-generate-config-out=generated.tf")
				plan := w.MustRun("plan")
				if found := strings.Contains(plan, fmt.Sprintf("Plan: %d to import, 0 to add, 0 to change, 0 to destroy", objects)); !found {
					text, _ := os.ReadFile(filepath.Join(w.Dir, "generated.tf"))
					t.Errorf("the plan is\n%s\nof\n%s", plan, text)
				}
			})
		}
	})
}

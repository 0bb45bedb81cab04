package resources_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const (
	foreignStates = "../internal/migrate/testdata/"
	foreignSecret = "hunter2-of-the-state" // the password in the recorded states
)

// foreignResource is a resource of another provider, as `terraform show -json` prints it.
type foreignResource struct {
	Address  string
	Type     string
	Provider string `json:"provider_name"`
	Values   json.RawMessage
}

// foreignState reads a resource of a recorded document.
func foreignState(t *testing.T, file, address string) foreignResource {
	t.Helper()
	text := must.ReadFile(t, foreignStates+file+".json")
	type module struct {
		Resources []foreignResource
		Children  []module `json:"child_modules"`
	}
	var document struct {
		Values struct {
			Root module `json:"root_module"`
		}
	}
	must.Succeed(t, json.Unmarshal(text, &document))
	all := document.Values.Root.Resources
	for _, child := range document.Values.Root.Children {
		all = append(all, child.Resources...)
	}
	for _, r := range all {
		if r.Address == address {
			return r
		}
	}
	t.Fatalf("%s has no %s", file, address)
	return foreignResource{}
}

// stateWith returns the state with these ids in place of the recorded ones.
func (f foreignResource) stateWith(ids map[string]string) []byte { return withIDs(f.Values, ids) }

// withIDs replaces texts of a JSON document by ids.
func withIDs(document []byte, ids map[string]string) []byte {
	for text, id := range ids {
		document = bytes.ReplaceAll(document, []byte(`"`+text+`"`), []byte(`"`+id+`"`))
	}
	return document
}

// move moves a state and refreshes it, like a plan.
func (f foreignResource) move(t *testing.T, p *tfdrive.Provider, typeName string, state []byte) tfdrive.State {
	t.Helper()
	moved := tfdrive.Do(p.Reconfigure().Move(typeName, f.Provider, f.Type, state))(t)
	return tfdrive.Do(p.Read(moved))(t)
}

// movedCase is an object of another provider, with the equivalent configuration of this provider.
type movedCase struct {
	file, address string
	id            string // the recorded id
	kind          string
	version       api.Version
	config        map[string]any // $template, $podTemplate and $volume are the ids of referenced objects
	action        string         // of the first plan; "" means "no-op"
}

// configWith returns the configuration with the ids of the referenced objects.
func (c movedCase) configWith(t *testing.T, objectIDs map[string]string) (config map[string]any) {
	t.Helper()
	must.Succeed(t, json.Unmarshal(withIDs(must.Do(json.Marshal(c.config))(t), objectIDs), &config))
	return config
}

func movedCases() []movedCase {
	volume := map[string]any{"name": "models", "size": 20, "data_center": "EU-RO-1"}
	auth := func(name string) map[string]any {
		return map[string]any{"name": name, "username": "robot", "password_wo": "new-and-unsent", "password_wo_version": 1}
	}
	worker := func(id string) map[string]any {
		return map[string]any{
			"name": "worker-" + id, "image": "builtin/echo", "disk": 20, "args": "python -u 'my handler.py'", "env": map[string]any{"MODE": "prod"},
			"ports": []any{"8000/http"}, "serverless": true,
		}
	}
	endpoint := func(changes map[string]any) map[string]any {
		return withChanges(map[string]any{
			"name": "api", "template_id": "$template", "workers": map[string]any{"max": 2, "idle_timeout": 7},
			"scaling": map[string]any{"queue_delay": 3}, "data_center_ids": []any{"EU-RO-1"}, "timeout": 600000,
		}, changes)
	}
	l4, volumes := map[string]any{"type_ids": []any{"NVIDIA L4"}}, []any{"$volume"}
	pod := func(changes map[string]any) map[string]any {
		return withChanges(map[string]any{
			"name": "lab", "image": "builtin/echo", "gpu": map[string]any{"id": "NVIDIA L4"}, "disk": 20,
			"ports": []any{"8888/http", "22/tcp"}, "env": map[string]any{"MODE": "lab"},
		}, changes)
	}
	workspace := map[string]any{"persistent": map[string]any{"size": 20, "path": "/workspace"}}
	envFromList := map[string]any{"MODE": "lab", "URL": "https://x.example.com/?a=b"}
	templated := pod(map[string]any{"name": "templated", "template_id": "$podTemplate", "image": nil, "disk": nil, "ports": nil, "env": nil, "start_ssh": true})
	return []movedCase{
		{file: "official-1.0.8", address: "runpod_template.worker", id: "tpl108", kind: "template", config: worker("tpl108")},
		{file: "official-1.0.8", address: "runpod_network_volume.models", id: "vol108", kind: "network_volume", config: volume},
		{file: "official-1.0.8", address: "runpod_container_registry_auth.ci", id: "auth108", kind: "registry_auth", config: auth("ci108")},
		{file: "official-1.0.8", address: "runpod_endpoint.api", id: "ep108", kind: "endpoint", config: endpoint(map[string]any{"gpu": l4, "flashboot": "FLASHBOOT", "network_volumes": volumes})},
		{file: "official-1.0.8", address: `module.batch["eu"].runpod_endpoint.cpu[0]`, id: "epcpu108", kind: "endpoint",
			config: endpoint(map[string]any{"name": "cpu", "cpu": []any{map[string]any{"id": "cpu3c", "vcpu_count": 4}}, "data_center_ids": nil})},
		{file: "official-1.0.8", address: "runpod_pod.lab", id: "pod108", kind: "pod", version: api.V2, config: pod(map[string]any{"mounts": workspace, "env": envFromList, "start_ssh": true})},
		{file: "official-1.0.8", address: "runpod_pod.lab", id: "pod108", kind: "pod", version: api.V1, config: pod(map[string]any{"mounts": workspace, "env": envFromList}), action: "update"},

		{file: "official-1.0.9", address: "runpod_template.worker", id: "tpl109", kind: "template", config: worker("tpl109")},
		{file: "official-1.0.9", address: "runpod_network_volume.models", id: "vol109", kind: "network_volume", config: volume},
		{file: "official-1.0.9", address: "runpod_container_registry_auth.ci", id: "auth109", kind: "registry_auth", config: auth("ci109")},
		{file: "official-1.0.9", address: "runpod_endpoint.api", id: "ep109", kind: "endpoint", config: endpoint(map[string]any{"gpu": l4, "network_volumes": volumes})},
		{file: "official-1.0.9", address: "runpod_endpoint.inline", id: "epin109", kind: "endpoint", version: api.V2,
			config: endpoint(map[string]any{"name": "inline", "template_id": nil, "image": "builtin/echo", "disk": 20, "env": map[string]any{"MODE": "prod"}, "gpu": l4})},
		{file: "official-1.0.9", address: "runpod_pod.lab", id: "pod109", kind: "pod", version: api.V2, config: pod(map[string]any{"mounts": workspace, "env": envFromList, "start_ssh": true})},
		{file: "official-1.0.9", address: "runpod_pod.templated", id: "podt109", kind: "pod", version: api.V2, config: templated, action: "update"},
		{file: "official-1.0.9", address: "runpod_ecr_delegation.app", id: "del109", kind: "registry_delegation", version: api.V2,
			config: map[string]any{"name": "app", "resource": "arn:aws:ecr:us-east-2:123456789012:repository/team/app"}},

		{file: "official-2.0.0", address: "runpod_template.worker", id: "tpl200", kind: "template", config: worker("tpl200")},
		{file: "official-2.0.0", address: "runpod_network_volume.models", id: "vol200", kind: "network_volume", config: volume},
		{file: "official-2.0.0", address: "runpod_registry.ci", id: "auth200", kind: "registry_auth", config: auth("ci200")},
		{file: "official-2.0.0", address: "runpod_serverless_endpoint.api", id: "ep200", kind: "endpoint", version: api.V2, config: endpoint(map[string]any{
			"gpu": map[string]any{"pools": []any{"ADA_24"}, "allowed_cuda_versions": []any{"12.8"}}, "env": map[string]any{"EXTRA": "1"}, "flashboot": "FLASHBOOT", "network_volumes": volumes,
		})},
		{file: "official-2.0.0", address: "runpod_serverless_endpoint.inline", id: "epin200", kind: "endpoint", version: api.V2, config: endpoint(map[string]any{
			"name": "inline", "template_id": nil, "image": "builtin/echo", "disk": 20, "args": "print hello", "env": map[string]any{"MODE": "prod"},
			"cpu": []any{map[string]any{"id": "cpu3c", "vcpu_count": 4}}, "flashboot": "FLASHBOOT", "data_center_ids": nil,
		})},
		{file: "official-2.0.0", address: "runpod_pod.lab", id: "pod200", kind: "pod", version: api.V2, config: pod(map[string]any{
			"mounts": map[string]any{"network": []any{map[string]any{"volume_id": "$volume", "path": "/work"}}}, "start_ssh": true, "start_jupyter": false, "data_center_ids": []any{"EU-RO-1"}, "desired_state": "RUNNING",
			"env": map[string]any{"MODE": "lab", "PUBLIC_KEY": "ssh-ed25519 AAAA me"},
			"gpu": map[string]any{"id": "NVIDIA L4", "min_cuda_version": "12.4"},
		})},
		{file: "official-2.0.0", address: "runpod_pod.templated", id: "podt200", kind: "pod", config: pod(map[string]any{
			"name": "templated", "template_id": "$podTemplate", "image": nil, "disk": nil, "ports": nil, "env": map[string]any{"EXTRA": "1"},
			"gpu": nil, "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2},
		})},
		{file: "official-2.0.0", address: "runpod_registry_delegation.app", id: "del200", kind: "registry_delegation", version: api.V2,
			config: map[string]any{"name": "app", "resource": "arn:aws:ecr:us-east-2:123456789012:repository/team/app:v1"}},
		{file: "official-2.0.0", address: "runpod_cluster.train", id: "cl200", kind: "cluster", version: api.V2, config: map[string]any{
			"name": "train", "type": "TRAINING", "image": "builtin/echo", "disk": 20, "args": "print hello", "env": map[string]any{"MODE": "train"},
			"compute": map[string]any{"gpu_type_id": "NVIDIA L4", "gpu_count_per_pod": 1, "pod_count": 2}, "data_center_ids": []any{"EU-RO-1"}, "start_ssh": true, "start_jupyter": false,
		}},
		{file: "official-2.0.0", address: "runpod_account_ssh_keys.all", id: "account", kind: "ssh_keys", version: api.V2,
			config: map[string]any{"keys": []any{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@example.com"}}},

		{file: "decentralized-infrastructure-1.0.1", address: "runpod_network_volume.models", id: "volDEC", kind: "network_volume", config: volume},
		{file: "decentralized-infrastructure-1.0.1", address: "runpod_endpoint.api", id: "epDEC", kind: "endpoint",
			config: endpoint(map[string]any{"gpu": withChanges(l4, map[string]any{"allowed_cuda_versions": []any{"12.8"}}), "network_volumes": volumes})},
		{file: "decentralized-infrastructure-1.0.1", address: `runpod_pod.lab["a"]`, id: "podDEC", kind: "pod", config: pod(map[string]any{
			"mounts": workspace, "args": "print 'a b'", "data_center_ids": []any{"EU-RO-1"}, "gpu": map[string]any{"id": "NVIDIA L4", "allowed_cuda_versions": []any{"12.8"}},
		})},

		{file: "nilenso", address: "runpod_pod.lab", id: "podNIL", kind: "pod", version: api.V2, config: pod(map[string]any{"data_center_ids": []any{"EU-RO-1"}, "start_ssh": true})},
	}
}

// After a move from each type of each source, the equivalent configuration plans no change, or an
// update that only records settings. Nothing is written, and the state has no secret.
func TestMoved(t *testing.T) {
	t.Parallel()
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p, objectIDs := drive(t, d, v), makeReferenced(t, d)
		for _, c := range movedCases() {
			if c.version == "" || c.version == v {
				t.Run(c.file+"/"+c.address, func(t *testing.T) { c.test(t, d, p, objectIDs) })
			}
		}
	})
}

func (c movedCase) test(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, objectIDs map[string]string) {
	typeName, config := "gpucloud_"+c.kind, c.configWith(t, objectIDs)
	created := apply(t, p, typeName, tfdrive.State{}, config, "create")
	writes := d.Writes()
	source := foreignState(t, c.file, c.address)
	moved := source.move(t, p, typeName, source.stateWith(c.ids(objectIDs, created.Get("id").(string))))
	planned, want := p.Plan(typeName, moved, config), cmp.Or(c.action, "no-op")
	must.Require(t, planned.Action == want,
		"the first plan is to", planned.Action, "replace", planned.Replace, "expected", want, planned.Diagnostics, "state", moved.Value, "plan", planned.Value)
	must.Hold(t, !moved.Contains(foreignSecret), "the state holds the password")
	must.Equal(t, p.Identity(moved, "id"), created.Get("id"), "the identity has the id")
	if want == "update" {
		must.Contain(t, planned.Diagnostics.Warnings(), "Settings are recorded, and not sent")
		expectEmptyPlan(t, p, applyPlan(t, p, planned), config)
	}
	must.Equal(t, d.Writes(), writes, d.Writes()-writes, "requests were sent that could change something")
}

// ids maps the recorded ids to ids of the deployment.
func (c movedCase) ids(objectIDs map[string]string, id string) map[string]string {
	release := c.id[len(c.id)-3:]
	ids := map[string]string{"tpl" + release: objectIDs["$template"], "tplpod" + release: objectIDs["$podTemplate"], "vol" + release: objectIDs["$volume"]}
	ids[c.id] = id
	return ids
}

func applyPlan(t *testing.T, p *tfdrive.Provider, planned tfdrive.PlannedChange) tfdrive.State {
	t.Helper()
	return tfdrive.Do(p.Reconfigure().Apply(planned))(t)
}

// makeReferenced creates the objects that endpoints and pods reference, and returns their ids.
func makeReferenced(t *testing.T, d *acctest.Deployment) map[string]string {
	t.Helper()
	c, ctx := d.Client(t, api.V2), t.Context()
	volume := must.Do(c.NetworkVolumes.Create(ctx, api.NetworkVolume{Name: "referred", Size: 20, DataCenter: "EU-RO-1"}))(t)
	objectIDs := map[string]string{"$volume": volume.ID}
	for name, serverless := range map[string]bool{"$template": true, "$podTemplate": false} {
		template := must.Do(c.Templates.Create(ctx, api.Template{
			Name: d.Name(name[1:]), Image: "builtin/echo", Disk: 20, Env: map[string]string{"MODE": "prod"}, Ports: []string{"8000/http"}, Serverless: serverless,
		}))(t)
		objectIDs[name] = template.ID
	}
	return objectIDs
}

// After a move, the value of a setting that no response has is another provider's. If the configuration differs from
// it, the plan records the setting and doesn't replace the pod or cluster. A difference from a response or a recorded
// setting replaces as usual.
func TestMovedIsNotReplaced(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	objectIDs := makeReferenced(t, d)
	for _, c := range []struct {
		address, id, kind string
		changes           map[string]any // changes of attributes that no response has; nil removes one
		readable          map[string]any // a change of an attribute that a response has
	}{
		{"runpod_pod.lab", "pod200", "pod", map[string]any{"start_ssh": nil, "start_jupyter": nil, "data_center_ids": []any{"US-TX-3"}, "gpu": map[string]any{"id": "NVIDIA L4", "min_cuda_version": "12.8"}},
			map[string]any{"gpu": map[string]any{"id": "NVIDIA A40"}}},
		{"runpod_cluster.train", "cl200", "cluster", map[string]any{"start_ssh": nil, "data_center_ids": []any{"US-TX-3"}},
			map[string]any{"image": "builtin/conformance"}},
	} {
		var config map[string]any
		for _, known := range movedCases() {
			if known.id == c.id {
				config = known.configWith(t, objectIDs)
			}
		}
		typeName := "gpucloud_" + c.kind
		created := apply(t, p, typeName, tfdrive.State{}, config, "create")
		source := foreignState(t, "official-2.0.0", c.address)
		moved := source.move(t, p, typeName, source.stateWith(map[string]string{c.id: created.Get("id").(string)}))

		must.Equal(t, p.Plan(typeName, moved, withChanges(config, c.readable)).Action, "replace", c.address, c.readable, "is planned to", "expected replace")
		must.Contain(t, p.Plan(typeName, moved, withChanges(config, map[string]any{"data_center_ids": nil})).Diagnostics.Warnings(), "Settings are recorded, and not sent")
		config = withChanges(config, c.changes)
		planned := expectPlan(t, p, typeName, moved, config, "update", "Settings are recorded, and not sent")
		state := expectEmptyPlan(t, p, applyPlan(t, p, planned), config)
		must.Equal(t, p.Plan(typeName, state, withChanges(config, map[string]any{"data_center_ids": []any{"EU-RO-1"}})).Action, "replace", c.address, "a change of a recorded setting is planned to", "expected replace")
	}
}

// A state without an id, or of a type without a counterpart, is rejected with advice. The registry's host doesn't matter.
func TestMovedRejections(t *testing.T) {
	t.Parallel()
	p := drive(t, acctest.Deploy(t), api.V2)
	renamed := foreignState(t, "official-1.0.8", "runpod_network_volume.renamed")
	for _, c := range []struct{ kind, provider, typeName, state, says string }{
		{"network_volume", renamed.Provider, renamed.Type, string(renamed.Values), `import the object by its id, or by its name "weights" if the name is unique`},
		{"network_volume", renamed.Provider, renamed.Type, string(renamed.Values), "`terraform state rm`"},
		{"pod", "registry.terraform.io/runpod/runpod", "runpod_pod", `{"id": ""}`, "import the object by its id, which the API's list shows"},
		{"pod", "registry.terraform.io/runpod/runpod", "runpod_pod", `{"id": "a/b"}`, `the id "a/b"`},
		{"pod", "registry.terraform.io/runpod/runpod", "runpod_pod", `{"id": 7}`, "has no id"},
		{"pod", "registry.terraform.io/runpod/runpod", "runpod_pod", `[1]`, "expected a JSON object"},
		{"pod", "registry.terraform.io/runpod/runpod", "runpod_pod", `null`, "expected a JSON object"},
		{"pod", "registry.terraform.io/acme/runpod", "runpod_pod", `{"id": "p"}`, "a gpucloud_pod can't take over a runpod_pod of registry.terraform.io/acme/runpod"},
		{"pod", "registry.terraform.io/acme-runpod/runpod", "runpod_pod", `{"id": "p"}`, "It takes over runpod_pod of runpod/runpod"},
		{"secret", "registry.terraform.io/gpucloud/gpucloud", "gpucloud_pod", `{"id": "p"}`, "a gpucloud_secret can't take over a gpucloud_pod of registry.terraform.io/gpucloud/gpucloud. It takes over no other type. Correct or remove the moved block"},
		{"pod", "registry.terraform.io/runpod/runpod", "runpod_machine", `{"id": "p"}`, "It takes over runpod_pod of runpod/runpod"},
		{"pod", "registry.terraform.io/runpod/runpod", "runpod_template", `{"id": "p"}`, "a gpucloud_pod can't take over a runpod_template of"},
	} {
		must.ErrorContains(t, tfdrive.Err(p.Move("gpucloud_"+c.kind, c.provider, c.typeName, []byte(c.state))), c.says)
	}
	for _, provider := range []string{"registry.opentofu.org/runpod/runpod", "mirror.example.com/runpod/runpod", "registry.terraform.io/rafstef/runpod"} {
		moved, diags := p.Move("gpucloud_pod", provider, "runpod_pod", []byte(`{"id": "p1", "image_name": "i"}`))
		must.Hold(t, diags.Err() == nil && moved.Get("id") == "p1", provider, "got", moved.Get("id"), diags)
	}
}

// A plan of a moved state without a read is rejected, because it would replace the object.
func TestMovedNeedsRead(t *testing.T) {
	t.Parallel()
	p := drive(t, acctest.Deploy(t), api.V2)
	source := foreignState(t, "official-1.0.8", "runpod_network_volume.models")
	config := map[string]any{"name": "models", "size": 20, "data_center": "EU-RO-1"}
	created := apply(t, p, "gpucloud_network_volume", tfdrive.State{}, config, "create")
	moved, _ := p.Move(created.Type, source.Provider, source.Type, source.stateWith(map[string]string{"vol108": created.Get("id").(string)}))
	must.ErrorContains(t, p.Plan(created.Type, moved, config).Diagnostics.Err(), "without -refresh=false")
	read, _ := p.Read(moved)
	apply(t, p, created.Type, read, config, "no-op")
}

// A move takes over what a response may lack. API v1 may omit FlashBoot and a CPU endpoint's compute.
func TestMovedBeforeRead(t *testing.T) {
	t.Parallel()
	p := drive(t, acctest.Deploy(t), api.V2)
	cpu := foreignState(t, "official-1.0.8", `module.batch["eu"].runpod_endpoint.cpu[0]`)
	moved, _ := p.Move("gpucloud_endpoint", cpu.Provider, cpu.Type, cpu.Values)
	list, _ := moved.Get("cpu").([]any)
	must.Hold(t, len(list) == 1 && list[0].(map[string]any)["id"] == "cpu3c" && list[0].(map[string]any)["vcpu_count"] == 4.0 && moved.Get("flashboot") == "OFF",
		"cpu is", moved.Get("cpu"), "flashboot is", moved.Get("flashboot"))
}

package resources_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const clusterType = "gpucloud_cluster"

func clusterConfig(changes map[string]any) map[string]any {
	return withChanges(map[string]any{
		"name": "c", "type": "TRAINING", "image": "builtin/echo", "compute": map[string]any{"gpu_type_id": "NVIDIA L4", "gpu_count_per_pod": 1, "pod_count": 2},
	}, changes)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	config := clusterConfig(map[string]any{"name": "one", "type": "RAY", "disk": 20})
	more := withChanges(config, map[string]any{"args": "print 'a b'", "env": map[string]any{"A": "b"}, "ports": []any{"22/tcp"}})
	created := apply(t, p, clusterType, tfdrive.State{}, more, "create")
	expectState(t, created, map[string]any{"pods.total": 2.0})
	expectImport(t, p, created, more, false)
	state := apply(t, p, clusterType, created, withChanges(more, map[string]any{"name": "two"}), "update")
	expectState(t, state, map[string]any{"id": created.Get("id")})
	state = apply(t, p, clusterType, state, withChanges(config, map[string]any{"name": "two"}), "replace")
	must.Succeed(t, p.Destroy(state).Err())
	must.Equal(t, must.Do(d.Client(t, api.V2).Clusters.List(t.Context()))(t), nil, "the clusters after the deletion")
}

// A change of any setting except the name replaces the cluster; a removal doesn't always. After an import, the
// setting is read from the pods, or the next apply records it. Then the plan is empty.
func TestClusterEveryAttribute(t *testing.T) {
	t.Parallel()
	compute := func(gpu string, count, pods int) map[string]any {
		return map[string]any{"gpu_type_id": gpu, "gpu_count_per_pod": count, "pod_count": pods}
	}
	table := map[string]attributeCase{
		"name":            {values: []any{"a", "b"}},
		"type":            {values: []any{"APPLICATION", "SLURM"}},
		"compute":         {values: []any{compute("NVIDIA L4", 1, 3), compute("NVIDIA L4", 2, 3), compute("NVIDIA A40", 2, 2)}},
		"image":           {values: []any{"builtin/echo", "builtin/conformance"}},
		"args":            {values: []any{"print a", "print b"}, removal: "replace"},
		"entrypoint":      {values: []any{[]any{"print"}, []any{"print", "a b"}}, removal: "replace"},
		"cmd":             {values: []any{[]any{"print", "a"}, []any{"print", ""}}, removal: "replace"},
		"disk":            {values: []any{20, 30}, removal: "no-op"},
		"env":             {values: []any{map[string]any{"A": "b"}, map[string]any{"C": "d"}}, removal: "replace"},
		"ports":           {values: []any{[]any{"22/tcp"}, []any{"8000/http"}}, removal: "replace"},
		"mounts":          {values: []any{map[string]any{"persistent": map[string]any{"size": 10, "path": "/a"}}, map[string]any{"persistent": map[string]any{"size": 20, "path": "/a"}}}, removal: "replace"},
		"data_center_ids": {values: []any{[]any{"EU-RO-1"}, []any{"US-TX-3"}}, removal: "update", unreadable: true},
		"start_ssh":       {values: []any{true, false}, removal: "update", unreadable: true},
		"start_jupyter":   {values: []any{true, false}, removal: "update", unreadable: true},
	}
	for name, c := range table {
		c.version, c.others = api.V2, map[string]any{"disk": 50} // because an imported state has it
		for range c.values[1:] {
			c.actions = append(c.actions, map[bool]string{true: "update", false: "replace"}[name == "name"])
		}
		table[name] = c
	}
	testEveryAttribute(t, clusterType, table)
}

func TestClusterPlan(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	expectRejections(t, d, p, clusterType, clusterConfig(nil), []rejection{
		{map[string]any{"image": nil}, "image", "set template_id or image"},
		{map[string]any{"type": "BATCH"}, "type", "expected"},
		{map[string]any{"compute": map[string]any{"gpu_type_id": "g", "gpu_count_per_pod": 1, "pod_count": 1}}, "compute.pod_count", "expected 2 to 250"},
		{map[string]any{"compute": map[string]any{"gpu_type_id": "g", "gpu_count_per_pod": 1, "pod_count": 251}}, "compute.pod_count", "expected 2 to 250"},
		{map[string]any{"compute": map[string]any{"gpu_type_id": "g", "gpu_count_per_pod": 0, "pod_count": 2}}, "compute.gpu_count_per_pod", "expected at least 1"},
		{map[string]any{"mounts": map[string]any{}}, "mounts", "needs persistent or network"},
		{map[string]any{"mounts": map[string]any{"persistent": map[string]any{"size": 9, "path": "/a"}}}, "mounts.persistent.size", "at least 10 GB"},
		{map[string]any{"mounts": map[string]any{"network": []any{map[string]any{"volume_id": "v", "path": "/a"}}}}, "mounts.network", "does not exist"},
	}...)
	expectRejectionOnV1(t, d, clusterType, clusterConfig(nil))
	state := apply(t, p, clusterType, tfdrive.State{}, clusterConfig(nil), "create")
	must.Contain(t, p.Plan(clusterType, state, clusterConfig(map[string]any{"type": "RAY"})).Diagnostics.Warnings(), "type: The cluster will be replaced", state.Get("id").(string))
	imported := importState(t, p, clusterType, state.Get("id").(string))
	for action, variable := range map[string]string{"replace": "A", "update": "PUBLIC_KEY"} { // the pods have no A; an import hides PUBLIC_KEY
		expectPlan(t, p, clusterType, imported, clusterConfig(map[string]any{"env": map[string]any{variable: "b"}}), action)
	}
	noVariables := p.Plan(clusterType, state, clusterConfig(map[string]any{"env": map[string]any{}})).Diagnostics.Warnings()
	must.Hold(t, !strings.Contains(noVariables, "replaced"), "an empty env, which is equal to none:", noVariables)
	expectProtection(t, d, p, clusterType, clusterConfig(map[string]any{"name": "protected"}), map[string]any{"type": "RAY"})
}

func TestClusterOfATemplate(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	templates := d.Client(t, api.V2).Templates
	create := func(name string, serverless bool) string {
		return must.Do(templates.Create(t.Context(), api.Template{Name: name, Image: "builtin/echo", Disk: 7, Env: map[string]string{"A": "1"}, Serverless: serverless}))(t).ID
	}
	one, other, serverless := create("one", false), create("other", false), create("serverless", true)
	config := func(id string) map[string]any { return clusterConfig(map[string]any{"image": nil, "template_id": id}) }
	state := apply(t, p, clusterType, tfdrive.State{}, config(one), "create")
	expectState(t, state, map[string]any{"template": one, "template_id": one, "image": nil, "env": nil})
	expectImport(t, p, state, config(one), false)
	pods, err := d.Client(t, api.V2).Clusters.Pods(t.Context(), state.Get("id").(string))
	must.Hold(t, err == nil && len(pods) == 2 && *pods[1].Container.Disk == 7, "expected two pods with the template's disk of 7 GB, got", pods, err)
	for attribute, v := range map[string]any{
		"image": "builtin/echo", "args": "a", "disk": 9, "env": map[string]any{"B": "1"}, "ports": []any{"80/http"},
		"mounts": map[string]any{"persistent": map[string]any{"size": 10, "path": "/p"}},
	} {
		expectRejection(t, d, p, tfdrive.State{}, clusterType, withChanges(config(one), map[string]any{attribute: v}), attribute, "conflicts with template_id")
	}
	expectRejection(t, d, p, tfdrive.State{}, clusterType, config("nowhere"), "template_id", "does not exist")
	expectRejection(t, d, p, tfdrive.State{}, clusterType, config(serverless), "template_id", "serverless")
	state = apply(t, p, clusterType, state, config(other), "replace")
	expectState(t, state, map[string]any{"template": other})
}

package resources_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// The state shows the size of the pod's machine. A change of the size doesn't change the pod, but
// another minimum replaces it.
func TestPodMachine(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	gpu := func(more map[string]any) map[string]any {
		return map[string]any{"name": d.Name("p"), "image": "builtin/echo", "gpu": with(map[string]any{"id": "NVIDIA L4", "count": 2}, more)}
	}
	state := apply(t, p, "gpucloud_pod", tfdrive.State{}, gpu(map[string]any{"min_ram_per_gpu": 3000, "min_vcpu_count_per_gpu": 5000}), "create")
	expectState(t, state, map[string]any{"gpu.memory": 6000.0, "gpu.vcpu_count": 10000.0})
	state = apply(t, p, state.Type, state, gpu(map[string]any{"min_ram_per_gpu": 3500, "min_vcpu_count_per_gpu": 5000}), "replace")
	state = apply(t, p, state.Type, state, gpu(map[string]any{"min_ram_per_gpu": 3500, "min_vcpu_count_per_gpu": 6000}), "replace")
	expectState(t, state, map[string]any{"gpu.memory": 7000.0, "gpu.vcpu_count": 12000.0})
	for name, low := range map[string]any{"min_ram_per_gpu": 0, "min_vcpu_count_per_gpu": -1} {
		expectRefusal(t, d, p, tfdrive.State{}, "gpucloud_pod", gpu(map[string]any{name: low}), "gpu."+name, "at least 1")
	}
}

// If the configuration alone exceeds the size limit, the plan reports an error at the largest
// attribute.
func TestPodTooLarge(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	config := func(changes map[string]any) map[string]any {
		return with(map[string]any{"name": "p", "image": "builtin/echo", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}}, changes)
	}
	long := strings.Repeat("x", contract.MaxPodBody)
	limit := fmt.Sprintf("at most %d bytes", contract.MaxPodBody)
	for attribute, changes := range map[string]map[string]any{
		"env": {"env": map[string]any{"A": long}}, "args": {"args": long, "env": map[string]any{"A": "b"}}, "env_wo": {"env_wo": map[string]any{"A": long}, "env_wo_version": 1},
	} {
		expectRefusal(t, d, p, tfdrive.State{}, "gpucloud_pod", config(changes), attribute, limit)
	}
	half := strings.Repeat("x", contract.MaxPodBody/2)
	expectRefusal(t, d, p, tfdrive.State{}, "gpucloud_pod", config(map[string]any{"args": half, "env": map[string]any{"A": half + "x"}}), "env", limit)
	state := apply(t, p, "gpucloud_pod", tfdrive.State{}, config(map[string]any{"env": map[string]any{"A": half}}), "create")
	state = apply(t, p, state.Type, state, config(map[string]any{"env": map[string]any{"A": long}}), "update") // the limit applies only to a create
	expectRefusal(t, d, p, state, state.Type, config(map[string]any{"env": map[string]any{"A": long}, "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 4}}), "env", limit)
}

func TestClusterOfATemplate(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	templates := d.Client(t, api.V2).Templates
	make := func(name string, serverless bool) string {
		created := must.Do(templates.Create(t.Context(), api.Template{Name: name, Image: "builtin/echo", Disk: 7, Env: map[string]string{"A": "1"}, Serverless: serverless}))(t)
		return created.ID
	}
	one, other, serverless := make("one", false), make("other", false), make("serverless", true)
	config := func(id string) map[string]any { return clusterConfig(map[string]any{"image": nil, "template_id": id}) }
	state := apply(t, p, clusterType, tfdrive.State{}, config(one), "create")
	expectState(t, state, map[string]any{"template": one, "template_id": one, "image": nil, "env": nil})
	expectImport(t, p, state, config(one), false)
	pods, err := d.Client(t, api.V2).Clusters.Pods(t.Context(), state.Get("id").(string))
	must.Hold(t, err == nil && len(pods) == 2 && *pods[1].Container.Disk == 7, pods, err)
	for attribute, v := range map[string]any{
		"image": "builtin/echo", "args": "a", "disk": 9, "env": map[string]any{"B": "1"}, "ports": []any{"80/http"},
		"mounts": map[string]any{"persistent": map[string]any{"size": 10, "path": "/p"}},
	} {
		expectRefusal(t, d, p, tfdrive.State{}, clusterType, with(config(one), map[string]any{attribute: v}), attribute, "conflicts with template_id")
	}
	expectRefusal(t, d, p, tfdrive.State{}, clusterType, clusterConfig(map[string]any{"image": nil}), "image", "set image or template_id")
	expectRefusal(t, d, p, tfdrive.State{}, clusterType, config("nowhere"), "template_id", "does not exist")
	expectRefusal(t, d, p, tfdrive.State{}, clusterType, config(serverless), "template_id", "serverless")
	state = apply(t, p, clusterType, state, config(other), "replace")
	expectState(t, state, map[string]any{"template": other})
}

package fire

import (
	"maps"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// nodeSource returns the nodes of a configuration, or of its changed form.
type nodeSource func(v api.Version, changed bool) []node

// configurations are the configurations that the schedules apply. Kinds without unique names
// occur twice with equal settings. The changed form has other settings and names.
var configurations = []struct {
	name  string
	nodes nodeSource
}{
	{"serverless", serverless},
	{"pods", pods},
}

// choose returns before for a configuration and after for its changed form.
func choose(changed bool, before, after any) any {
	if changed {
		return after
	}
	return before
}

func volume(address string, changed bool) node {
	return node{address, "gpucloud_network_volume", nil, func(func(string) any) map[string]any {
		return map[string]any{"name": "models", "size": choose(changed, 10, 20), "data_center": "EU-RO-1"}
	}}
}

func auth(name any) node {
	return node{"auth", "gpucloud_registry_auth", nil, func(func(string) any) map[string]any {
		return map[string]any{"name": name, "username": "u", "password": "planted-password"}
	}}
}

func serverless(_ api.Version, changed bool) []node {
	endpoint := func(address string) node {
		return node{address, "gpucloud_endpoint", []string{"template", "volume_a"}, func(id func(string) any) map[string]any {
			return map[string]any{
				"name": "work", "template_id": id("template"), "network_volumes": []any{id("volume_a")}, "data_center_ids": []any{"EU-RO-1"},
				"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}, "workers": map[string]any{"min": 0, "max": choose(changed, 1, 2)},
			}
		}}
	}
	return []node{
		auth(choose(changed, "images", "other-images")), volume("volume_a", changed), volume("volume_b", changed),
		{"template", "gpucloud_template", []string{"auth"}, func(id func(string) any) map[string]any {
			return map[string]any{
				"name": "work", "image": "builtin/echo", "serverless": true, "registry": id("auth"), "env": map[string]any{"A": choose(changed, "1", "2")},
			}
		}},
		endpoint("endpoint_a"), endpoint("endpoint_b"),
	}
}

// pods is a configuration of pods on CPUs, which run at once. The auth keeps its name, because
// the API can't delete an auth that a pod uses.
func pods(v api.Version, changed bool) []node {
	pod := func(address string, differs map[string]any) node {
		return node{address, "gpucloud_pod", []string{"auth", "volume_a"}, func(id func(string) any) map[string]any {
			config := map[string]any{
				"name": "work", "image": "builtin/echo", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}, "registry": id("auth"),
				"mounts": map[string]any{"network": []any{map[string]any{"volume_id": id("volume_a"), "path": "/data"}}},
			}
			maps.Copy(config, differs)
			return config
		}}
	}
	env := map[string]any{"env": map[string]any{"A": choose(changed, "1", "2")}}
	nodes := []node{
		auth("images"), volume("volume_a", changed), pod("pod_a", env), pod("pod_b", env),
		pod("pod_stops", map[string]any{"desired_state": choose(changed, api.PodRunning, api.PodExited)}),
	}
	if v == api.V1 {
		return nodes
	}
	delegation := func(address string) node {
		return node{address, "gpucloud_registry_delegation", nil, func(func(string) any) map[string]any {
			return map[string]any{"name": choose(changed, "images", "other-images"), "resource": "arn:aws:ecr:us-east-2:123456789012:repository/app"}
		}}
	}
	cluster := func(address string) node {
		return node{address, "gpucloud_cluster", nil, func(func(string) any) map[string]any {
			return map[string]any{
				"name": choose(changed, "ring", "other-ring"), "type": "TRAINING", "image": "builtin/echo",
				"compute": map[string]any{"gpu_type_id": "NVIDIA L4", "gpu_count_per_pod": 1, "pod_count": 2},
			}
		}}
	}
	nodes = append(nodes,
		node{"secret", "gpucloud_secret", nil, func(func(string) any) map[string]any {
			return map[string]any{"name": "token", "description": choose(changed, "one", "two"), "value_wo": choose(changed, "first", "second"), "value_wo_version": choose(changed, 1, 2)}
		}},
		node{"global", "gpucloud_global_volume", nil, func(func(string) any) map[string]any {
			return map[string]any{"name": choose(changed, "models", "other-models")}
		}})
	return append(nodes, delegation("delegation_a"), delegation("delegation_b"), cluster("cluster_a"), cluster("cluster_b"),
		node{"keys", "gpucloud_ssh_keys", nil, func(func(string) any) map[string]any {
			return map[string]any{"keys": []any{ownKey, choose(changed, otherOwnKey, thirdOwnKey)}, "keep_others": true}
		}})
}

// SSH keys of the account: configured ones and a foreign one.
const (
	keyBytes    = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl "
	ownKey      = keyBytes + "me@example.com"
	otherOwnKey = keyBytes + "other@example.com"
	thirdOwnKey = keyBytes + "third@example.com"
	foreignKey  = keyBytes + "somebody@example.com"
)

// withoutForeign removes the foreign key and reports whether it was present.
func withoutForeign(keys []string) (own []string, found bool) {
	own = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == foreignKey })
	return own, len(own) < len(keys)
}

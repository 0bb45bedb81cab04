package provider_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/resources"
)

// typeOf names the resource type of each resource of the contract that is
// managed.
var typeOf = map[string]string{
	"template":      "gpucloud_template",
	"networkVolume": "gpucloud_network_volume",
	"registryAuth":  "gpucloud_registry_auth",
	"endpoint":      "gpucloud_endpoint",
	"pod":           "gpucloud_pod",
	"cluster":       "gpucloud_cluster",
	"delegation":    "gpucloud_registry_delegation",
	"secret":        "gpucloud_secret",
	"globalVolume":  "gpucloud_global_volume",
}

// renamed says where v1's members stand in the schema. v2's are their wire
// names in snake_case.
var renamed = map[string]string{
	"template.imageName":               "image",
	"template.containerDiskInGb":       "disk",
	"template.containerRegistryAuthId": "registry",
	"template.dockerStartCmd":          "args",
	"template.isPublic":                "public",
	"template.isServerless":            "serverless",
	"template.volumeInGb":              "mounts.persistent.size",
	"template.volumeMountPath":         "mounts.persistent.path",
	"networkVolume.dataCenterId":       "data_center",
	"endpoint.computeType":             "cpu",
	"endpoint.cpuFlavorIds":            "cpu.id",
	"endpoint.vcpuCount":               "cpu.vcpu_count",
	"endpoint.gpuTypeIds":              "gpu.type_ids",
	"endpoint.gpuCount":                "gpu.count",
	"endpoint.allowedCudaVersions":     "gpu.allowed_cuda_versions",
	"endpoint.minCudaVersion":          "gpu.min_cuda_version",
	"endpoint.executionTimeoutMs":      "timeout",
	"endpoint.scalerType":              "scaling.type",
	"endpoint.scalerValue":             "scaling.queue_delay",
	"endpoint.workersMin":              "workers.min",
	"endpoint.workersMax":              "workers.max",
	"endpoint.idleTimeout":             "workers.idle_timeout",
	"endpoint.networkVolumeId":         "network_volumes",
	"endpoint.networkVolumeIds":        "network_volumes",
	"pod.imageName":                    "image",
	"pod.image":                        "image",
	"pod.containerDiskInGb":            "disk",
	"pod.containerRegistryAuthId":      "registry",
	"pod.dockerStartCmd":               "args",
	"pod.volumeInGb":                   "mounts.persistent.size",
	"pod.volumeMountPath":              "mounts.persistent.path",
	"pod.networkVolumeId":              "mounts.network.volume_id",
	"pod.networkVolume":                "mounts.network",
	"pod.networkVolume.id":             "mounts.network.volume_id",
	"pod.globalNetworking":             "global_networking.enabled",
	"pod.computeType":                  "cpu",
	"pod.gpuTypeIds":                   "gpu.id",
	"pod.gpuCount":                     "gpu.count",
	"pod.allowedCudaVersions":          "gpu.allowed_cuda_versions",
	"pod.cpuFlavorIds":                 "cpu.id",
	"pod.cpuFlavorId":                  "cpu.id",
	"pod.vcpuCount":                    "cpu.vcpu_count",
	"pod.memoryInGb":                   "cpu.memory",
	"pod.cloudType":                    "cloud",
	"pod.minRAMPerGPU":                 "min_ram_per_gpu",
	"pod.minVCPUPerGPU":                "min_vcpu_per_gpu",
	"pod.costPerHr":                    "cost",
	"pod.desiredStatus":                "desired_state",
	"pod.portMappings":                 "runtime.ports.public",
	"pod.publicIp":                     "runtime.ports.ip",
	"pod.machine.dataCenterId":         "data_center_id",
	"pod.machine.secureCloud":          "cloud",
	// The job API's addresses are read as one.
	"endpoint.requestUrls.runSync":    "request_urls.run_sync",
	"endpoint.requestUrls.purgeQueue": "request_urls.purge_queue",
}

// attributeOf is the attribute of a member.
func attributeOf(f contract.Field, wire string) string {
	name, ok := renamed[f.Resource+"."+wire]
	switch {
	case f.Resource == "secret" && wire == "value":
		return "value_wo" // no answer has it
	case ok && f.API == contract.V1:
		return name
	}
	return snake(wire)
}

// left out, with the reason why.
var leftOut = map[string]string{
	"v1 template.earned":                    "v1 alone returns it, and the state does not depend on the version",
	"v1 template.isRunpod":                  "v1 alone returns it, and the state does not depend on the version",
	"v1 template.isPlatform":                "v1 alone returns it, and the state does not depend on the version",
	"v1 template.runtimeInMin":              "v1 alone returns it, and the state does not depend on the version",
	"v1 endpoint.env":                       "v1 returns what the template says; no request can set it",
	"v1 endpoint.instanceIds":               "v1 alone returns it; cpu says the same",
	"v1 endpoint.template":                  "the template is a resource of its own",
	"v1 endpoint.userId":                    "v1 alone returns it, and the state does not depend on the version",
	"v1 endpoint.version":                   "v1 alone returns it, and the state does not depend on the version",
	"v1 endpoint.workers":                   "workers come and go by themselves; they are no part of what is managed",
	"v2 endpoint.cpu.memory":                "follows from id and vcpu_count",
	"v1 pod.template":                       "of the machine, the catalog or the account, and no setting",
	"v1 pod.lastStatusChange":               "of the machine, the catalog or the account, and no setting",
	"v1 pod.lastStartedAt":                  "of the machine, the catalog or the account, and no setting",
	"v1 pod.endpointId":                     "of the machine, the catalog or the account, and no setting",
	"v1 pod.aiApiId":                        "of the machine, the catalog or the account, and no setting",
	"v1 pod.slsVersion":                     "of the machine, the catalog or the account, and no setting",
	"v1 pod.consumerUserId":                 "of the machine, the catalog or the account, and no setting",
	"v1 pod.adjustedCostPerHr":              "of the machine, the catalog or the account, and no setting",
	"v1 pod.savingsPlans":                   "of the machine, the catalog or the account, and no setting",
	"v1 pod.machineId":                      "of the machine, the catalog or the account, and no setting",
	"v1 pod.volumeEncrypted":                "of the machine, the catalog or the account, and no setting",
	"v1 pod.networkVolume.name":             "of the machine, the catalog or the account, and no setting",
	"v1 pod.networkVolume.size":             "of the machine, the catalog or the account, and no setting",
	"v1 pod.networkVolume.dataCenterId":     "of the machine, the catalog or the account, and no setting",
	"v1 pod.gpu.displayName":                "of the machine, the catalog or the account, and no setting",
	"v1 pod.gpu.securePrice":                "of the machine, the catalog or the account, and no setting",
	"v1 pod.gpu.communityPrice":             "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine":                        "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.gpuTypeId":              "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.gpuType":                "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.gpuType.id":             "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.gpuType.count":          "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.gpuType.displayName":    "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.gpuType.securePrice":    "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.gpuType.communityPrice": "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.gpuDisplayName":         "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.gpuAvailable":           "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.cpuCount":               "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.cpuTypeId":              "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.minPodGpuCount":         "of the machine, the catalog or the account, and no setting",
	"v1 pod.machine.costPerHr":              "of the machine, the catalog or the account, and no setting",
	"v2 pod.actions":                        "follows from status",
	"v2 pod.reason":                         "changes while the pod waits: the data source of pods has it",
	"v2 pod.cudaVersion":                    "the machine's",
	"v2 pod.template":                       "template_id, of an imported pod",
	"v2 pod.cluster":                        "members of clusters are managed by their cluster",
	"v2 pod.cluster.id":                     "as cluster",
	"v2 pod.cluster.rank":                   "as cluster",
	"v2 pod.cluster.role":                   "as cluster",
	"v2 pod.cluster.ip":                     "as cluster",
	"v2 pod.runtime.uptime":                 "changes all the time",
	"v2 pod.runtime.gpus":                   "changes all the time",
	"v2 pod.runtime.gpus.util":              "changes all the time",
	"v2 pod.runtime.gpus.memoryUtil":        "changes all the time",
	"v2 pod.runtime.cpu":                    "changes all the time",
	"v2 pod.runtime.cpu.util":               "changes all the time",
	"v2 pod.runtime.memory":                 "changes all the time",
	"v2 pod.runtime.memory.util":            "changes all the time",
	"v2 pod.startedAt":                      "changes with each start",
}

func TestSchemaKnowsTheContract(t *testing.T) {
	noVariables(t)
	p := start(t, map[string]any{"base_url": "http://127.0.0.1:1", "api_key": "k"})
	used := map[string]bool{}
	for _, f := range contract.Fields {
		typeName, managed := typeOf[f.Resource]
		if !managed || f.API == contract.Jobs {
			continue
		}
		wire := strings.ReplaceAll(f.Path, "[]", "")
		if reason := string(f.API) + " " + f.Resource + "." + wire; leftOut[reason] != "" {
			used[reason] = true
			if f.In(contract.Create) || f.In(contract.Update) {
				t.Errorf("%s is left out although a request sets it", reason)
			}
			continue
		}
		name := attributeOf(f, wire)
		a := attribute(p.Schema(typeName).Block.Attributes, strings.Split(name, "."))
		if a == nil {
			t.Errorf("%s %s.%s: the schema of %s has no %s", f.API, f.Resource, f.Path, typeName, name)
			continue
		}
		if (f.In(contract.Create) || f.In(contract.Update)) && !a.Optional && !a.Required {
			t.Errorf("%s %s.%s can be set by a request, and not in the configuration", f.API, f.Resource, f.Path)
		}
		if f.API == contract.V2 {
			agrees(t, f, name, a)
		}
	}
	for reason := range leftOut {
		if !used[reason] {
			t.Errorf("%s is left out, and the contract has no such field", reason)
		}
	}
}

// inBoth are attributes that the contract has in one version's requests alone, by these
// names, and the provider expresses in both.
var inBoth = map[string]string{
	"gpucloud_endpoint.gpu.type_ids":          "v2 selects by pool, and the client translates",
	"gpucloud_endpoint.scaling.request_count": "v1 has scalerValue for both types of scaling",
	"gpucloud_pod.global_networking.enabled":  "v2 has an object, whose members are answers",
	"gpucloud_pod.mounts.network.path":        "v1 has volumeMountPath for both kinds of mounts",
}

// An attribute that the requests of one version alone have is refused in a plan of the
// other one, by planrule.Only.
func TestOneVersionIsDeclared(t *testing.T) {
	declared := map[string]bool{}
	for _, kind := range resources.All {
		var named resource.MetadataResponse
		kind.Resource().Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: "gpucloud"}, &named)
		for _, o := range kind.OneVersion() {
			declared[named.TypeName+"."+o.Attribute] = true
		}
	}
	versions := map[string][]contract.API{} // of each attribute
	has := map[string]map[contract.API]bool{}
	for _, f := range contract.Fields {
		typeName := typeOf[f.Resource]
		if typeName == "" || f.API == contract.Jobs {
			continue
		}
		if has[typeName] == nil {
			has[typeName] = map[contract.API]bool{}
		}
		has[typeName][f.API] = true
		wire := strings.ReplaceAll(f.Path, "[]", "")
		name, ok := renamed[f.Resource+"."+wire]
		if !ok || f.API == contract.V2 {
			name = snake(wire)
		}
		for ; name != "" && f.Use&(contract.Create|contract.Update) != 0; name = name[:max(strings.LastIndex(name, "."), 0)] {
			if key := typeName + "." + name; !slices.Contains(versions[key], f.API) {
				versions[key] = append(versions[key], f.API)
			}
		}
	}
	for attribute, of := range versions {
		typeName, _, _ := strings.Cut(attribute, ".")
		switch {
		case len(of) != 1 || len(has[typeName]) != 2:
		case declared[attribute] == (inBoth[attribute] != ""):
			t.Errorf("%s is of requests of API %s alone: add it to the planrule.Only of its kind, or to inBoth with the reason", attribute, of[0])
		}
	}
}

// agrees compares what the documentation of an attribute says of its default
// with the contract, and that a closed list of values is named in full.
func agrees(t *testing.T, f contract.Field, name string, a *tfprotov6.SchemaAttribute) {
	t.Helper()
	if len(f.Enum) > 0 && !f.Open {
		for _, v := range f.Enum {
			if !strings.Contains(a.Description, v) {
				t.Errorf("%s.%s may be %s, which the description of %s does not name", f.Resource, f.Path, v, name)
			}
		}
	}
}

// Every bound, closed list and pattern of a field is refused in the plan one
// step beyond, and accepted at the border; every default is what a plan fills
// in.
func TestSchemaKeepsTheBounds(t *testing.T) {
	noVariables(t)
	least := map[string]map[string]any{
		"template":      {"name": "t", "image": "i"},
		"networkVolume": {"name": "v", "size": 10, "data_center": "EU-RO-1"},
		"registryAuth":  {"name": "r", "username": "u", "password": "p"},
		"endpoint":      {"name": "e", "template_id": "t"},
		"pod":           {"name": "p", "image": "i", "gpu": map[string]any{"id": "NVIDIA L4"}},
		"cluster":       {"name": "c", "type": "RAY", "image": "i", "compute": map[string]any{"gpu_type_id": "NVIDIA L4", "gpu_count_per_pod": 1, "pod_count": 2}},
		"secret":        {"name": "s", "value_wo": "v", "value_wo_version": 1},
		"globalVolume":  {"name": "g"},
		"delegation":    {"resource": "arn:aws:ecr:us-east-2:123456789012:repository/app"},
	}
	// beside is what an attribute needs beside it.
	beside := map[string]map[string]any{
		"gpu":                    {"type_ids": []any{"NVIDIA L4"}},
		"cpu.id":                 {"vcpu_count": 2},
		"cpu.vcpu_count":         {"id": "cpu3c"},
		"mounts.persistent.size": {"path": "/x"},
		"mounts.persistent.path": {"size": 10},
	}
	checked := 0
	d := acctest.Deploy(t)
	for _, v := range []api.Version{api.V1, api.V2} {
		p := start(t, d.Settings(v))
		for _, f := range contract.Fields {
			typeName := typeOf[f.Resource]
			if typeName == "" || f.API != contract.API(v) || !f.In(contract.Create) || f.Type == "array" || f.Type == "object" || f.Type == "map" || strings.Contains(f.Path, "[]") {
				continue
			}
			name := attributeOf(f, f.Path)
			plan := func(value any) tfdrive.Diagnostics {
				config := clone(least[f.Resource])
				if f.Path == "scaling.requestCount" {
					config["scaling"] = map[string]any{"type": "REQUEST_COUNT"}
				}
				set(config, strings.Split(name, "."), value, beside)
				return p.Plan(typeName, tfdrive.State{}, config).Diagnostics
			}
			try := func(value any, accepted bool) {
				t.Helper()
				checked++
				err := plan(value).Err()
				refusedHere := err != nil && strings.Contains(err.Error(), name+":")
				if refusedHere == accepted {
					t.Errorf("%s %s.%s = %v: accepted should be %v, said %v", v, f.Resource, f.Path, value, accepted, err)
				}
			}
			key := string(v) + " " + f.Resource + "." + f.Path
			if f.Type == "integer" || f.Type == "number" {
				step := 1.0
				if f.Type == "number" {
					step = 0.1
				}
				if f.Min != nil && borders[key] == "" {
					try(*f.Min, true)
					try(*f.Min-step, false)
				}
				if f.Max != nil {
					try(*f.Max, true)
					try(*f.Max+step, false)
				}
			}
			if f.Type == "string" && f.Min != nil && *f.Min > 0 {
				try("", false)
			}
			if f.Type == "string" && f.Max != nil {
				try(strings.Repeat("x", int(*f.Max)), true)
				try(strings.Repeat("x", int(*f.Max)+1), false)
			}
			if len(f.Enum) > 0 && !f.Open && borders[key] == "" {
				for _, e := range f.Enum {
					if name != "scaling.type" {
						try(e, true)
					}
				}
				try("NONE_OF_THESE", false)
			}
			if f.Default != "" && borders["default "+key] == "" {
				var want any
				if err := json.Unmarshal([]byte(f.Default), &want); err != nil {
					t.Fatal(err)
				}
				if want == "" || reflect.DeepEqual(want, []any{}) || reflect.DeepEqual(want, map[string]any{}) {
					want = nil
				}
				config := clone(least[f.Resource])
				if parent, _, nested := strings.Cut(name, "."); nested && config[parent] == nil && beside[parent] != nil {
					config[parent] = maps.Clone(beside[parent])
				}
				checked++
				if got := p.Plan(typeName, tfdrive.State{}, config).Get(name); !reflect.DeepEqual(got, want) {
					t.Errorf("%s %s.%s defaults to %v, and the plan says %v", v, f.Resource, f.Path, want, got)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d values were tried", checked)
	}
}

// borders are the exceptions, with the reason why.
var borders = map[string]string{
	"v1 template.volumeInGb":                 "0 is no mount, which the configuration says by leaving mounts out",
	"default v1 template.volumeInGb":         "no mount unless one is configured, on both versions",
	"default v1 template.volumeMountPath":    "no mount unless one is configured, on both versions",
	"default v1 template.ports":              "no ports unless they are configured, on both versions",
	"default v1 endpoint.idleTimeout":        "the versions state different ones; the provider sends v2's on both",
	"v1 endpoint.computeType":                "follows from which of gpu and cpu is configured",
	"default v1 endpoint.computeType":        "follows from which of gpu and cpu is configured",
	"default v1 endpoint.vcpuCount":          "required in a cpu block",
	"default v1 endpoint.flashboot":          "a boolean there: false is OFF",
	"default v1 endpoint.executionTimeoutMs": "0 is never set, which the configuration says by leaving timeout out",
	"default v2 endpoint.timeout":            "0 is never set, which the configuration says by leaving timeout out",
	"v1 endpoint.flashboot":                  "a boolean there",
	"default v1 pod.name":                    "required, as on v2",
	"default v1 pod.globalNetworking":        "left out it is not sent",
	"v1 pod.volumeInGb":                      "0 is no mount, which the configuration says by leaving mounts out",
	"default v1 pod.volumeInGb":              "no mount unless one is configured, on both versions",
	"default v1 pod.volumeMountPath":         "no mount unless one is configured, on both versions",
	"v1 pod.computeType":                     "follows from which of gpu and cpu is configured",
	"default v1 pod.computeType":             "follows from which of gpu and cpu is configured",
	"default v1 pod.gpuTypePriority":         "left out it is the server's, as no answer tells what an imported pod has",
	"default v1 pod.cpuFlavorPriority":       "left out it is the server's, as no answer tells what an imported pod has",
	"default v1 pod.dataCenterPriority":      "left out it is the server's, as no answer tells what an imported pod has",
	"default v1 pod.minRAMPerGPU":            "left out it is the server's, as no answer tells what an imported pod has",
	"default v1 pod.minVCPUPerGPU":           "left out it is the server's, as no answer tells what an imported pod has",
	"default v1 pod.interruptible":           "left out it is the server's, as no answer tells what an imported pod has",
	"default v2 pod.startJupyter":            "left out it is the server's, as no answer tells what an imported pod has",
	"default v2 pod.startSsh":                "left out it is the server's, as no answer tells what an imported pod has",
	"default v2 cluster.startJupyter":        "left out it is the server's, as no answer tells what an imported pod has",
	"default v2 cluster.startSsh":            "left out it is the server's, as no answer tells what an imported pod has",
	"v1 endpoint.vcpuCount":                  "tried in the tests of cpu",
}

// clone copies a configuration with its nested blocks.
func clone(config map[string]any) map[string]any {
	out := maps.Clone(config)
	for name, v := range out {
		if nested, ok := v.(map[string]any); ok {
			out[name] = clone(nested)
		}
	}
	return out
}

// set puts a value at a path of a configuration.
func set(config map[string]any, path []string, value any, beside map[string]map[string]any) {
	at := config
	for i, name := range path[:len(path)-1] {
		next, ok := at[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			maps.Copy(next, beside[strings.Join(path[:i+1], ".")])
		}
		at[name] = next
		at = next
	}
	maps.Copy(at, beside[strings.Join(path, ".")])
	at[path[len(path)-1]] = value
}

func attribute(in []*tfprotov6.SchemaAttribute, path []string) *tfprotov6.SchemaAttribute {
	i := slices.IndexFunc(in, func(a *tfprotov6.SchemaAttribute) bool { return a.Name == path[0] })
	switch {
	case i < 0:
		return nil
	case len(path) == 1:
		return in[i]
	case in[i].NestedType == nil:
		return nil
	}
	return attribute(in[i].NestedType.Attributes, path[1:])
}

var capitals = regexp.MustCompile(`[A-Z]+`)

func snake(wire string) string {
	return capitals.ReplaceAllStringFunc(wire, func(s string) string { return "_" + strings.ToLower(s) })
}

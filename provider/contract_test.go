package provider_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// typeOf names the resource type of each resource of the contract that is
// managed.
var typeOf = map[string]string{
	"template":      "gpucloud_template",
	"networkVolume": "gpucloud_network_volume",
	"registryAuth":  "gpucloud_registry_auth",
	"endpoint":      "gpucloud_endpoint",
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
	// The job API's addresses are read as one.
	"endpoint.requestUrls.runSync":    "request_urls.run_sync",
	"endpoint.requestUrls.purgeQueue": "request_urls.purge_queue",
}

// left out, with the reason why.
var leftOut = map[string]string{
	"v1 template.earned":       "v1 alone returns it, and the state does not depend on the version",
	"v1 template.isRunpod":     "v1 alone returns it, and the state does not depend on the version",
	"v1 template.isPlatform":   "v1 alone returns it, and the state does not depend on the version",
	"v1 template.runtimeInMin": "v1 alone returns it, and the state does not depend on the version",
	"v1 endpoint.env":          "v1 returns what the template says; no request can set it",
	"v1 endpoint.instanceIds":  "v1 alone returns it; cpu says the same",
	"v1 endpoint.template":     "the template is a resource of its own",
	"v1 endpoint.userId":       "v1 alone returns it, and the state does not depend on the version",
	"v1 endpoint.version":      "v1 alone returns it, and the state does not depend on the version",
	"v1 endpoint.workers":      "workers come and go by themselves; they are no part of what is managed",
	"v2 endpoint.cpu.memory":   "follows from id and vcpu_count",
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
		name, ok := renamed[f.Resource+"."+wire]
		if !ok || f.API == contract.V2 {
			name = snake(wire)
		}
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
	}
	// beside is what an attribute needs beside it.
	beside := map[string]map[string]any{
		"gpu":                    {"type_ids": []any{"NVIDIA L4"}},
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
			name, ok := renamed[f.Resource+"."+f.Path]
			if !ok || v == api.V2 {
				name = snake(f.Path)
			}
			plan := func(value any) tfdrive.Diagnostics {
				config := maps.Clone(least[f.Resource])
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
				config := maps.Clone(least[f.Resource])
				if parent, _, nested := strings.Cut(name, "."); nested && beside[parent] != nil {
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
	"v1 endpoint.vcpuCount":                  "tried in the tests of cpu",
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

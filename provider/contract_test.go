package provider_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
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

// attributesOf are the attributes that a member stands in: v2's wire names in snake_case.
func attributesOf(f contract.Field) (names []string) {
	if f.Resource == "secret" && f.Path == "value" {
		return []string{"value_wo"} // no answer has it
	}
	for _, path := range f.Neutral() {
		names = append(names, snake(strings.ReplaceAll(path, "[]", "")))
	}
	return names
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
		name := attributesOf(f)[0]
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
// other one, by planrule.OneVersion.
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
		for _, name := range attributesOf(f) {
			for ; name != "" && f.Use&(contract.Create|contract.Update) != 0; name = name[:max(strings.LastIndex(name, "."), 0)] {
				if key := typeName + "." + name; !slices.Contains(versions[key], f.API) {
					versions[key] = append(versions[key], f.API)
				}
			}
		}
	}
	for attribute, of := range versions {
		typeName, _, _ := strings.Cut(attribute, ".")
		switch {
		case len(of) != 1 || len(has[typeName]) != 2:
		case declared[attribute] == (inBoth[attribute] != ""):
			t.Errorf("%s is of requests of API %s alone: add it to the planrule.OneVersion of its kind, or to inBoth with the reason", attribute, of[0])
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

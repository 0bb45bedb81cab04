package provider_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/resources"
)

// typeOf maps the contract's managed resources to resource types.
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

// attributesOf returns the attributes of a member of the API. Their names are v2's in snake_case.
func attributesOf(f contract.Field) (names []string) {
	if f.Resource == "secret" && f.Path == "value" {
		return []string{"value_wo"} // no response has it
	}
	for _, path := range f.Neutral() {
		names = append(names, capitals.ReplaceAllStringFunc(strings.ReplaceAll(path, "[]", ""), func(s string) string { return "_" + strings.ToLower(s) }))
	}
	return names
}

// omittedMembers lists members that no attribute has, with their own members and the reason.
var omittedMembers = []string{
	// Only v1 returns these, and the state doesn't depend on the version.
	"v1 template.earned", "v1 template.isRunpod", "v1 template.isPlatform", "v1 template.runtimeInMin", "v1 endpoint.userId", "v1 endpoint.version",
	// These are properties of the machine, the catalog or the account.
	"v1 pod.template", "v1 pod.lastStatusChange", "v1 pod.lastStartedAt", "v1 pod.endpointId", "v1 pod.aiApiId", "v1 pod.slsVersion", "v1 pod.consumerUserId",
	"v1 pod.adjustedCostPerHr", "v1 pod.savingsPlans", "v1 pod.machineId", "v1 pod.volumeEncrypted", "v1 pod.networkVolume.name", "v1 pod.networkVolume.size",
	"v1 pod.networkVolume.dataCenterId", "v1 pod.gpu.displayName", "v1 pod.gpu.securePrice", "v1 pod.gpu.communityPrice", "v1 pod.machine", "v2 pod.cudaVersion",
	// These change all the time.
	"v2 pod.runtime.uptime", "v2 pod.runtime.gpus", "v2 pod.runtime.cpu", "v2 pod.runtime.memory",

	"v1 endpoint.env",         // v1 returns the template's variables; no request can set it
	"v1 endpoint.instanceIds", // only v1 returns it; cpu has the same
	"v1 endpoint.template",    // the template is a resource
	"v1 endpoint.workers",     // workers start and end by themselves and aren't managed
	"v2 endpoint.cpu.memory",  // follows from id and vcpu_count
	"v2 pod.actions",          // follows from status
	"v2 pod.reason",           // changes while the pod waits
	"v2 pod.template",         // template_id of an imported pod
	"v2 pod.cluster",          // the cluster manages its pods
	"v2 pod.startedAt",        // changes with each start
}

func TestSchemaCoversTheContract(t *testing.T) {
	clearVariables(t)
	p := start(t, map[string]any{"base_url": "http://127.0.0.1:1", "api_key": "k"})
	used := map[string]bool{}
	for _, f := range contract.Fields {
		typeName, managed := typeOf[f.Resource]
		if !managed || f.API == contract.Jobs {
			continue
		}
		wire := strings.ReplaceAll(f.Path, "[]", "")
		if entry := omittedBy(string(f.API) + " " + f.Resource + "." + wire); entry != "" {
			used[entry] = true
			must.Hold(t, !f.In(contract.Create) && !f.In(contract.Update), entry, "is left out, but a request sets", wire)
			continue
		}
		name := attributesOf(f)[0]
		a := attribute(p.Schema(typeName).Block.Attributes, strings.Split(name, "."))
		must.Require(t, a != nil, f.API, f.Resource, f.Path, "the schema of", typeName, "has no", name)
		sets := f.In(contract.Create) || f.In(contract.Update)
		must.Hold(t, !sets || a.Optional || a.Required, f.API, f.Resource, f.Path, "can be set by a request, but not in the configuration")
		if f.API == contract.V2 && !f.Open {
			for _, v := range f.Enum {
				must.Hold(t, strings.Contains(a.Description, v), f.Resource, f.Path, "may be", v, "which the description of", name, "does not name")
			}
		}
	}
	for _, entry := range omittedMembers {
		must.Hold(t, used[entry], entry, "is left out, but the contract has no such field")
	}
}

// omittedBy returns the entry of omittedMembers for a member or for an object that contains it, or "".
func omittedBy(member string) string {
	for ; member != ""; member = member[:max(strings.LastIndex(member, "."), 0)] {
		if slices.Contains(omittedMembers, member) {
			return member
		}
	}
	return ""
}

// sentToBoth lists attributes of one version's requests that the provider sends to both, with the reason.
var sentToBoth = map[string]string{
	"gpucloud_endpoint.gpu.type_ids":          "v2 selects by pool, and the client translates",
	"gpucloud_endpoint.scaling.request_count": "v1 has scalerValue for both types of scaling",
	"gpucloud_pod.global_networking.enabled":  "v2 has an object whose other members only responses have",
	"gpucloud_pod.mounts.network.path":        "v1 has volumeMountPath for both kinds of mounts",
}

// planrule.OneVersion lists an attribute of only one version, and a plan for the other version rejects it.
func TestOneVersionIsDeclared(t *testing.T) {
	declared := map[string]bool{}
	for _, kind := range resources.All {
		var metadata resource.MetadataResponse
		kind.Resource().Metadata(t.Context(), resource.MetadataRequest{ProviderTypeName: "gpucloud"}, &metadata)
		for _, o := range kind.OneVersion() {
			declared[metadata.TypeName+"."+o.Attribute] = true
		}
	}
	versions := map[string][]contract.API{} // of each attribute
	apisOf := map[string]map[contract.API]bool{}
	for _, f := range contract.Fields {
		typeName := typeOf[f.Resource]
		if typeName == "" || f.API == contract.Jobs {
			continue
		}
		if apisOf[typeName] == nil {
			apisOf[typeName] = map[contract.API]bool{}
		}
		apisOf[typeName][f.API] = true
		for _, name := range attributesOf(f) {
			for ; name != "" && f.Use&(contract.Create|contract.Update) != 0; name = name[:max(strings.LastIndex(name, "."), 0)] {
				if key := typeName + "." + name; !slices.Contains(versions[key], f.API) {
					versions[key] = append(versions[key], f.API)
				}
			}
		}
	}
	for attribute, apis := range versions {
		typeName, _, _ := strings.Cut(attribute, ".")
		switch {
		case len(apis) != 1 || len(apisOf[typeName]) != 2:
		case declared[attribute] == (sentToBoth[attribute] != ""):
			t.Errorf("%s is only in requests of API %s: add it either to the planrule.OneVersion of its kind, or to sentToBoth with the reason", attribute, apis[0])
		}
	}
}

func attribute(attributes []*tfprotov6.SchemaAttribute, path []string) *tfprotov6.SchemaAttribute {
	i := slices.IndexFunc(attributes, func(a *tfprotov6.SchemaAttribute) bool { return a.Name == path[0] })
	switch {
	case i < 0:
		return nil
	case len(path) == 1:
		return attributes[i]
	case attributes[i].NestedType == nil:
		return nil
	}
	return attribute(attributes[i].NestedType.Attributes, path[1:])
}

var capitals = regexp.MustCompile(`[A-Z]+`)

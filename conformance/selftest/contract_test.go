package selftest_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/cases"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Each version gets the members of --endpoint-body that its contract has, and members that no contract has. flashboot has
// different types in the versions: in --endpoint-body it has version 1's, and isn't sent to version 2.
func TestEndpointBodyOfVersion(t *testing.T) {
	target := &env.Target{EndpointBody: map[string]json.RawMessage{"extension": json.RawMessage("1")}}
	members := map[string][]string{}
	for _, version := range []contract.API{contract.V1, contract.V2} {
		for _, f := range contract.FieldsOf(version, "endpoint", contract.Create) {
			if !strings.ContainsAny(f.Path, ".[") && (version == contract.V1 || f.Path != "flashboot") {
				target.EndpointBody[f.Path] = json.RawMessage("1")
				members[string(version)] = append(members[string(version)], f.Path)
			}
		}
	}
	c := &suite.C{Target: target}
	for version, want := range members {
		got := slices.Sorted(maps.Keys(c.EndpointBody(version, nil)))
		must.Equal(t, strings.Join(got, " "), strings.Join(slices.Sorted(slices.Values(append(want, "extension"))), " "), version)
	}
	for name, want := range map[string]string{ // GPUs and CPUs exclude each other
		"v1 gpuTypeIds": "gpuCount gpuTypeIds", "v1 cpuFlavorIds": "cpuFlavorIds vcpuCount", "v2 gpu": "gpu", "v2 cpu": "cpu",
	} {
		got := slices.Sorted(maps.Keys(c.EndpointBody(name[:2], suite.M{name[3:]: 1})))
		got = slices.DeleteFunc(got, func(member string) bool { return !regexp.MustCompile("gpu|cpu|compute").MatchString(member) })
		must.Equal(t, strings.Join(got, " "), want, name)
	}
}

// omittedOperations has the operations of the contract that the suite's table omits, with the reason.
var omittedOperations = map[string]string{
	"v1 GET /openapi.json": "needs no key", "v1 GET /docs": "needs no key", "v2 GET /openapi.json": "needs no key",
	"v1 POST /pods": "a pod costs money", "v1 PATCH /pods/{}": "a pod costs money", "v1 POST /pods/{}/update": "a pod costs money", "v1 POST /pods/{}/start": "a pod costs money",
	"v1 POST /pods/{}/stop": "a pod costs money", "v1 POST /pods/{}/reset": "a pod costs money", "v1 POST /pods/{}/restart": "a pod costs money", "v2 POST /pods": "a pod costs money",
	"v2 POST /clusters": "a cluster costs money", "v2 PATCH /clusters/{}": "a cluster costs money", "v2 GET /clusters/{}/pods": "a cluster costs money",
	"v2 GET /account/ssh-keys": "not in the description", "v2 PUT /account/ssh-keys": "not in the description",
	"v2 GET /catalog/templates": "not in the description", "v2 GET /billing/clusters": "not in the description",
	"v2 GET /account/secrets": "SEC clauses", "v2 POST /account/secrets": "SEC clauses", "v2 GET /account/secrets/{}": "SEC clauses",
	"v2 PATCH /account/secrets/{}": "SEC clauses", "v2 DELETE /account/secrets/{}": "SEC clauses",
	"v2 GET /serverless/{}/builds": "not in the description", "v2 GET /serverless/{}/builds/{}": "not in the description",
	"v2 GET /global-volumes": "GLO clauses", "v2 POST /global-volumes": "GLO clauses", "v2 GET /global-volumes/{}": "GLO clauses",
	"v2 PATCH /global-volumes/{}": "GLO clauses", "v2 DELETE /global-volumes/{}": "GLO clauses",
	"jobs POST /batch": "BAT clauses", "jobs GET /batch": "BAT clauses", "jobs GET /batch/{}": "BAT clauses", "jobs PUT /batch/{}": "BAT clauses",
	"jobs POST /batch/{}/requests": "BAT clauses", "jobs GET /batch/{}/requests": "BAT clauses", "jobs DELETE /batch/{}/requests/{}": "BAT clauses", "jobs POST /batch/{}/finalize": "BAT clauses", "jobs POST /batch/{}/cancel": "BAT clauses",
	"jobs GET /openai/v1/models": "not in the description",
	"jobs GET /status-sync/{}":   "only for the public SDKs", "jobs POST /status-sync/{}": "only for the public SDKs",
	"jobs POST /status/{}": "only for the public SDKs", "jobs POST /stream/{}": "only for the public SDKs",
}

// The suite's own table of operations has every operation of the contract.
func TestEveryOperationIsInTable(t *testing.T) {
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	normalize := func(op string) string {
		return parameter.ReplaceAllString(strings.Replace(op, "/openai/v1/completions", "/openai/{route}", 1), "{}")
	}
	var listed []string
	for _, op := range cases.Operations() {
		must.Hold(t, !slices.Contains(listed, normalize(op)), op, "is in the table twice")
		listed = append(listed, normalize(op))
	}
	known := map[string]bool{}
	for _, op := range contract.Operations {
		operation := normalize(string(op.API) + " " + op.Method + " " + op.Path)
		known[operation] = true
		if omittedOperations[operation] != "" {
			must.Hold(t, !slices.Contains(listed, operation), operation, "is in the table: remove it from omittedOperations")
			continue
		}
		must.Hold(t, slices.Contains(listed, operation), operation, "is not in conformance/cases/operations.tsv")
	}
	for _, op := range listed {
		must.Hold(t, known[op], op, "is in the table, but the contract does not have it")
	}
	for op := range omittedOperations {
		must.Hold(t, known[op], op, "is in omittedOperations, but the contract does not have it")
	}
}

// omittedMembers has the members of the contract that the suite's table omits, with the reason.
var omittedMembers = func() map[string]string {
	out := map[string]string{}
	for _, row := range []struct{ kind, reason, members string }{
		{"v2 endpoint", "another case has it (judgeCreationFromTemplate)", "templateId"},
		{"v2 template", "CMD clauses: not beside args", "entrypoint cmd"},
		{"v2 endpoint", "CMD clauses: not beside args", "entrypoint cmd"},
		{"v2 pod", "CMD clauses: not beside args", "entrypoint cmd"},
		{"v2 endpoint", "scaling.value stands for it", "scaling.queueDelay scaling.requestCount"},
		{"v1 pod", "the deployment's stock decides the machine", "gpuTypeIds gpuTypePriority gpuCount allowedCudaVersions minRAMPerGPU minVCPUPerGPU cpuFlavorPriority " +
			"countryCodes dataCenterIds dataCenterPriority interruptible supportPublicIp minDiskBandwidthMBps minDownloadMbps minUploadMbps"},
		{"v2 pod", "another case has them (VER-79)", "gpu.minRamPerGpu gpu.minVcpuCountPerGpu"},
		{"v2 pod", "the deployment's stock decides the machine", "gpu gpu.id gpu.count gpu.allowedCudaVersions gpu.minCudaVersion dataCenterIds"},
		{"v1 pod", "a CPU pod has none", "volumeInGb globalNetworking"},
		{"v2 pod", "a CPU pod has none", "mounts mounts.persistent mounts.persistent.size mounts.persistent.path globalNetworking"},
		{"v1 pod", "it needs another object, or a pod of its own", "templateId networkVolumeId locked"},
		{"v2 pod", "it needs another object, or a pod of its own", "templateId mounts.network locked"},
		{"v2 pod", "no answer shows it", "startSsh startJupyter"},
	} {
		for member := range strings.FieldsSeq(row.members) {
			out[row.kind+" "+member] = row.reason
		}
	}
	return out
}()

// The suite's table has every member that a request may set, with its default and clearing value.
func TestEveryMemberIsInTable(t *testing.T) {
	listed, kinds := map[string]bool{}, map[string]bool{}
	for _, m := range cases.Members() {
		resource := strings.Replace(m.Kind, "cpuEndpoint", "endpoint", 1)
		kind := m.Version + " " + resource
		kinds[kind] = true
		api := contract.API(m.Version)
		f := (contract.Body{API: api, Resource: resource, Use: contract.Update}).At(m.Path)
		must.Hold(t, f == nil || f.Clear == "" || m.Cleared == "" || f.Clear == m.Cleared, kind, m.Path, "is cleared by", m.Cleared, "in members.tsv", f)
		f = (contract.Body{API: api, Resource: resource, Use: contract.Create}).At(m.Path)
		must.Hold(t, f == nil || m.Default == "" || f.Default == m.Default, kind, m.Path, "has the default", m.Default, "in members.tsv", f)
		for path := m.Path; path != ""; {
			listed[kind+" "+path] = true
			i := max(strings.LastIndex(path, "."), 0)
			path = path[:i]
		}
	}
	known := map[string]bool{}
	for _, f := range contract.Fields {
		kind := string(f.API) + " " + f.Resource
		path, _, _ := strings.Cut(f.Path, "[]")
		member := kind + " " + path
		if f.Use&(contract.Create|contract.Update) == 0 || !kinds[kind] || known[member] {
			continue
		}
		known[member] = true
		switch {
		case listed[member] && omittedMembers[member] != "":
			t.Errorf("%s is in the table: remove it from omittedMembers", member)
		case !listed[member] && omittedMembers[member] == "":
			t.Errorf("%s is not in the table of conformance/cases/members.tsv: add a row, or name it in omittedMembers with the reason", member)
		}
	}
	for member := range omittedMembers {
		must.Hold(t, known[member], member, "is in omittedMembers, but no request of the contract has it")
	}
}

package mgmt_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// resourceTest tests a resource of one version against the contract's table, field by field, over HTTP.
type resourceTest struct {
	*deployment
	api         contract.API
	resource    string
	path        string
	minimal     map[string]any // the smallest body that a create accepts
	uniqueNames bool
	bodies      int    // number of minimal bodies so far, which unique names contain
	volume      string // id of a network volume
}

func resourceTests(d *deployment) []*resourceTest {
	template := d.createServerlessTemplateV1("of the endpoints")
	return []*resourceTest{
		{d, contract.V1, "template", "/v1/templates", map[string]any{"name": "t", "imageName": "i"}, true, 0, ""},
		{d, contract.V1, "networkVolume", "/v1/networkvolumes", map[string]any{"name": "v", "size": 1, "dataCenterId": "X"}, false, 0, ""},
		{d, contract.V1, "registryAuth", "/v1/containerregistryauth", map[string]any{"name": "r", "username": "u", "password": "p"}, true, 0, ""},
		{d, contract.V1, "endpoint", "/v1/endpoints", map[string]any{"templateId": template}, false, 0, ""},
		{d, contract.V2, "template", "/v2/templates", map[string]any{"name": "t", "image": "i"}, true, 0, ""},
		{d, contract.V2, "networkVolume", "/v2/network-volumes", map[string]any{"name": "v", "size": 10, "dataCenter": "X"}, false, 0, ""},
		{d, contract.V2, "registryAuth", "/v2/registries", map[string]any{"name": "r", "username": "u", "password": "p"}, true, 0, ""},
		{d, contract.V2, "delegation", "/v2/registries/delegations", map[string]any{"resource": "arn:aws:ecr:us-east-2:418399314813:repository/ab"}, false, 0, ""},
		{d, contract.V1, "pod", "/v1/pods", map[string]any{"imageName": "i"}, false, 0, ""},
		{d, contract.V2, "pod", "/v2/pods", map[string]any{"name": "p", "image": "i"}, false, 0, d.createVolume("X")},
		{d, contract.V2, "cluster", "/v2/clusters", map[string]any{"name": "c", "type": "TRAINING", "image": "i"}, false, 0, d.createVolume("X")},
		{d, contract.V2, "endpoint", "/v2/serverless", map[string]any{"name": "e", "image": "i"}, false, 0, ""},
	}
}

// siblings are members that a body needs besides a member, by the path's prefix. The first match applies.
var siblings = []struct {
	api            contract.API
	resource, path string
	members        string
}{
	{contract.V1, "endpoint", "vcpuCount", `{"computeType":"CPU","cpuFlavorIds":["cpu3c"]}`},
	{contract.V1, "endpoint", "cpuFlavorIds", `{"computeType":"CPU"}`},
	{contract.V2, "template", "mounts", `{"mounts":{"persistent":{"size":10,"path":"/x"}}}`},
	{contract.V2, "endpoint", "gpu.excludedTypes", `{"gpu":{"pools":["not known"]}}`},
	{contract.V2, "endpoint", "gpu", `{"gpu":{"pools":["ADA_24"]}}`},
	{contract.V2, "endpoint", "cpu", `{"cpu":[{"id":"cpu3c","vcpuCount":2}]}`},
	{contract.V2, "endpoint", "scaling.queueDelay", `{"scaling":{"type":"QUEUE_DELAY","queueDelay":4}}`},
	{contract.V2, "endpoint", "scaling", `{"scaling":{"type":"REQUEST_COUNT","requestCount":4}}`},
	{contract.V2, "endpoint", "type", `{"scaling":{"type":"REQUEST_COUNT","requestCount":4}}`},
	{contract.V2, "pod", "mounts.network", `{"gpu":{"id":"NVIDIA L4"},"mounts":{"network":[{"volumeId":"%volume%","path":"/x"}]}}`},
	{contract.V2, "pod", "mounts", `{"gpu":{"id":"NVIDIA L4"},"mounts":{"persistent":{"size":10,"path":"/x"}}}`},
	{contract.V2, "pod", "cpu", `{"cpu":{"id":"cpu3c","vcpuCount":2}}`},
	{contract.V2, "pod", "vcpuCount", `{"cpu":{"id":"cpu3c","vcpuCount":2}}`},
	{contract.V2, "cluster", "mounts.network", `{"compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":1,"podCount":2},"mounts":{"network":[{"volumeId":"%volume%","path":"/x"}]}}`},
	{contract.V2, "cluster", "mounts", `{"compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":1,"podCount":2},"mounts":{"persistent":{"size":10,"path":"/x"}}}`},
	{contract.V2, "cluster", "", `{"compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":1,"podCount":2}}`},
	{contract.V2, "pod", "", `{"gpu":{"id":"NVIDIA L4"}}`},
}

func (r *resourceTest) siblingMembers(path string) map[string]any {
	out := map[string]any{}
	for _, s := range siblings {
		if s.api == r.api && s.resource == r.resource && strings.HasPrefix(path, s.path) {
			must.Succeed(r, json.Unmarshal([]byte(strings.ReplaceAll(s.members, "%volume%", r.volume)), &out))
			break
		}
	}
	return out
}

// minimalBody returns the smallest body of a create, with the siblings of a member.
func (r *resourceTest) minimalBody(path string) map[string]any {
	out := r.siblingMembers(path)
	maps.Copy(out, r.minimal)
	if r.bodies++; r.uniqueNames {
		out["name"] = fmt.Sprintf("%s %s %d", r.api, r.resource, r.bodies)
	}
	return out
}

func setMember(object map[string]any, path []string, value any) {
	name := path[0]
	if len(path) == 1 {
		object[name] = value
		return
	}
	if list, ok := strings.CutSuffix(name, "[]"); ok {
		setMember(object[list].([]any)[0].(map[string]any), path[1:], value)
		return
	}
	child, ok := object[name].(map[string]any)
	if !ok {
		child = map[string]any{}
		object[name] = child
	}
	setMember(child, path[1:], value)
}

// sendMember sends the member in a create, or in an update of a new object.
func (r *resourceTest) sendMember(use contract.Use, path string, value any) reply {
	r.Helper()
	create := r.minimalBody(path)
	if use == contract.Create {
		setMember(create, strings.Split(path, "."), value)
		return r.send("POST", r.path, create)
	}
	id := r.create(r.path, create)
	update := r.siblingMembers(path)
	if r.resource == "pod" { // its compute is fixed
		delete(update, "gpu")
		delete(update, "cpu")
	}
	delete(update, "computeType") // fixed
	delete(update, "compute")     // fixed
	setMember(update, strings.Split(path, "."), value)
	return r.send("PATCH", r.path+"/"+id, update)
}

var useNames = map[contract.Use]string{contract.Create: "a create", contract.Update: "an update"}

func (r *resourceTest) expectAccepted(use contract.Use, path string, value any) {
	r.Helper()
	if got := r.sendMember(use, path, value); got.status/100 != 2 {
		r.Errorf("%s %s: %s with %s = %v is rejected: %d %s", r.api, r.resource, useNames[use], path, value, got.status, got.text)
	}
}

func (r *resourceTest) expectRefused(use contract.Use, path string, value any) {
	r.Helper()
	want := 422
	if r.api == contract.V1 {
		want = 400
	}
	name := strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]")
	if got := r.sendMember(use, path, value); got.status != want || !strings.Contains(got.text, name) {
		r.Errorf("%s %s: %s with %s = %v must be rejected with %d and the member's name, got %d %s", r.api, r.resource, useNames[use], path, value, want, got.status, got.text)
	}
}

// eachField visits the fields of creates, then the fields of updates.
func (r *resourceTest) eachField(visit func(f contract.Field, use contract.Use)) {
	for _, use := range []contract.Use{contract.Create, contract.Update} {
		for _, f := range contract.FieldsOf(r.api, r.resource, use) {
			visit(f, use)
		}
	}
}

// Values within the bounds are accepted, and values beyond them rejected. An enum accepts all its values, and
// only an open enum accepts others. A power of two is required if the contract says so.
func TestBoundsMatchContract(t *testing.T) {
	for _, r := range resourceTests(deploy(t)) {
		r.eachField(func(f contract.Field, use contract.Use) {
			if f.Min != nil {
				r.checkBound(f, use, *f.Min, -1)
			}
			if f.Max != nil {
				r.checkBound(f, use, *f.Max, +1)
			}
			if f.OrZero {
				r.expectAccepted(use, f.Path, 0)
			}
			if f.PowerOfTwo {
				r.expectRefused(use, f.Path, *f.Min+1)
			}
			r.checkEnum(f, use)
		})
	}
}

func (r *resourceTest) checkBound(f contract.Field, use contract.Use, bound, step float64) {
	r.Helper()
	// The volume has the size of the lower bound, and an update must grow it.
	mustGrow := r.resource == "networkVolume" && f.Path == "size" && use == contract.Update && step < 0
	switch f.Type {
	case "integer":
		if !mustGrow {
			r.expectAccepted(use, f.Path, bound)
		}
		r.expectRefused(use, f.Path, bound+step)
	case "number":
		r.expectAccepted(use, f.Path, bound)
		r.expectRefused(use, f.Path, bound+step/100)
	case "string":
		if step > 0 {
			r.expectAccepted(use, f.Path, strings.Repeat("x", int(bound)))
		}
		r.expectRefused(use, f.Path, strings.Repeat("x", int(bound+step)))
	case "array":
		r.expectRefused(use, f.Path, make([]any, int(bound+step)))
	default:
		r.Errorf("%s %s: the test has no case for the bound of %s", r.api, r.resource, f.Path)
	}
}

func (r *resourceTest) checkEnum(f contract.Field, use contract.Use) {
	r.Helper()
	if f.Enum == nil || strings.HasPrefix(f.Path, "scaling") {
		return // each type of scaling has its own members, which other tests cover
	}
	value := func(name string) any {
		if f.Type == "array" {
			return []string{name}
		}
		return name
	}
	if f.Open {
		unknown := "not known"
		if f.Form != nil && strings.Contains(f.Form.Pattern, `\d+`) || strings.Contains(f.Path, "Cuda") {
			unknown = "99.1"
		}
		r.expectAccepted(use, f.Path, value(unknown))
		r.expectAccepted(use, f.Path, value(f.Enum[0]))
		return
	}
	for _, known := range f.Enum {
		r.expectAccepted(use, f.Path, value(known))
	}
	r.expectRefused(use, f.Path, value("NOT_KNOWN"))
}

// Members reject values of another type or form, and an operation rejects members that it lacks.
func TestTypesMatchContract(t *testing.T) {
	mistyped := map[string]any{"string": 1, "integer": "1", "number": "1", "boolean": "true", "array": "x", "map": []any{}, "object": "x"}
	for _, r := range resourceTests(deploy(t)) {
		r.eachField(func(f contract.Field, use contract.Use) {
			must.Require(t, mistyped[f.Type] != nil, "no wrong value for", f.Type)
			r.expectRefused(use, f.Path, mistyped[f.Type])
			if f.Type == "integer" {
				r.expectRefused(use, f.Path, math.Pi)
			}
			if !f.Nullable && !slices.Contains(references, fmt.Sprint(r.api, " ", r.resource, " ", f.Path)) {
				r.expectRefused(use, f.Path, nil)
			}
			if f.Type == "map" {
				for _, name := range []string{"", "A=B", "A\x00"} {
					r.expectRefused(use, f.Path, map[string]string{name: "x"})
				}
				r.expectRefused(use, f.Path, map[string]string{"A": "\x00"})
			}
			r.checkForm(f, use)
			switch f.Items {
			case "string":
				items := any([]any{1})
				if f.Type == "map" {
					items = map[string]any{"A": 1}
				}
				r.expectRefused(use, f.Path, items)
			case "object":
				r.expectRefused(use, f.Path, []any{"x"})
			}
		})
		for _, use := range []contract.Use{contract.Create, contract.Update} {
			accepted := contract.FieldsOf(r.api, r.resource, use)
			if len(accepted) == 0 {
				continue
			}
			r.expectRefused(use, "bogus", "x")
			for _, f := range contract.Fields {
				known := slices.ContainsFunc(accepted, func(t contract.Field) bool { return t.Path == f.Path })
				if f.API == r.api && f.Resource == r.resource && !known && !strings.ContainsAny(f.Path, ".[") {
					r.expectRefused(use, f.Path, "x")
				}
			}
		}
	}
}

// references are strings that null clears like "".
var references = []string{
	"v1 template containerRegistryAuthId", "v1 endpoint minCudaVersion", "v1 endpoint networkVolumeId",
	"v1 pod templateId", "v1 pod containerRegistryAuthId", "v1 pod networkVolumeId",
}

// malformed are values that the forms reject.
var malformed = map[contract.Form][]string{
	contract.Port:         {"80", "80/udp", "x/http", "0/tcp", "65536/tcp", "080/tcp", "80/http "},
	contract.Argument:     {"a\x00"},
	contract.AbsolutePath: {"relative", "/a\x00"},
	contract.CUDAVersion:  {"12", "12.8.1", "v12.8"},
	contract.GPUTypeID:    {"-x"},
	contract.ID:           {" ", "a\x00"},
}

func (r *resourceTest) checkForm(f contract.Field, use contract.Use) {
	r.Helper()
	if f.Form == nil {
		return
	}
	for _, value := range malformed[*f.Form] {
		if f.Type == "array" {
			r.expectRefused(use, f.Path, []string{value})
		} else {
			r.expectRefused(use, f.Path, value)
		}
	}
}

// dependentMembers are members that an update can't have alone. Other tests update them.
var dependentMembers = []string{"templateId", "containerRegistryAuthId", "networkVolumeId", "vcpuCount", "gpu", "cpu", "mounts"}

// Each member can be updated alone, and the answer shows the new value.
func TestUpdateOfEachMember(t *testing.T) {
	for _, r := range resourceTests(deploy(t)) {
		for _, f := range contract.FieldsOf(r.api, r.resource, contract.Update) {
			if strings.ContainsAny(f.Path, ".[") || slices.Contains(dependentMembers, f.Path) {
				continue
			}
			value, isShown := r.otherValue(f)
			got := r.send("PATCH", r.path+"/"+r.create(r.path, r.minimalBody("")), map[string]any{f.Path: value})
			switch {
			case got.status/100 != 2:
				t.Errorf("%s %s: an update of %s alone is rejected: %d %s", r.api, r.resource, f.Path, got.status, got.text)
			case isShown && fmt.Sprint(got.get(f.Path)) != fmt.Sprint(value):
				t.Errorf("%s %s: after an update to %s = %v the answer has %v: carry it in the mapper of the update (jobrunner/mgmt) and in the object or its change (jobrunner/store)", r.api, r.resource, f.Path, value, got.get(f.Path))
			}
		}
	}
}

// otherValue returns a value of a member other than its default, and whether answers show it as sent.
func (r *resourceTest) otherValue(f contract.Field) (value any, isShown bool) {
	if object, ok := r.siblingMembers(f.Path)[f.Path]; ok {
		return object, false
	}
	isShown = slices.ContainsFunc(contract.FieldsOf(r.api, r.resource, contract.Read), func(read contract.Field) bool { return read.Path == f.Path && read.Type == f.Type })
	switch f.Type {
	case "boolean":
		return f.Default != "true", isShown
	case "integer", "number":
		n := 2.0
		if f.Min != nil {
			n += *f.Min
		}
		return n, isShown
	case "array":
		return []any{}, false // v1 shows an empty list as all data centers
	case "map", "object":
		return map[string]any{}, false
	}
	switch {
	case f.Nullable:
		return nil, false
	case len(f.Enum) > 0:
		return f.Enum[len(f.Enum)-1], isShown
	}
	return fmt.Sprint("/x of ", r.api), isShown // a new name, and a path
}

// A create without a required member is rejected with an error that names the member.
func TestRequiredMembersMatchContract(t *testing.T) {
	for _, r := range resourceTests(deploy(t)) {
		for _, f := range contract.FieldsOf(r.api, r.resource, contract.Create) {
			path := strings.Split(f.Path, ".")
			parent := strings.Join(path[:len(path)-1], ".")
			if !f.RequiredIn(contract.Create) || strings.Contains(f.Path, "[") {
				continue
			}
			body := r.minimalBody(f.Path)
			object := body
			for _, name := range path[:len(path)-1] {
				object = object[name].(map[string]any)
			}
			delete(object, path[len(path)-1])
			got := r.send("POST", r.path, body)
			want := fmt.Sprintf("%s: missing property '%s'", strings.TrimSuffix("$."+parent, "."), path[len(path)-1])
			must.Hold(t, got.status/100 == 4 && strings.Contains(got.text, want), r.api, r.resource, "without", f.Path, "must be rejected with", want, "got", got.status, got.text)
		}
	}
}

// The members that a minimal create omits have the contract's defaults.
func TestDefaultsMatchContract(t *testing.T) {
	for _, r := range resourceTests(deploy(t)) {
		for _, f := range contract.FieldsOf(r.api, r.resource, contract.Create) {
			readable := slices.ContainsFunc(contract.FieldsOf(r.api, r.resource, contract.Read), func(read contract.Field) bool { return read.Path == f.Path })
			if f.Default == "" || !readable {
				continue
			}
			sibling := ""
			if strings.HasPrefix(f.Path, "gpu.") {
				sibling = f.Path
			}
			got := r.send("POST", r.path, r.minimalBody(sibling))
			var want any
			must.Succeed(t, json.Unmarshal([]byte(f.Default), &want))
			must.Equal(t, got.get(f.Path), want, r.api, r.resource, f.Path, "by default")
		}
	}
}

// An answer has all required members, and only members of the contract.
func TestAnswersMatchContract(t *testing.T) {
	d := deploy(t)
	for _, r := range resourceTests(d) {
		for _, compute := range []string{"", "gpu", "cpu", "vcpuCount"} { // the siblings of these members select the compute
			r.checkAnswer(r.send("POST", r.path, r.minimalBody(compute)))
		}
	}
	for _, c := range []struct{ path, resource string }{
		{"/v2/catalog/gpus/NVIDIA%20L40S?include=AVAILABILITY&product=POD", "gpuType"},
		{"/v2/catalog/cpus/cpu3c?include=AVAILABILITY&product=POD", "cpuType"},
		{"/v2/catalog/datacenters/EU-RO-1?include=GPU_AVAILABILITY,CPU_AVAILABILITY", "dataCenter"},
	} {
		withGPUs := deploy(t, withL40S)
		r := &resourceTest{deployment: withGPUs, api: contract.V2, resource: c.resource}
		r.checkAnswer(withGPUs.mustSend(200, "GET", c.path, ""))
	}
}

func (r *resourceTest) checkAnswer(got reply) {
	r.Helper()
	known := map[string]contract.Field{}
	for _, f := range contract.FieldsOf(r.api, r.resource, contract.Read) {
		known[f.Path] = f
		must.Hold(r, !f.RequiredIn(contract.Read) || strings.ContainsAny(f.Path, ".[") || got.has(f.Path), r.api, r.resource, "lacks", f.Path, got.text)
	}
	var walk func(v any, path string)
	walk = func(v any, path string) {
		if f, ok := known[path]; path != "" && !strings.HasSuffix(path, "[]") && !ok {
			r.Errorf("%s %s has %s, which the contract does not know", r.api, r.resource, path)
		} else if f.Type == "map" || v == nil && f.Nullable {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				walk(member, strings.TrimPrefix(path+"."+name, "."))
			}
		case []any:
			for _, item := range v {
				walk(item, path+"[]")
			}
		}
	}
	walk(got.body, "")
}

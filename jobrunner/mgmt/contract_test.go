package mgmt_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/contract"
)

// bench is a resource of one version that the contract's table is tried on,
// field by field, over HTTP.
type bench struct {
	*deployment
	api      contract.API
	resource string
	path     string
	minimal  map[string]any // accepted; the least that it can be
	unique   bool           // its name
	made     int
}

func benches(d *deployment) []*bench {
	template := d.workerTemplateV1("of the endpoints")
	return []*bench{
		{d, contract.V1, "template", "/v1/templates", map[string]any{"name": "t", "imageName": "i"}, true, 0},
		{d, contract.V1, "networkVolume", "/v1/networkvolumes", map[string]any{"name": "v", "size": 1, "dataCenterId": "X"}, false, 0},
		{d, contract.V1, "registryAuth", "/v1/containerregistryauth", map[string]any{"name": "r", "username": "u", "password": "p"}, true, 0},
		{d, contract.V1, "endpoint", "/v1/endpoints", map[string]any{"templateId": template}, false, 0},
		{d, contract.V2, "template", "/v2/templates", map[string]any{"name": "t", "image": "i"}, true, 0},
		{d, contract.V2, "networkVolume", "/v2/network-volumes", map[string]any{"name": "v", "size": 10, "dataCenter": "X"}, false, 0},
		{d, contract.V2, "registryAuth", "/v2/registries", map[string]any{"name": "r", "username": "u", "password": "p"}, true, 0},
		{d, contract.V2, "delegation", "/v2/registries/delegations", map[string]any{"resource": "arn:aws:ecr:us-east-2:418399314813:repository/ab"}, false, 0},
		{d, contract.V2, "endpoint", "/v2/serverless", map[string]any{"name": "e", "image": "i"}, false, 0},
	}
}

// beside is what stands beside a member, by the beginning of its path.
var beside = []struct {
	api            contract.API
	resource, path string
	with           string
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
}

func (b *bench) context(path string) map[string]any {
	out := map[string]any{}
	for _, s := range beside {
		if s.api == b.api && s.resource == b.resource && strings.HasPrefix(path, s.path) {
			if err := json.Unmarshal([]byte(s.with), &out); err != nil {
				b.Fatal(err)
			}
			break
		}
	}
	return out
}

// fresh is the least that a create says, with what stands beside a member.
func (b *bench) fresh(path string) map[string]any {
	out := b.context(path)
	maps.Copy(out, b.minimal)
	if b.made++; b.unique {
		out["name"] = fmt.Sprintf("%s %s %d", b.api, b.resource, b.made)
	}
	return out
}

func put(in map[string]any, path []string, value any) {
	name := path[0]
	if len(path) == 1 {
		in[name] = value
		return
	}
	if list, ok := strings.CutSuffix(name, "[]"); ok {
		put(in[list].([]any)[0].(map[string]any), path[1:], value)
		return
	}
	inner, ok := in[name].(map[string]any)
	if !ok {
		inner = map[string]any{}
		in[name] = inner
	}
	put(inner, path[1:], value)
}

// say sends the member in a create, or in an update to an object that takes it.
func (b *bench) say(use contract.Use, path string, value any) reply {
	b.Helper()
	create := b.fresh(path)
	if use == contract.Create {
		put(create, strings.Split(path, "."), value)
		return b.send("POST", b.path, create)
	}
	id := b.create(b.path, create)
	update := b.context(path)
	delete(update, "computeType") // fixed
	put(update, strings.Split(path, "."), value)
	return b.send("PATCH", b.path+"/"+id, update)
}

func (b *bench) accepts(use contract.Use, path string, value any) {
	b.Helper()
	if got := b.say(use, path, value); got.status/100 != 2 {
		b.Errorf("%s %s, use %b: %s %v is refused: %d %s", b.api, b.resource, use, path, value, got.status, got.text)
	}
}

func (b *bench) refuses(use contract.Use, path string, value any) {
	b.Helper()
	want := 422
	if b.api == contract.V1 {
		want = 400
	}
	if got := b.say(use, path, value); got.status != want {
		b.Errorf("%s %s, use %b: %s %v got %d %s", b.api, b.resource, use, path, value, got.status, got.text)
	}
}

// fields are the rows of one use, one use at a time.
func (b *bench) fields(visit func(f contract.Field, use contract.Use)) {
	for _, use := range []contract.Use{contract.Create, contract.Update} {
		for _, f := range contract.FieldsOf(b.api, b.resource, use) {
			visit(f, use)
		}
	}
}

// TestBordersAreTheContracts: every bound is tried on both sides, every value
// of an enum is accepted, and only an open list takes others.
func TestBordersAreTheContracts(t *testing.T) {
	for _, b := range benches(deploy(t)) {
		b.fields(func(f contract.Field, use contract.Use) {
			if f.Min != nil {
				b.border(f, use, *f.Min, -1)
			}
			if f.Max != nil {
				b.border(f, use, *f.Max, +1)
			}
			if f.OrZero {
				b.accepts(use, f.Path, 0)
			}
			b.enum(f, use)
		})
	}
}

// border tries a bound and what is beyond it.
func (b *bench) border(f contract.Field, use contract.Use, at, outward float64) {
	b.Helper()
	// A volume that is grown to the lower bound is not above its size.
	grows := b.resource == "networkVolume" && f.Path == "size" && use == contract.Update && outward < 0
	switch f.Type {
	case "integer":
		if !grows {
			b.accepts(use, f.Path, at)
		}
		b.refuses(use, f.Path, at+outward)
	case "number":
		b.accepts(use, f.Path, at)
		b.refuses(use, f.Path, at+outward/100)
	case "string":
		if outward > 0 {
			b.accepts(use, f.Path, strings.Repeat("x", int(at)))
		}
		b.refuses(use, f.Path, strings.Repeat("x", int(at+outward)))
	case "array":
		b.refuses(use, f.Path, make([]any, int(at+outward)))
	default:
		b.Errorf("%s %s: a bound of %s is not tried", b.api, b.resource, f.Path)
	}
}

func (b *bench) enum(f contract.Field, use contract.Use) {
	b.Helper()
	if f.Enum == nil || strings.HasPrefix(f.Path, "scaling") {
		return // each type of scaling has members of its own, and a test
	}
	value := func(of string) any {
		if f.Type == "array" {
			return []string{of}
		}
		return of
	}
	if f.Open {
		unknown := "not known"
		if f.Pattern != "" && strings.Contains(f.Pattern, `\d+`) || strings.Contains(f.Path, "Cuda") {
			unknown = "99.1"
		}
		b.accepts(use, f.Path, value(unknown))
		b.accepts(use, f.Path, value(f.Enum[0]))
		return
	}
	for _, known := range f.Enum {
		b.accepts(use, f.Path, value(known))
	}
	b.refuses(use, f.Path, value("NOT_KNOWN"))
}

// TestTypesAreTheContracts: a value of another type is refused for every
// member, and so is a member that the operation does not have.
func TestTypesAreTheContracts(t *testing.T) {
	wrong := map[string]any{"string": 1, "integer": "1", "number": "1", "boolean": "true", "array": "x", "map": []any{}, "object": "x"}
	for _, b := range benches(deploy(t)) {
		b.fields(func(f contract.Field, use contract.Use) {
			if wrong[f.Type] == nil {
				t.Fatalf("no wrong value for %s", f.Type)
			}
			b.refuses(use, f.Path, wrong[f.Type])
			if f.Type == "integer" {
				b.refuses(use, f.Path, math.Pi)
			}
			switch f.Items {
			case "string":
				items := any([]any{1})
				if f.Type == "map" {
					items = map[string]any{"A": 1}
				}
				b.refuses(use, f.Path, items)
			case "object":
				b.refuses(use, f.Path, []any{"x"})
			}
		})
		for _, use := range []contract.Use{contract.Create, contract.Update} {
			takes := contract.FieldsOf(b.api, b.resource, use)
			if len(takes) == 0 {
				continue
			}
			for _, f := range contract.Fields {
				known := slices.ContainsFunc(takes, func(t contract.Field) bool { return t.Path == f.Path })
				if f.API == b.api && f.Resource == b.resource && !known && !strings.ContainsAny(f.Path, ".[") {
					b.refuses(use, f.Path, "x")
				}
			}
		}
	}
}

// TestRequiredIsTheContracts: without a required member a create is refused,
// and the minimal one has no other.
func TestRequiredIsTheContracts(t *testing.T) {
	for _, b := range benches(deploy(t)) {
		for _, f := range contract.FieldsOf(b.api, b.resource, contract.Create) {
			if !f.RequiredIn(contract.Create) || strings.ContainsAny(f.Path, ".[") {
				continue
			}
			body := b.fresh("")
			delete(body, f.Path)
			got := b.send("POST", b.path, body)
			if want := fmt.Sprintf("$: missing property '%s'", f.Path); got.status/100 != 4 || !strings.Contains(got.text, want) {
				t.Errorf("%s %s without %s: %d %s", b.api, b.resource, f.Path, got.status, got.text)
			}
		}
	}
}

// TestDefaultsAreTheContracts: what a minimal create leaves out comes back as
// the contract says.
func TestDefaultsAreTheContracts(t *testing.T) {
	for _, b := range benches(deploy(t)) {
		for _, f := range contract.FieldsOf(b.api, b.resource, contract.Create) {
			answered := slices.ContainsFunc(contract.FieldsOf(b.api, b.resource, contract.Read), func(r contract.Field) bool { return r.Path == f.Path })
			if f.Default == "" || !answered {
				continue
			}
			beside := ""
			if strings.HasPrefix(f.Path, "gpu.") {
				beside = f.Path
			}
			got := b.send("POST", b.path, b.fresh(beside))
			var want any
			if err := json.Unmarshal([]byte(f.Default), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.at(f.Path), want) {
				t.Errorf("%s %s: %s is %v by default, want %s", b.api, b.resource, f.Path, got.at(f.Path), f.Default)
			}
		}
	}
}

// TestAnswersAreTheContracts: an answer has what must stand in it, and nothing
// that the contract does not know.
func TestAnswersAreTheContracts(t *testing.T) {
	d := deploy(t)
	for _, b := range benches(d) {
		for _, context := range []string{"", "gpu", "cpu", "vcpuCount"} { // kinds of compute
			b.answerHas(b.send("POST", b.path, b.fresh(context)))
		}
	}
	for _, c := range []struct{ path, resource string }{
		{"/v2/catalog/gpus/NVIDIA%20L40S?include=AVAILABILITY&product=POD", "gpuType"},
		{"/v2/catalog/cpus/cpu3c?include=AVAILABILITY&product=POD", "cpuType"},
		{"/v2/catalog/datacenters/EU-RO-1?include=GPU_AVAILABILITY,CPU_AVAILABILITY", "dataCenter"},
	} {
		stocked := deploy(t, withL40S)
		b := &bench{deployment: stocked, api: contract.V2, resource: c.resource}
		b.answerHas(stocked.ok(200, "GET", c.path, ""))
	}
}

func (b *bench) answerHas(got reply) {
	b.Helper()
	known := map[string]contract.Field{}
	for _, f := range contract.FieldsOf(b.api, b.resource, contract.Read) {
		known[f.Path] = f
		if f.RequiredIn(contract.Read) && !strings.ContainsAny(f.Path, ".[") && !got.has(f.Path) {
			b.Errorf("%s %s lacks %s: %s", b.api, b.resource, f.Path, got.text)
		}
	}
	var walk func(v any, path string)
	walk = func(v any, path string) {
		if f, ok := known[path]; path != "" && !strings.HasSuffix(path, "[]") && !ok {
			b.Errorf("%s %s has %s, which the contract does not know", b.api, b.resource, path)
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
				if m, ok := item.(map[string]any); ok {
					for name, member := range m {
						walk(member, path+"[]."+name)
					}
				}
			}
		}
	}
	walk(got.body, "")
}

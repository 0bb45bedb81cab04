package mgmt

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/contract"
)

// wires are the wire types by what the contract calls their bodies.
var wires = []struct {
	api      contract.API
	resource string
	request  any // nil: there is none
	answer   any
}{
	{contract.V1, "template", templateBodyV1{}, templateV1{}},
	{contract.V1, "networkVolume", networkVolumeBodyV1{}, networkVolumeV1{}},
	{contract.V1, "registryAuth", registryAuthBodyV1{}, registryAuth{}},
	{contract.V1, "endpoint", endpointBodyV1{}, endpointV1{}},
	{contract.V2, "template", templateBodyV2{}, templateV2{}},
	{contract.V2, "networkVolume", networkVolumeBodyV2{}, networkVolumeV2{}},
	{contract.V2, "registryAuth", registryAuthBodyV2{}, registryAuth{}},
	{contract.V2, "delegation", delegationBodyV2{}, delegationV2{}},
	{contract.V2, "endpoint", endpointBodyV2{}, endpointV2{}},
	{contract.V2, "gpuType", nil, gpuTypeV2{}},
	{contract.V2, "cpuType", nil, cpuTypeV2{}},
	{contract.V2, "dataCenter", nil, dataCenterV2{}},
}

// notAnswered are members of answers that this deployment has nothing for.
var notAnswered = map[string]string{
	"v1 endpoint workers": "what runs is not the store's to know",
	"v1 endpoint userId":  "there is one user, without an id",
}

// stricter are rules of this deployment that the contract does not have, so
// that what one version takes the other can show.
var stricter = map[string]string{
	"v1 template name min":                 "no empty name",
	"v1 template imageName min":            "no container without an image",
	"v1 networkVolume name min":            "no empty name",
	"v1 networkVolume dataCenterId min":    "no empty place",
	"v1 registryAuth name min":             "no empty name",
	"v1 endpoint name min":                 "no empty name",
	"v1 endpoint templateId min":           "no empty id",
	"v2 template image min":                "no container without an image",
	"v2 delegation resource form":          "what is no ARN of a repository names no image",
	"v2 endpoint image min":                "no container without an image",
	"v2 endpoint gpu.pools form":           "no empty id, and none with control characters",
	"v2 endpoint cpu[].id form":            "no empty id, and none with control characters",
	"v2 endpoint dataCenterIds form":       "no empty id, and none with control characters",
	"v1 endpoint gpuTypeIds form":          "no empty id, and none with control characters",
	"v1 endpoint cpuFlavorIds form":        "no empty id, and none with control characters",
	"v1 endpoint dataCenterIds form":       "no empty id, and none with control characters",
	"v1 endpoint allowedCudaVersions form": "version 2 says the form",
	"v1 endpoint minCudaVersion form":      "version 2 says the form",
}

// checked are rules that stand in a check method.
var checked = map[string]string{
	"v2 template image required": "an endpoint has the same container settings, where a template may give the image",
}

// member facts of a wire type by path.
type facts struct {
	kind     string
	rule     rule
	optional bool // in an answer
}

func TestWireTypesKnowTheContract(t *testing.T) {
	excused := maps.Clone(notAnswered)
	for _, w := range wires {
		if w.request != nil {
			known := map[string]facts{}
			describe(reflect.TypeOf(w.request), "", known)
			for use, p := range map[contract.Use]phase{contract.Create: creating, contract.Update: updating} {
				fields := contract.FieldsOf(w.api, w.resource, use)
				if len(fields) == 0 {
					continue // a registry auth has no update
				}
				compare(t, w.api, w.resource, fields, known, func(f facts) bool { return p == creating || !f.rule.onlyCreate }, nil)
			}
		}
		known := map[string]facts{}
		describe(reflect.TypeOf(w.answer), "", known)
		fields := contract.FieldsOf(w.api, w.resource, contract.Read)
		compare(t, w.api, w.resource, fields, known, func(facts) bool { return true }, excused)
		for _, f := range fields {
			if f.RequiredIn(contract.Read) && known[f.Path].optional {
				t.Errorf("%s %s %s must stand in every answer", w.api, w.resource, f.Path)
			}
		}
	}
	for left := range excused {
		t.Errorf("%s is excused without need", left)
	}
}

// compare finds members that one side has and the other lacks.
func compare(t *testing.T, api contract.API, resource string, fields []contract.Field, known map[string]facts, has func(facts) bool, excused map[string]string) {
	t.Helper()
	stated := map[string]bool{}
	for _, f := range fields {
		stated[f.Path] = true
		mine, ok := known[f.Path]
		key := string(api) + " " + resource + " " + f.Path
		switch {
		case !ok || !has(mine):
			if excused[key] == "" {
				t.Errorf("%s is not known", key)
			}
			delete(excused, key)
		case mine.kind != f.Type:
			t.Errorf("%s is %s, here it is %s", key, f.Type, mine.kind)
		}
	}
	for path, f := range known {
		if has(f) && !stated[path] {
			t.Errorf("%s %s: the contract has no %s", api, resource, path)
		}
	}
}

func TestRulesAreTheContracts(t *testing.T) {
	more, elsewhere := maps.Clone(stricter), maps.Clone(checked)
	for _, w := range wires {
		if w.request == nil {
			continue
		}
		known := map[string]facts{}
		describe(reflect.TypeOf(w.request), "", known)
		for _, f := range contract.Fields {
			if f.API != w.api || f.Resource != w.resource || !f.In(contract.Create|contract.Update) {
				continue
			}
			key, r := string(w.api)+" "+w.resource+" "+f.Path, known[f.Path].rule
			if !sameNumber(r.min, f.Min) && !excuse(more, key+" min") {
				t.Errorf("%s: the minimum differs", key)
			}
			if !sameNumber(r.max, f.Max) {
				t.Errorf("%s: the maximum differs", key)
			}
			if r.zero != f.OrZero {
				t.Errorf("%s: zero is %v here", key, r.zero)
			}
			if closed := !f.Open && f.Enum != nil; closed && !sameElements(r.oneOf, f.Enum) || !closed && r.oneOf != nil {
				t.Errorf("%s is one of %q, here of %q (open: %v)", key, f.Enum, r.oneOf, f.Open)
			}
			pattern := ""
			if r.form != nil {
				pattern = r.form.regexp.String()
				if f.Use == contract.Update && r.clears {
					pattern = "^$|" + pattern
				}
			}
			if pattern != f.Pattern && !excuse(more, key+" form") {
				t.Errorf("%s has the form %q, here %q", key, f.Pattern, pattern)
			}
			create := r.must || r.mustCreate
			if f.In(contract.Create) && create != f.RequiredIn(contract.Create) && !excuse(elsewhere, key+" required") {
				t.Errorf("%s: required in a create: %v", key, f.RequiredIn(contract.Create))
			}
			if f.In(contract.Update) && r.must != f.RequiredIn(contract.Update) {
				t.Errorf("%s: required in an update: %v", key, f.RequiredIn(contract.Update))
			}
		}
	}
	for _, left := range append(slices.Collect(maps.Keys(more)), slices.Collect(maps.Keys(elsewhere))...) {
		t.Errorf("%s is excused without need", left)
	}
}

func excuse(from map[string]string, key string) bool {
	_, ok := from[key]
	delete(from, key)
	return ok
}

func sameNumber(a, b *float64) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// describe collects the members of a wire type.
func describe(typ reflect.Type, prefix string, into map[string]facts) {
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		path, inner := prefix+name, f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		into[path] = facts{kindOf(inner), parseRule(f.Tag.Get("rule")), strings.Contains(options, "omitempty")}
		switch into[path].kind {
		case "object":
			if inner != reflect.TypeFor[templateV1]() { // the contract names it in an endpoint, and describes it by itself
				describe(inner, path+".", into)
			}
		case "array":
			if inner.Elem().Kind() == reflect.Struct {
				describe(inner.Elem(), path+"[].", into)
			}
		}
	}
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[reference](), t == reflect.TypeFor[time.Time]():
		return "string"
	case t.Kind() == reflect.Int64:
		return "integer"
	case t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Slice:
		return "array"
	case t.Kind() == reflect.Struct:
		return "object"
	}
	return t.Kind().String() // string and map
}

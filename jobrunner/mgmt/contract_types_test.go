package mgmt

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// wireTypes are the wire types by the names of the contract.
var wireTypes = []struct {
	api      contract.API
	resource string
	request  any // nil: no request has it
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
	{contract.V1, "pod", podBodyV1{}, podV1{}},
	{contract.V2, "pod", podBodyV2{}, podV2{}},
	{contract.V2, "cluster", clusterBodyV2{}, clusterV2{}},
	{contract.V2, "gpuType", nil, gpuTypeV2{}},
	{contract.V2, "cpuType", nil, cpuTypeV2{}},
	{contract.V2, "dataCenter", nil, dataCenterV2{}},
	{contract.V1, "billing", nil, billingRecordV1{}},
	{contract.V1, "networkVolumeBilling", nil, volumeBillingRecordV1{}},
	{contract.V2, "billing", nil, billingV2{}},
	{contract.V2, "podBilling", nil, podBillingV2{}},
	{contract.V2, "serverlessBilling", nil, serverlessBillingV2{}},
	{contract.V2, "endpointBilling", nil, publicBillingV2{}},
	{contract.V2, "networkVolumeBilling", nil, volumeBillingV2{}},
	{contract.V2, "clusterBilling", nil, clusterBillingV2{}},
}

// unansweredMembers are members of answers that this deployment omits.
var unansweredMembers = map[string]string{
	"v1 endpoint workers": "the store does not know the workers",
	"v1 endpoint userId":  "there is one user, without an id",
}

// stricterRules are rules that the contract does not have. They ensure that each
// version can show what the other accepts.
var stricterRules = map[string]string{
	"v1 template name min":                 "no empty name",
	"v1 template imageName min":            "no container without an image",
	"v1 networkVolume name min":            "no empty name",
	"v1 networkVolume dataCenterId min":    "no empty place",
	"v1 registryAuth name min":             "no empty name",
	"v1 endpoint name min":                 "no empty name",
	"v1 endpoint templateId min":           "no empty id",
	"v2 template image min":                "no container without an image",
	"v2 delegation resource form":          "only the ARN of a repository names an image",
	"v1 pod name min":                      "no empty name",
	"v1 pod imageName min":                 "no container without an image",
	"v1 pod gpuTypeIds form":               "no empty id, and none with control characters",
	"v1 pod cpuFlavorIds form":             "no empty id, and none with control characters",
	"v1 pod dataCenterIds form":            "no empty id, and none with control characters",
	"v1 pod allowedCudaVersions form":      "version 2 says the form",
	"v2 pod image min":                     "no container without an image",
	"v2 pod gpu.id form":                   "no empty id, and none with control characters",
	"v2 pod cpu.id form":                   "no empty id, and none with control characters",
	"v2 pod dataCenterIds form":            "no empty id, and none with control characters",
	"v2 cluster image min":                 "no container without an image",
	"v2 cluster compute.gpuTypeId form":    "no empty id, and none with control characters",
	"v2 cluster dataCenterIds form":        "no empty id, and none with control characters",
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

// checkMethodRules are rules that a check method implements.
var checkMethodRules = map[string]string{
	"v2 template image required": "an endpoint has the same container settings, where a template may give the image",
}

// memberFacts describes a member of a wire type.
type memberFacts struct {
	kind     string
	rule     rule
	optional bool // in an answer
}

func TestWireTypesMatchContract(t *testing.T) {
	exceptions := maps.Clone(unansweredMembers)
	for _, w := range wireTypes {
		if w.request != nil {
			known := map[string]memberFacts{}
			collectMembers(reflect.TypeOf(w.request), "", known)
			for use, p := range map[contract.Use]phase{contract.Create: creating, contract.Update: updating} {
				fields := contract.FieldsOf(w.api, w.resource, use)
				if len(fields) == 0 {
					continue // a registry auth has no update
				}
				compareMembers(t, w.api, w.resource, fields, known, func(f memberFacts) bool {
					return p == creating && !f.rule.updateOnly || p == updating && !f.rule.createOnly
				}, nil)
			}
		}
		known := map[string]memberFacts{}
		collectMembers(reflect.TypeOf(w.answer), "", known)
		fields := contract.FieldsOf(w.api, w.resource, contract.Read)
		compareMembers(t, w.api, w.resource, fields, known, func(memberFacts) bool { return true }, exceptions)
		for _, f := range fields {
			if f.RequiredIn(contract.Read) && known[f.Path].optional {
				t.Errorf("%s %s %s must be in every answer: it has omitempty", w.api, w.resource, f.Path)
			}
		}
	}
	for unused := range exceptions {
		t.Errorf("%s is excused without need", unused)
	}
}

// compareMembers reports the members that only one of wire type and contract has.
func compareMembers(t *testing.T, api contract.API, resource string, fields []contract.Field, known map[string]memberFacts, applies func(memberFacts) bool, exceptions map[string]string) {
	t.Helper()
	inContract := map[string]bool{}
	for _, f := range fields {
		inContract[f.Path] = true
		member, ok := known[f.Path]
		key := string(api) + " " + resource + " " + f.Path
		switch {
		case !ok || !applies(member):
			if exceptions[key] == "" {
				t.Errorf("%s is not known", key)
			}
			delete(exceptions, key)
		case member.kind != f.Type:
			t.Errorf("%s is %s, here it is %s", key, f.Type, member.kind)
		}
	}
	for path, f := range known {
		if applies(f) && !inContract[path] {
			t.Errorf("%s %s: the contract has no %s", api, resource, path)
		}
	}
}

func TestRulesMatchContract(t *testing.T) {
	extraRules, checkRules := maps.Clone(stricterRules), maps.Clone(checkMethodRules)
	for _, w := range wireTypes {
		if w.request == nil {
			continue
		}
		known := map[string]memberFacts{}
		collectMembers(reflect.TypeOf(w.request), "", known)
		for _, f := range contract.Fields {
			if f.API != w.api || f.Resource != w.resource || !f.In(contract.Create|contract.Update) {
				continue
			}
			key, r := string(w.api)+" "+w.resource+" "+f.Path, known[f.Path].rule
			if !sameNumber(r.min, f.Min) && !takeException(extraRules, key+" min") {
				t.Errorf("%s: the minimum differs", key)
			}
			if !sameNumber(r.max, f.Max) {
				t.Errorf("%s: the maximum differs", key)
			}
			if r.allowZero != f.OrZero {
				t.Errorf("%s: zero is %v here", key, r.allowZero)
			}
			if closed := !f.Open && f.Enum != nil; closed && !sameElements(r.oneOf, f.Enum) || !closed && r.oneOf != nil {
				t.Errorf("%s is one of %q, here of %q (open: %v)", key, f.Enum, r.oneOf, f.Open)
			}
			pattern := ""
			if r.pattern != nil {
				pattern = r.pattern.regexp.String()
				if f.Use == contract.Update && r.clearable {
					pattern = "^$|" + pattern
				}
			}
			if pattern != f.Pattern && !takeException(extraRules, key+" form") {
				t.Errorf("%s has the form %q, here %q", key, f.Pattern, pattern)
			}
			create := r.required || r.requiredOnCreate
			if f.In(contract.Create) && create != f.RequiredIn(contract.Create) && !takeException(checkRules, key+" required") {
				t.Errorf("%s: required in a create: %v", key, f.RequiredIn(contract.Create))
			}
			if f.In(contract.Update) && r.required != f.RequiredIn(contract.Update) {
				t.Errorf("%s: required in an update: %v", key, f.RequiredIn(contract.Update))
			}
		}
	}
	for _, unused := range append(slices.Collect(maps.Keys(extraRules)), slices.Collect(maps.Keys(checkRules))...) {
		t.Errorf("%s is excused without need", unused)
	}
}

func takeException(exceptions map[string]string, key string) bool {
	_, ok := exceptions[key]
	delete(exceptions, key)
	return ok
}

func sameNumber(a, b *float64) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// collectMembers collects the members of a wire type.
func collectMembers(typ reflect.Type, prefix string, members map[string]memberFacts) {
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		path, elem := prefix+name, f.Type
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		members[path] = memberFacts{jsonKind(elem), parseRule(f.Tag.Get("rule")), strings.Contains(options, "omitempty")}
		switch members[path].kind {
		case "object":
			if elem != reflect.TypeFor[templateV1]() { // the contract names it in an endpoint, and describes it by itself
				collectMembers(elem, path+".", members)
			}
			if members[path].rule.createOnly { // and so is what is in it
				for inner, m := range members {
					if strings.HasPrefix(inner, path+".") {
						m.rule.createOnly = true
						members[inner] = m
					}
				}
			}
		case "array":
			if elem.Elem().Kind() == reflect.Struct {
				collectMembers(elem.Elem(), path+"[].", members)
			}
		}
	}
}

func jsonKind(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[reference](), t == reflect.TypeFor[time.Time]():
		return "string"
	case t == reflect.TypeFor[catalog.USD]():
		return "number"
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

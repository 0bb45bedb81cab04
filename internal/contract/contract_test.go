package contract

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func (f Field) String() string {
	return fmt.Sprintf("%s %s %s (%s)", f.API, f.Resource, f.Path, strings.ReplaceAll(usesOf(f), `\`, ""))
}

// pattern returns the regular expression of a field, or "".
func pattern(f Field) string {
	if f.Form == nil {
		return ""
	}
	return f.Form.Pattern
}

func (o Operation) String() string { return fmt.Sprintf("%s %s %s", o.API, o.Method, o.Path) }

var sourceForm = regexp.MustCompile(`^(service description|v1 document|v2 document|changes of November 2026|field notes): \S`)

func TestNoMemberIsListedTwiceForABody(t *testing.T) {
	seen := map[string]Use{}
	for _, f := range Fields {
		key := fmt.Sprint(f.API, f.Resource, f.Path)
		must.Equal(t, seen[key]&f.Use, 0, f, "another row has the same member in the same body")
		seen[key] |= f.Use
	}
}

func TestFieldsAreWellFormed(t *testing.T) {
	types := []string{"string", "integer", "number", "boolean", "object", "map", "array", "any"}
	known := [][]string{DataCenterIDs, GPUTypeIDs, GPUPoolIDs, CPUFlavorIDs, CUDAVersions}
	path := regexp.MustCompile(`^[a-z][A-Za-z0-9_]*(\[\])?(\.[a-z][A-Za-z0-9_]*(\[\])?)*$`)
	for _, f := range Fields {
		must.Hold(t, path.MatchString(f.Path) && !strings.HasSuffix(f.Path, "[]"), f, "not a path of a member")
		must.Hold(t, slices.Contains(types, f.Type), f, "unknown type", f.Type)
		must.Equal(t, f.Items != "", f.Type == "array" || f.Type == "map", f, "type", f.Type, "with elements", f.Items)
		must.Hold(t, f.Use != 0 && f.Required&^f.Use == 0, f, "required in a body without it")
		must.Hold(t, f.Default == "" || f.In(Create), f, "has a default but is in no create body")
		must.Hold(t, f.Default == "" || !f.RequiredIn(Create), f, "is required and has a default")
		empty := map[string]string{"array": "[]", "map": "{}", "string": `""`, "integer": "0"}[f.Type]
		must.Hold(t, f.Clear == "" || f.Clear == empty || f.Clear == "null" && f.Nullable, f, "cleared by", f.Clear, "not by the empty value", empty, "STO-04, CMD-01")
		must.Hold(t, f.Min == nil || f.Max == nil || *f.Min <= *f.Max, f, "has empty bounds")
		must.Hold(t, f.Min == nil && f.Max == nil || slices.Contains([]string{"integer", "number", "string", "array"}, f.Type), f, "bounds on a", f.Type)
		must.Hold(t, !f.OrZero || f.Min != nil && !(*f.Min <= 0), f, "0 is within its bounds, so OrZero is superfluous")
		must.Hold(t, !f.Open || f.Resource == "build" || slices.ContainsFunc(known, func(list []string) bool { return slices.Equal(list, f.Enum) }),
			f, "the open list", f.Enum, "is none of the known lists (known.go)")
		must.Hold(t, f.Path != "id" || !f.In(Read) || f.RequiredIn(Read), f, "an answer without the object's id")
		must.Hold(t, f.Unit == "" || f.Type == "integer" || f.Type == "number" || f.Unit == "bytes", f, "a unit on a", f.Type)
		must.Equal(t, f.Secret, (f.Resource == "registryAuth" && f.Path == "password") || (f.Resource == "secret" && f.Path == "value"), f, "secret", "SECURITY.md")
		must.Hold(t, sourceForm.MatchString(f.Source), f, "source", f.Source, "names no source")
		checkValueForms(t, f)
	}
}

// Members of requests with the same name, such as ports, have the same form, except name, id and
// resource, which mean something else in each kind. Members of templates and endpoints with the same
// name are cleared by the same value. The client sends env, ports and registry of an endpoint with its
// container, so those need no value.
func TestMembersOfTheSameNameAreAlike(t *testing.T) {
	formed, cleared := map[string]Field{}, map[string]Field{}
	for _, f := range Fields {
		name := f.Path[strings.LastIndex(f.Path, ".")+1:]
		if f.In(Create|Update) && !slices.Contains([]string{"name", "id", "resource"}, name) {
			other, seen := formed[name]
			formed[name] = f
			must.Hold(t, !seen || pattern(f) == pattern(other), f, "has the form", pattern(f), other, "has", pattern(other))
		}
		if (f.Resource == "template" || f.Resource == "endpoint") && f.In(Update) && !slices.Contains([]string{"env", "ports", "registry"}, name) {
			other, seen := cleared[name]
			cleared[name] = f
			must.Hold(t, !seen || f.Clear == other.Clear, f, "is cleared by", f.Clear, other, "by", other.Clear)
		}
	}
}

// checkValueForms checks the known values, the pattern and the default.
func checkValueForms(t *testing.T, f Field) {
	t.Helper()
	element := f.Type
	if f.Items != "" {
		element = f.Items
	}
	must.Hold(t, len(f.Enum) == 0 && pattern(f) == "" || element == "string", f, "values or a pattern of strings on", element)
	form := must.Do(regexp.Compile(pattern(f)))(t)
	for i, value := range f.Enum {
		must.Hold(t, !slices.Contains(f.Enum[:i], value), f, "duplicate value", value)
		must.Hold(t, form.MatchString(value), f, "value", value, "does not match", pattern(f))
	}
	if f.Default != "" {
		var value any
		must.Succeed(t, json.Unmarshal([]byte(f.Default), &value), f, "default", f.Default)
		must.Equal(t, rejection(f, value), "", f, "default", f.Default)
	}
}

// rejection returns why a field rejects a value, or "".
func rejection(f Field, value any) string {
	measure, measured := 0.0, true
	var texts []string
	switch v := value.(type) {
	case string:
		if f.Type != "string" {
			return "not of type " + f.Type
		}
		texts, measure = []string{v}, float64(utf8.RuneCountInString(v))
	case float64:
		if f.Type != "number" && (f.Type != "integer" || v != math.Trunc(v)) {
			return "not of type " + f.Type
		}
		measure = v
	case bool:
		measured = false
		if f.Type != "boolean" {
			return "not of type " + f.Type
		}
	case []any:
		if f.Type != "array" {
			return "not of type " + f.Type
		}
		measure = float64(len(v))
		for _, element := range v {
			text, ok := element.(string)
			if !ok || f.Items != "string" {
				return "an element is not of type " + f.Items
			}
			texts = append(texts, text)
		}
	case map[string]any:
		measured = false
		if f.Type != "object" && f.Type != "map" {
			return "not of type " + f.Type
		}
	case nil:
		measured = false
		if !f.Nullable {
			return "null"
		}
	}
	if measured && (!f.OrZero || measure != 0) {
		if f.Min != nil && measure < *f.Min || f.Max != nil && measure > *f.Max {
			return "out of bounds"
		}
	}
	for _, text := range texts {
		if len(f.Enum) > 0 && !f.Open && !slices.Contains(f.Enum, text) {
			return "not one of the values"
		}
		if !regexp.MustCompile(pattern(f)).MatchString(text) {
			return "does not match " + pattern(f)
		}
	}
	return ""
}

func TestRejection(t *testing.T) {
	timeout := f("timeout", "integer", readWrite, between(5000, 604800000), orZero)
	ports := f("ports", "[]string", readWrite, form(Port))
	name := f("name", "string", readWrite, between(1, 3))
	category := f("category", "string", readWrite, oneOf("CPU"))
	for _, c := range []struct {
		field Field
		json  string
		ok    bool
	}{
		{timeout, `0`, true}, {timeout, `5000`, true}, {timeout, `4999`, false}, {timeout, `604800001`, false},
		{timeout, `5000.5`, false}, {timeout, `"5000"`, false}, {timeout, `null`, false},
		{ports, `[]`, true}, {ports, `["1/tcp","65535/http"]`, true}, {ports, `["0/tcp"]`, false}, {ports, `["65536/tcp"]`, false},
		{ports, `["80/udp"]`, false}, {ports, `["80"]`, false}, {ports, `["080/tcp"]`, false}, {ports, `[80]`, false}, {ports, `"80/tcp"`, false},
		{name, `""`, false}, {name, `"äöü"`, true}, {name, `"four"`, false},
		{category, `"CPU"`, true}, {category, `"TPU"`, false}, {category, `{}`, false}, {category, `true`, false},
	} {
		var value any
		must.Succeed(t, json.Unmarshal([]byte(c.json), &value))
		fault := rejection(c.field, value)
		must.Hold(t, (fault == "") == c.ok, c.field.Path, c.json, "accepted", fault == "", fault, c.ok)
	}
}

func TestPortFormAcceptsExactlyThePorts(t *testing.T) {
	form := regexp.MustCompile(Port.Pattern)
	for port := 0; port <= 70000; port++ {
		got, want := form.MatchString(fmt.Sprintf("%d/tcp", port)), port >= 1 && port <= 65535
		must.Require(t, got == want, "port", port, "accepted", got, "want", want)
	}
}

// A nested member's object or list must be in the same bodies.
func TestNestedMembersHaveTheirObject(t *testing.T) {
	for _, f := range Fields {
		dot := strings.LastIndex(f.Path, ".")
		if dot < 0 {
			continue
		}
		parent, isList := strings.CutSuffix(f.Path[:dot], "[]")
		var in Use
		for _, p := range Fields {
			if p.API != f.API || p.Resource != f.Resource || p.Path != parent {
				continue
			}
			if p.Type == "object" && !isList || p.Type == "array" && p.Items == "object" && isList {
				in |= p.Use
			}
		}
		must.Equal(t, f.Use&^in, 0, f, parent, "the object around it, isn't in all of its bodies")
	}
}

func TestOperationsAreWellFormed(t *testing.T) {
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE"}
	path := regexp.MustCompile(`^(/([a-z0-9.-]+|\{[A-Za-z_]+\}))+$`)
	seen := map[string]bool{}
	resourcesWithoutFields := []string{"logLine", "release", "worker"} // the table lacks their members
	var withoutFields []string
	for _, o := range Operations {
		must.Hold(t, !seen[o.String()], o, "listed twice")
		seen[o.String()] = true
		must.Hold(t, slices.Contains(methods, o.Method) && path.MatchString(o.Path), o, "not a method and a path")
		must.Hold(t, sourceForm.MatchString(o.Source), o, "source", o.Source, "names no source")
		checkCodes(t, o, o.Success, 200, 299)
		checkCodes(t, o, o.Errors, 400, 599)
		must.Hold(t, (o.Method == "DELETE") == slices.Contains(o.Success, 204) || o.API == Jobs || strings.HasSuffix(o.Path, "/action"), o, "success codes", o.Success)
		must.Hold(t, o.API != V2 || !strings.Contains(o.Path, "{") || strings.Contains(o.Path, "{id}"), o, "the first parameter of a v2 path is {id}")
		must.Hold(t, o.API == V1 || !strings.Contains(o.Path, "{") || slices.Contains(o.Errors, 404), o, "no 404 for an unknown id")
		hasFields := slices.Contains(Resources(o.API), o.Resource)
		isListed := slices.Contains(resourcesWithoutFields, o.Resource)
		must.Hold(t, o.Resource == "" || hasFields != isListed, o, o.Resource, "has fields", hasFields, "is in resourcesWithoutFields", isListed)
		if isListed {
			withoutFields = append(withoutFields, o.Resource)
		}
	}
	slices.Sort(withoutFields)
	must.Equal(t, slices.Compact(withoutFields), resourcesWithoutFields, "resourcesWithoutFields is", "the operations need")
}

func checkCodes(t *testing.T, o Operation, codes []int, low, high int) {
	t.Helper()
	must.Hold(t, len(codes) != 0 && slices.IsSorted(codes) && len(slices.Compact(slices.Clone(codes))) == len(codes) && codes[0] >= low && codes[len(codes)-1] <= high,
		o, "codes", codes)
}

// Every resource belongs to an operation and has exactly the bodies of its operations.
func TestOperationsAndFieldsBelongTogether(t *testing.T) {
	reached := map[string]Use{}
	for _, o := range Operations {
		key := fmt.Sprint(o.API, " ", o.Resource)
		switch {
		case o.Method == "GET" || o.Resource == "purge" || o.API == Jobs && o.Resource != "jobSubmission":
			reached[key] |= Read
		case o.Method == "PATCH" || o.Method == "PUT" || strings.HasSuffix(o.Path, "/update"):
			reached[key] |= Update | Read
		case o.Method == "POST":
			reached[key] |= Create
		}
	}
	reached["v2 podAction"] = Create // the operation's resource is its response, the pod
	for _, api := range []API{V1, V2, Jobs} {
		reached[fmt.Sprint(api, " error")] = Read
		for _, resource := range Resources(api) {
			var uses Use
			for _, f := range Fields {
				if f.API == api && f.Resource == resource {
					uses |= f.Use
				}
			}
			must.Equal(t, uses, reached[fmt.Sprint(api, " ", resource)], api, resource, "bodies with fields, and bodies of operations")
		}
	}
}

func TestFieldsOf(t *testing.T) {
	table := append(
		rows(V2, "shelf", "", f("id", "string", Read), f("name", "string", readWrite), f("size", "integer", readWrite), f("room", "string", Create|Read)),
		rows(V1, "shelf", "", f("id", "string", Read))...)
	paths := func(fields []Field) (names []string) {
		for _, f := range fields {
			names = append(names, f.Path)
		}
		return names
	}
	for _, c := range []struct {
		api      API
		resource string
		use      Use
		want     []string
	}{
		{V2, "shelf", Update, []string{"name", "size"}},
		{V2, "shelf", Create, []string{"name", "size", "room"}},
		{V1, "shelf", Read, []string{"id"}},
		{V1, "shelf", Update, nil},
		{V2, "nothing", readWrite, nil},
	} {
		must.Equal(t, paths(fieldsOf(table, c.api, c.resource, c.use)), c.want, c.api, c.resource, c.use)
	}
	want := []string{"batch", "batchList", "batchResults", "error", "health", "job", "jobList", "jobSubmission", "liveStream", "purge", "streamChunk"}
	must.Equal(t, Resources(Jobs), want, "Resources(Jobs)")
}

func TestChoicesAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range choiceRows() {
		if c[0] == "Topic" {
			clear(seen)
			continue
		}
		must.Hold(t, c[0] != "" && !seen[c[0]], "a choice without a topic or with a duplicate one", c)
		seen[c[0]] = true
		for _, text := range c[1:] {
			must.Hold(t, strings.HasSuffix(text, ".") && strings.Count(text, "`")%2 == 0, c[0], "invalid text", text, "expected a whole sentence")
		}
	}
	must.Hold(t, len(seen) > 0 && len(choiceRows()) == strings.Count(choices, "\n| "), "a row of choices.md doesn't have three cells")
}

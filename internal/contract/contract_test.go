package contract

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

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
	knownLists := [][]string{DataCenterIDs, GPUTypeIDs, GPUPoolIDs, CPUFlavorIDs, CUDAVersions}
	path := regexp.MustCompile(`^[a-z][A-Za-z0-9_]*(\[\])?(\.[a-z][A-Za-z0-9_]*(\[\])?)*$`)
	for _, f := range Fields {
		must.Hold(t, path.MatchString(f.Path) && !strings.HasSuffix(f.Path, "[]"), f, "isn't the path of a member")
		must.Hold(t, slices.Contains(types, f.Type), f, "has the unknown type", f.Type)
		must.Equal(t, f.Items != "", f.Type == "array" || f.Type == "map", f, "is of type", f.Type, "and has the element type", f.Items)
		must.Hold(t, f.Use != 0 && f.Required&^f.Use == 0, f, "is in no body, or is required in a body that it isn't in")
		must.Hold(t, f.Default == "" || f.In(Create), f, "has a default but is in no create body")
		must.Hold(t, f.Default == "" || !f.RequiredIn(Create), f, "is required and has a default")
		empty := map[string]string{"array": "[]", "map": "{}", "string": `""`, "integer": "0"}[f.Type]
		must.Hold(t, f.Clear == "" || f.Clear == empty || f.Clear == "null" && f.Nullable, f, "is cleared by", f.Clear, "and should be by the empty value", empty, "(clauses STO-04 and CMD-01)")
		must.Hold(t, f.Min == nil || f.Max == nil || *f.Min <= *f.Max, f, "has empty bounds")
		must.Hold(t, f.Min == nil && f.Max == nil || slices.Contains([]string{"integer", "number", "string", "array"}, f.Type), f, "has bounds, which the type", f.Type, "can't have")
		must.Hold(t, !f.OrZero || f.Min != nil && !(*f.Min <= 0), f, "0 is within its bounds, so OrZero is superfluous")
		must.Hold(t, !f.Open || f.Resource == "build" || slices.ContainsFunc(knownLists, func(list []string) bool { return slices.Equal(list, f.Enum) }),
			f, "the open list", f.Enum, "is none of the known lists (known.go)")
		must.Hold(t, f.Path != "id" || !f.In(Read) || f.RequiredIn(Read), f, "must be in every answer")
		must.Hold(t, f.Unit == "" || f.Type == "integer" || f.Type == "number" || f.Unit == "bytes", f, "has a unit, which the type", f.Type, "can't have")
		must.Equal(t, f.Secret, (f.Resource == "registryAuth" && f.Path == "password") || (f.Resource == "secret" && f.Path == "value"), f, "is marked as secret; SECURITY.md lists the secrets")
		must.Hold(t, sourceForm.MatchString(f.Source), f, "has the source", f.Source, "which names none")
		checkValueForms(t, f)
	}
}

// Members of requests with the same name have the same form, except name, id and resource. Those of templates and
// endpoints are cleared by the same value, except env, ports and registry, which the client sends with an
// endpoint's container.
func TestMembersOfTheSameNameAreAlike(t *testing.T) {
	requestFields, clearableFields := map[string]Field{}, map[string]Field{} // by name: the last one seen
	for _, f := range Fields {
		name := f.Path[strings.LastIndex(f.Path, ".")+1:]
		if f.In(Create|Update) && !slices.Contains([]string{"name", "id", "resource"}, name) {
			other, seen := requestFields[name]
			requestFields[name] = f
			must.Hold(t, !seen || pattern(f) == pattern(other), f, "has the form", pattern(f), "and", other, "has", pattern(other))
		}
		if (f.Resource == "template" || f.Resource == "endpoint") && f.In(Update) && !slices.Contains([]string{"env", "ports", "registry"}, name) {
			other, seen := clearableFields[name]
			clearableFields[name] = f
			must.Hold(t, !seen || f.Clear == other.Clear, f, "is cleared by", f.Clear, "and", other, "by", other.Clear)
		}
	}
}

// checkValueForms checks the known values, the pattern and the default.
func checkValueForms(t *testing.T, f Field) {
	t.Helper()
	element := cmp.Or(f.Items, f.Type)
	must.Hold(t, len(f.Enum) == 0 && pattern(f) == "" || element == "string", f, "has string values or a pattern, and is of type", element)
	form := must.Do(regexp.Compile(pattern(f)))(t)
	must.Hold(t, !strings.Contains(strings.ToLower(pattern(f)), `\p{`), f, "has a pattern that Python's OpenAPI validators reject", pattern(f))
	for i, value := range f.Enum {
		must.Hold(t, !slices.Contains(f.Enum[:i], value), f, "has the value", value, "twice")
		must.Hold(t, form.MatchString(value), f, "has the value", value, "which does not match", pattern(f))
	}
	if f.Default == "" {
		return
	}
	var value any // the jobrunner's first request fails if its rules reject a kind's default; its type and elements are left to that
	must.Succeed(t, json.Unmarshal([]byte(f.Default), &value), f, "has the default", f.Default)
	switch v := value.(type) {
	case float64:
		must.Hold(t, f.OrZero && v == 0 || (f.Min == nil || v >= *f.Min) && (f.Max == nil || v <= *f.Max), f, "has the default", v, "out of bounds")
	case string:
		must.Hold(t, (len(f.Enum) == 0 || f.Open || slices.Contains(f.Enum, v)) && form.MatchString(v), f, "rejects the default", v)
	}
}

func TestPortFormAcceptsExactlyThePorts(t *testing.T) {
	form := regexp.MustCompile(Port.Pattern)
	for port := 0; port <= 70000; port++ {
		got, want := form.MatchString(fmt.Sprintf("%d/tcp", port)), port >= 1 && port <= 65535
		must.Require(t, got == want, "port", port, "is accepted:", got, "want", want)
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
		var parentUse Use
		for _, p := range Fields {
			if p.API != f.API || p.Resource != f.Resource || p.Path != parent {
				continue
			}
			if p.Type == "object" && !isList || p.Type == "array" && p.Items == "object" && isList {
				parentUse |= p.Use
			}
		}
		must.Equal(t, f.Use&^parentUse, 0, f, "is in bodies that lack the object around it,", parent)
	}
}

func TestOperationsAreWellFormed(t *testing.T) {
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE"}
	path := regexp.MustCompile(`^(/([a-z0-9.-]+|\{[A-Za-z_]+\}))+$`)
	seen := map[string]bool{}
	resourcesWithoutFields := []string{"logLine", "release", "worker"} // the table lacks their members
	var withoutFields []string
	for _, o := range Operations {
		must.Hold(t, !seen[o.String()], o, "is listed twice")
		seen[o.String()] = true
		must.Hold(t, slices.Contains(methods, o.Method) && path.MatchString(o.Path), o, "isn't a method and a path")
		must.Hold(t, sourceForm.MatchString(o.Source), o, "has the source", o.Source, "which names none")
		checkCodes(t, o, o.Success, 200, 299)
		checkCodes(t, o, o.Errors, 400, 599)
		must.Hold(t, (o.Method == "DELETE") == slices.Contains(o.Success, 204) || o.API == Jobs || strings.HasSuffix(o.Path, "/action"), o, "has the success codes", o.Success, "but a deletion, and nothing else, answers 204")
		must.Hold(t, o.API != V2 || !strings.Contains(o.Path, "{") || strings.Contains(o.Path, "{id}"), o, "lacks {id}, the first parameter of each v2 path")
		must.Hold(t, o.API == V1 || !strings.Contains(o.Path, "{") || slices.Contains(o.Errors, 404), o, "lacks 404, the status for an unknown id")
		hasFields := slices.Contains(Resources(o.API), o.Resource)
		isListed := slices.Contains(resourcesWithoutFields, o.Resource)
		must.Hold(t, o.Resource == "" || hasFields != isListed, o, "is of", o.Resource, "which has fields:", hasFields, "and is in resourcesWithoutFields:", isListed)
		if isListed {
			withoutFields = append(withoutFields, o.Resource)
		}
	}
	slices.Sort(withoutFields)
	must.Equal(t, slices.Compact(withoutFields), resourcesWithoutFields, "the resources of operations that resourcesWithoutFields lists")
}

func checkCodes(t *testing.T, o Operation, codes []int, low, high int) {
	t.Helper()
	must.Hold(t, len(codes) != 0 && slices.IsSorted(codes) && len(slices.Compact(slices.Clone(codes))) == len(codes) && codes[0] >= low && codes[len(codes)-1] <= high,
		o, "has the codes", codes, "expected sorted ones without duplicates from", low, "to", high)
}

// Every resource belongs to an operation and has exactly the bodies of its operations.
func TestOperationsAndFieldsBelongTogether(t *testing.T) {
	operationUses := map[string]Use{} // by API and resource: the bodies that operations have
	for _, o := range Operations {
		key := fmt.Sprint(o.API, " ", o.Resource)
		switch {
		case o.Method == "GET" || o.Resource == "purge" || o.API == Jobs && o.Resource != "jobSubmission":
			operationUses[key] |= Read
		case o.Method == "PATCH" || o.Method == "PUT" || strings.HasSuffix(o.Path, "/update"):
			operationUses[key] |= Update | Read
		case o.Method == "POST":
			operationUses[key] |= Create
		}
	}
	operationUses["v2 podAction"] = Create // the operation's resource is its response, the pod
	for _, api := range []API{V1, V2, Jobs} {
		operationUses[fmt.Sprint(api, " error")] = Read
		for _, resource := range Resources(api) {
			var uses Use
			for _, f := range Fields {
				if f.API == api && f.Resource == resource {
					uses |= f.Use
				}
			}
			must.Equal(t, uses, operationUses[fmt.Sprint(api, " ", resource)], "the bodies of", api, resource, "in Fields, expected as in Operations")
		}
	}
}

func TestChoicesAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range choiceRows() {
		if c[0] == "Topic" {
			clear(seen)
			continue
		}
		must.Hold(t, c[0] != "" && !seen[c[0]], "the topic of the choice", c, "is empty or a duplicate")
		seen[c[0]] = true
		for _, text := range c[1:] {
			must.Hold(t, strings.HasSuffix(text, ".") && strings.Count(text, "`")%2 == 0, "the choice", c[0], "has the text", text, "which should end with a full stop and close its code")
		}
	}
	must.Hold(t, len(seen) > 0 && len(choiceRows()) == strings.Count(choices, "\n| "), "a row of choices.md doesn't have three cells")
}

// Package contract is the specification as data: what the two management APIs and the
// job API accept and return. The provider, the client and the jobrunner read types, bounds
// and defaults from it, and docs/reference/contract.md is printed from it. It imports nothing
// of this module. The conformance suite has its own table, so that it can find faults of this one.
package contract

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// API names one of the three documents that make up the contract.
type API string

const (
	V1   API = "v1"   // management API, paths after {base_url}/v1
	V2   API = "v2"   // management API, paths after {base_url}/v2
	Jobs API = "jobs" // job API, paths after {queue_url}/v2/{endpoint_id}
)

type Operation struct {
	API      API
	Method   string
	Path     string // with {name} parameters
	Query    []string
	Resource string // Field.Resource of its bodies; "" for OpenAPI documents and OpenAI routes
	Success  []int
	Errors   []int
	Source   string // section of the service description, or document and schema
	Note     string // remark, or the choice if sources differ or are silent
}

// Use is a set of bodies.
type Use uint8

const (
	Create Use = 1 << iota // request body of the create operation
	Update                 // request body of the update operation
	Read                   // response body
)

// Field is one member of a body, named by its path in it ("workers.idleTimeout",
// "cpu[].vcpuCount"). A member whose rules differ between bodies has a row for
// each; their uses don't overlap.
type Field struct {
	API              API
	Resource         string // "template", "networkVolume", "registryAuth", "endpoint", "job", "gpuType", …
	Path             string
	Type             string   // string, integer, number, boolean, object, map, array, any
	Items            string   // type of an array's or map's elements
	V2Paths          []string // paths in v2 of a v1 member, or, if v2 lacks it, the name that the provider uses; nil if that is the same
	Use              Use
	Required         Use      // bodies that must have it if they have the object around it
	Default          string   // value in a create body that omits it, as JSON text, or ""
	Min, Max         *float64 // of a number, or of a string's or array's length
	OrZero           bool     // 0 is also accepted, and means: not set
	Enum             []string // values, or an array's elements
	Open             bool     // values outside Enum are accepted
	Form             *Form    // of a string, or of an array's elements
	Not              *Form    // that a string must not have
	RequiredUnless   string   // member of the same object; a create without it must have this one
	RequiresInUpdate string   // member of the same object that an update with this one must have
	RequiredForType  string   // value of the sibling member `type` that requires this one; any other value forbids it
	Nullable         bool     // may be null; in a request that equals absent, or clears a reference
	Unique           bool     // an array without duplicates
	PowerOfTwo       bool
	Secret           bool   // responses and logs never show it
	Clear            string // value that unsets it in an update, as JSON text; "" if it can't be unset
	Unit             string // GB, s, ms, …
	Source           string
	Note             string
}

func (f Field) In(u Use) bool { return f.Use&u != 0 }

// RequiredIn reports whether a body of use u must have the field.
func (f Field) RequiredIn(u Use) bool { return f.Required&u != 0 }

func (f Field) Closed() bool { return len(f.Enum) > 0 && !f.Open }

func (f Field) Element() *Field {
	return &Field{API: f.API, Resource: f.Resource, Path: f.Path + "[]", Type: f.Items, Use: f.Use, Enum: f.Enum, Open: f.Open, Form: f.Form}
}

// Body is a resource's body of a create, an update or a response.
type Body struct {
	API      API
	Resource string
	Use      Use
}

// bodies has the fields of every body by path.
var bodies = sync.OnceValue(func() map[Body]map[string]*Field {
	all := map[Body]map[string]*Field{}
	for i := range Fields {
		f := &Fields[i]
		for _, use := range []Use{Create, Update, Read} {
			if !f.In(use) {
				continue
			}
			b := Body{f.API, f.Resource, use}
			if all[b] == nil {
				all[b] = map[string]*Field{}
			}
			all[b][f.Path] = f
		}
	}
	return all
})

// At returns the field at a path, nil if the body doesn't have it.
func (b Body) At(path string) *Field { return bodies()[b][path] }

// Clearing returns the values that unset the members of an object in the body, by name.
// object is the object's path, "" or ending with a dot.
func (b Body) Clearing(object string) map[string]string {
	out := map[string]string{}
	for path, f := range bodies()[b] {
		if name, ok := strings.CutPrefix(path, object); ok && f.Clear != "" && !strings.Contains(name, ".") {
			out[name] = f.Clear
		}
	}
	return out
}

// Neutral returns the member's names in the provider: V2Paths, or else its path.
func (f Field) Neutral() []string {
	if f.V2Paths != nil {
		return f.V2Paths
	}
	return []string{f.Path}
}

// Setting is a member that a request of a management API can set, by its neutral path.
type Setting struct {
	Path   string
	V1, V2 *Field // nil: no request of the version sets it
}

// settings has the settings of each resource in table order, v2 first.
var settings = sync.OnceValue(func() map[string][]*Setting {
	all := map[string][]*Setting{}
	for _, api := range []API{V2, V1} {
		for i := range Fields {
			f := &Fields[i]
			if f.API != api || !f.In(Create|Update) {
				continue
			}
			for _, path := range f.Neutral() {
				index := slices.IndexFunc(all[f.Resource], func(s *Setting) bool { return s.Path == path })
				if index < 0 {
					index, all[f.Resource] = len(all[f.Resource]), append(all[f.Resource], &Setting{Path: path})
				}
				s := all[f.Resource][index]
				switch {
				case api == V2 && s.V2 == nil:
					s.V2 = f
				case api == V1 && s.V1 == nil:
					s.V1 = f
				}
			}
		}
	}
	return all
})

func Settings(resource string) []*Setting { return settings()[resource] }

// SettingAt returns the setting at a neutral path. It panics if the path has none.
func SettingAt(resource, path string) *Setting {
	for _, s := range Settings(resource) {
		if s.Path == path {
			return s
		}
	}
	panic("the contract has no setting " + path + " of " + resource)
}

// Field returns the row of v2, or of v1 if only v1 has the setting.
func (s *Setting) Field() *Field {
	if s.V2 != nil {
		return s.V2
	}
	return s.V1
}

// OnlyVersion returns the only version that has the setting. It returns "" if both have it, or if only one
// version has the resource.
func (s *Setting) OnlyVersion() API {
	f := s.Field()
	onBoth := bodies()[Body{V1, f.Resource, Create}] != nil && bodies()[Body{V2, f.Resource, Create}] != nil
	if !onBoth || s.V1 != nil && s.V2 != nil {
		return ""
	}
	return f.API
}

// FieldAt returns the field of a request at a path. It panics if the path has none.
func FieldAt(api API, resource, path string) *Field {
	for _, use := range []Use{Create, Update} {
		if f := (Body{api, resource, use}).At(path); f != nil {
			return f
		}
	}
	panic("the contract has no " + string(api) + " " + resource + " " + path)
}

// Default returns the default of a field. It panics if the default isn't a T.
func Default[T any](f *Field) (value T) {
	if err := json.Unmarshal([]byte(f.Default), &value); err != nil {
		panic("the default of " + f.Path + ": " + err.Error())
	}
	return value
}

// Defaults returns the defaults of a create body as a JSON object. Members of list elements have none.
func Defaults(api API, resource string) []byte {
	out := map[string]any{}
	for _, f := range FieldsOf(api, resource, Create) {
		if f.Default == "" || strings.Contains(f.Path, "[]") {
			continue
		}
		object, path := out, strings.Split(f.Path, ".")
		for _, name := range path[:len(path)-1] {
			inner, ok := object[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				object[name] = inner
			}
			object = inner
		}
		object[path[len(path)-1]] = json.RawMessage(f.Default)
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // a default isn't JSON; tests check that
	}
	return text
}

// FieldsOf returns the fields of a resource's body of use u in table order.
func FieldsOf(api API, resource string, u Use) []Field {
	var out []Field
	for _, f := range Fields {
		if f.API == api && f.Resource == resource && f.In(u) {
			out = append(out, f)
		}
	}
	return out
}

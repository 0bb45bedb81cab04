package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// schemas are all schemas that apply to one value.
type schemas []*openapi3.Schema

// flatten returns a schema and its parts.
func flatten(ref *openapi3.SchemaRef) (list schemas) {
	if ref == nil || ref.Value == nil {
		return nil
	}
	s := ref.Value
	list = append(list, s)
	for _, part := range slices.Concat(s.AllOf, s.OneOf, s.AnyOf, openapi3.SchemaRefs{s.If, s.Then, s.Else}) {
		list = append(list, flatten(part)...)
	}
	return list
}

// properties returns the schemas of each member of an object.
func (s schemas) properties() map[string]schemas {
	out := map[string]schemas{}
	for _, part := range s {
		for name, ref := range part.Properties {
			out[name] = append(out[name], flatten(ref)...)
		}
	}
	return out
}

// items returns the schemas of a list's elements.
func (s schemas) items() (list schemas) {
	for _, part := range s {
		list = append(list, flatten(part.Items)...)
	}
	return list
}

func (s schemas) includesType(kind string) bool {
	return slices.ContainsFunc(s, func(part *openapi3.Schema) bool { return part.Type.Includes(kind) })
}

// sample returns a value that the schemas accept: the member's value in sampleValues, or one made from the schemas.
func (s schemas) sample(name string) any {
	if value, ok := sampleValues[name]; ok {
		return value
	}
	for _, part := range s {
		if len(part.Enum) > 0 {
			return part.Enum[0]
		}
	}
	switch {
	case s.includesType("array"):
		return []any{s.items().sample(name)}
	case s.includesType("boolean"):
		return true
	case s.includesType("integer"), s.includesType("number"):
		for _, part := range s {
			if part.Min != nil {
				return *part.Min
			}
		}
		return 1
	case s.includesType("string"):
		return unique
	}
	out := map[string]any{}
	members := s.properties()
	for _, part := range s {
		for _, name := range part.Required {
			if member, ok := members[name]; ok {
				out[name] = member.sample(name)
			}
		}
	}
	return out
}

// change replaces or removes a value. The document's schema decides whether the result is valid.
type change struct {
	name   string
	value  any
	remove bool
}

// unique is replaced by another text in each request.
const unique = "text-%N%"

// changes returns values to try: of every type, and on both sides of every bound.
func (s schemas) changes() (list []change) {
	add := func(name string, value any) { list = append(list, change{name: name, value: value}) }
	list = append(list, change{name: "missing", remove: true})
	add("null", nil)
	add("a text", unique)
	add("an empty text", "")
	add("a blank", " ")
	add("a long text", unique+strings.Repeat("x", 300))
	add("a number as text", "10")
	add("0", 0)
	add("-1", -1)
	add("1.5", 1.5)
	add("1e400", json.RawMessage("1e400"))
	add("2^63", json.RawMessage("9223372036854775808"))
	add("true", true)
	add("an object", map[string]any{})
	add("an object with an unknown member", map[string]any{"unknown": "x"})
	add("a list", []any{})
	add("a list of null", []any{nil})
	add("a list of 1", []any{1})
	add("a list of a list", []any{[]any{}})
	add("a text with NUL", "\x00")
	for _, part := range s {
		for _, value := range part.Enum {
			add(fmt.Sprintf("%v", value), value)
			if text, ok := value.(string); ok {
				add("a value in the other case", strings.ToLower(text))
			}
		}
		if len(part.Enum) > 1 {
			add("two values", fmt.Sprintf("%v,%v", part.Enum[0], part.Enum[1]))
		}
		for name, bound := range map[string]*float64{"the minimum": part.Min, "the maximum": part.Max} {
			if bound != nil {
				add(name, *bound)
				add("below "+name, *bound-1)
				add("a hair below "+name, *bound-0.001)
				add("above "+name, *bound+1)
				add("a hair above "+name, *bound+0.001)
			}
		}
		for name, length := range map[string]*uint64{"the least length": &part.MinLength, "the most length": part.MaxLength} {
			if length != nil && *length > 0 {
				add(name, strings.Repeat("x", int(*length)))
				add("below "+name, strings.Repeat("x", int(*length)-1))
				add("above "+name, strings.Repeat("x", int(*length)+1))
			}
		}
		if part.Items != nil {
			item := flatten(part.Items).sample("")
			add("an item twice", []any{item, item})
			for name, n := range map[string]*uint64{"the least items": &part.MinItems, "the most items": part.MaxItems} {
				if n != nil && *n > 0 {
					add("below "+name, slices.Repeat([]any{item}, int(*n)-1))
					add("above "+name, slices.Repeat([]any{item}, int(*n)+1))
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(list, func(a, b change) bool { return a.name == b.name })
}

// mutation is a body with one change.
type mutation struct {
	at   string // path of the member
	name string // name of the change
	body any
}

// mutations returns a body with each change of each member of the schema, and with unknown members.
func mutations(ref *openapi3.SchemaRef, base any) (list []mutation) {
	s := flatten(ref)
	s.walk(nil, "", 0, func(path []string, s schemas) {
		for _, c := range s.changes() {
			body := clone(base)
			if len(path) == 0 {
				if !c.remove {
					list = append(list, mutation{"$", c.name, c.value})
				}
				continue
			}
			if flatten(ref).put(&body, path, c) {
				list = append(list, mutation{jsonPath(path), c.name, body})
			}
		}
		if s.includesType("object") {
			body := clone(base)
			if flatten(ref).put(&body, append(slices.Clone(path), "unknown"), change{value: "x"}) {
				list = append(list, mutation{jsonPath(path), "with an unknown member", body})
			}
		}
	})
	return list
}

func jsonPath(path []string) string { return strings.Join(append([]string{"$"}, path...), ".") }

// walk visits each member recursively.
func (s schemas) walk(path []string, name string, depth int, visit func(path []string, s schemas)) {
	if depth > 8 {
		return // the schema is recursive
	}
	visit(path, s)
	members := s.properties()
	for _, member := range slices.Sorted(maps.Keys(members)) {
		members[member].walk(append(slices.Clone(path), member), member, depth+1, visit)
	}
	if items := s.items(); len(items) > 0 && s.includesType("array") {
		items.walk(append(slices.Clone(path), "0"), name, depth+1, visit)
	}
	for _, part := range s {
		if part.AdditionalProperties.Schema != nil {
			flatten(part.AdditionalProperties.Schema).walk(append(slices.Clone(path), "KEY"), name, depth+1, visit)
		}
	}
}

// put applies a change at a path of a body, creating missing objects, and reports whether it changed anything.
func (s schemas) put(body *any, path []string, c change) bool {
	if list, ok := (*body).([]any); ok && path[0] == "0" {
		if len(list) == 0 {
			list = []any{s.items().sample("")}
		}
		*body = list
		if len(path) > 1 {
			return s.items().put(&list[0], path[1:], c)
		}
		if c.remove {
			return false // an empty list is another change
		}
		list[0] = c.value
		return true
	}
	in, ok := (*body).(map[string]any)
	if !ok {
		return false
	}
	name := path[0]
	if len(path) == 1 {
		_, existed := in[name]
		if c.remove {
			delete(in, name)
			return existed
		}
		in[name] = c.value
		return true
	}
	member := s.properties()[name]
	inner, ok := in[name]
	if !ok {
		inner = clone(member.sample(name))
	}
	changed := member.put(&inner, path[1:], c)
	in[name] = inner
	return changed
}

// project keeps only the members that the schemas have, to make a request body from a response.
func (s schemas) project(value any) any {
	switch in := value.(type) {
	case map[string]any:
		members := s.properties()
		if len(members) == 0 {
			return in // a map with names as keys
		}
		out := map[string]any{}
		for name, value := range in {
			member, ok := members[name]
			if ok && (value != nil || member.includesType("null")) {
				out[name] = member.project(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(in))
		for i, item := range in {
			out[i] = s.items().project(item)
		}
		return out
	}
	return value
}

// clone returns a deep copy of a body.
func clone(in any) any {
	switch in := in.(type) {
	case map[string]any:
		out := make(map[string]any, len(in))
		for name, value := range in {
			out[name] = clone(value)
		}
		return out
	case []any:
		out := make([]any, len(in))
		for i, value := range in {
			out[i] = clone(value)
		}
		return out
	}
	return in
}

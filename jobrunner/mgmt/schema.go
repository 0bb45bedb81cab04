package mgmt

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// schemas makes the schemas of a document from wire types and their rules, by the
// same tags that decode obeys.
type schemas struct {
	version3_0 bool // OpenAPI 3.0, not 3.1
	components map[string]*openapi.Schema
	types      map[string]reflect.Type // of the components
}

// anyList converts a list for Schema.Enum; nil stays nil.
func anyList(values []string) (out []any) {
	for _, v := range values {
		out = append(out, v)
	}
	return out
}

var versionSuffix = regexp.MustCompile(`V\d$`)

// name of a component: that of the wire type without its version.
func componentName(t reflect.Type) string {
	name := versionSuffix.ReplaceAllString(t.Name(), "")
	for _, initialism := range []string{"GPU", "CPU", "SSH", "URL", "ECR", "VCPU", "CUDA"} {
		name = strings.ReplaceAll(name, initialism, initialism[:1]+strings.ToLower(initialism[1:]))
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// component registers the schema of a struct, and refers to it.
func (s *schemas) component(name string, t reflect.Type, describe func(reflect.Type) *openapi.Schema) *openapi.Schema {
	switch known := s.types[name]; {
	case known == nil:
		s.types[name] = t
		s.components[name] = describe(t)
	case known != t:
		panic(fmt.Sprintf("the types %s and %s are both the component %s: rename one", known, t, name))
	}
	return &openapi.Schema{Ref: "#/components/schemas/" + name}
}

// nullable also accepts null.
func (s *schemas) nullable(schema *openapi.Schema) *openapi.Schema {
	switch {
	case schema.Ref != "" && s.version3_0:
		return &openapi.Schema{AllOf: []*openapi.Schema{schema}, Nullable: true}
	case schema.Ref != "":
		return &openapi.Schema{AnyOf: []*openapi.Schema{schema, {Type: "null"}}}
	case schema.Type == nil:
	case s.version3_0:
		schema.Nullable = true
	default:
		schema.Type = []string{schema.Type.(string), "null"}
		if schema.Enum != nil {
			schema.Enum = append(schema.Enum, nil)
		}
	}
	return schema
}

// answer is the schema of a type in an answer. Of its members' rules only the values
// hold: each version shows what the other accepted.
func (s *schemas) answer(t reflect.Type, r rule) *openapi.Schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &openapi.Schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[catalog.USD]():
		return &openapi.Schema{Type: "number", Format: "double"}
	case t == reflect.TypeFor[json.RawMessage]():
		return new(openapi.Schema) // any JSON
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.answer(t.Elem(), r)
	case reflect.Struct:
		return s.component(componentName(t), t, s.answerObject)
	case reflect.Slice:
		return &openapi.Schema{Type: "array", Items: s.answer(t.Elem(), rule{oneOf: r.oneOf})}
	case reflect.Map:
		return &openapi.Schema{Type: "object", AdditionalProperties: s.answer(t.Elem(), rule{})}
	case reflect.String:
		return &openapi.Schema{Type: "string", Enum: anyList(r.oneOf)}
	case reflect.Bool:
		return &openapi.Schema{Type: "boolean"}
	case reflect.Int, reflect.Int64:
		return &openapi.Schema{Type: "integer", Format: "int64"}
	case reflect.Float64:
		return &openapi.Schema{Type: "number", Format: "double"}
	}
	panic("unsupported type in an answer: " + t.String())
}

func (s *schemas) answerObject(t reflect.Type) *openapi.Schema {
	out := &openapi.Schema{Type: "object", Properties: map[string]*openapi.Schema{}}
	for _, m := range members(t) {
		f := t.FieldByIndex(m.index)
		value := s.answer(f.Type, m.rule)
		if optional := strings.Contains(f.Tag.Get("json"), ",omitempty"); !optional {
			out.Required = append(out.Required, m.name)
			if f.Type.Kind() == reflect.Pointer && !m.rule.required {
				value = s.nullable(value)
			}
		}
		out.Properties[m.name] = value
	}
	slices.Sort(out.Required)
	return out
}

// body is the schema of a type in the body of a request, as decode reads it.
func (s *schemas) body(t reflect.Type, p phase, r rule) *openapi.Schema {
	if t == reflect.TypeFor[reference]() {
		out := s.bodyString(rule{pattern: r.pattern, oneOf: r.oneOf, min: r.min, max: r.max, clearable: true}, updating)
		return s.nullable(out)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.body(t.Elem(), p, r)
	case reflect.Struct:
		return s.bodyComponent(t, p)
	case reflect.Slice:
		out := &openapi.Schema{Type: "array", Items: s.body(t.Elem(), p, rule{oneOf: r.oneOf, pattern: r.pattern}), UniqueItems: r.unique}
		out.MinItems, out.MaxItems = wholeNumber(r.min), wholeNumber(r.max)
		return out
	case reflect.Map:
		return s.env()
	case reflect.String:
		return s.bodyString(r, p)
	case reflect.Bool:
		return &openapi.Schema{Type: "boolean"}
	case reflect.Int64:
		return number(&openapi.Schema{Type: "integer", Format: "int64"}, r)
	case reflect.Float64:
		return number(&openapi.Schema{Type: "number", Format: "double"}, r)
	}
	panic("unsupported type in a body: " + t.String())
}

// env are environment variables (see decodeEnv). OpenAPI 3.0 has no rule for names.
func (s *schemas) env() *openapi.Schema {
	out := &openapi.Schema{Type: "object", AdditionalProperties: &openapi.Schema{Type: "string", Pattern: `^[^\x00]*$`}}
	if !s.version3_0 {
		out.PropertyNames = &openapi.Schema{Pattern: `^[^=\x00]+$`}
	}
	return out
}

func (s *schemas) bodyString(r rule, p phase) *openapi.Schema {
	out := &openapi.Schema{Type: "string", Enum: anyList(r.oneOf), MinLength: wholeNumber(r.min), MaxLength: wholeNumber(r.max)}
	if r.pattern != nil {
		out.Pattern, out.Description = r.pattern.regexp.String(), "Expected "+r.pattern.description+"."
	}
	if r.clearable && p == updating {
		out.MinLength = nil
		if out.Pattern != "" {
			out.Pattern = "^$|" + out.Pattern
		}
		if out.Enum != nil {
			out.Enum = append(out.Enum, "")
		}
	}
	return out
}

// number adds the bounds of a number. A schema has no powers of two: its description
// names them.
func number(out *openapi.Schema, r rule) *openapi.Schema {
	out.Minimum, out.Maximum = r.min, r.max
	if r.allowZero && r.min != nil {
		out.Minimum = new(float64(0))
		out.Not = &openapi.Schema{Minimum: new(float64(1)), Maximum: new(*r.min - 1)} // an integer
	}
	if r.powerOfTwo {
		out.Description = "Expected a power of two."
		if r.min != nil && *r.min >= 2 {
			out.MultipleOf = new(float64(2))
		}
	}
	return out
}

// integerSchema is the schema of the integers that a function accepts, as far as those
// from -1 to 100 show it.
func integerSchema(valid func(int64) bool) *openapi.Schema {
	out := &openapi.Schema{Type: "integer", Format: "int64"}
	if valid(-1) {
		return out
	}
	for n := range int64(100) {
		if valid(n) {
			out.Minimum = new(float64(n))
			if !valid(n+1) && valid(n+2) && n%2 == 0 {
				out.MultipleOf = new(float64(2))
			}
			break
		}
	}
	return out
}

func wholeNumber(f *float64) *int64 {
	if f == nil {
		return nil
	}
	return new(int64(*f))
}

// bodyComponent is a component for each phase, or one where the phases do not differ.
func (s *schemas) bodyComponent(t reflect.Type, p phase) *openapi.Schema {
	name := strings.TrimSuffix(componentName(t), "Body")
	suffix := "Input"
	if s.differs(t) {
		suffix = map[phase]string{creating: "Create", updating: "Update"}[p]
	}
	return s.component(name+suffix, t, func(t reflect.Type) *openapi.Schema { return s.bodyObject(t, p) })
}

// differs reports whether creates and updates have different rules for a type.
func (s *schemas) differs(t reflect.Type) bool {
	text := func(p phase) string {
		apart := schemas{s.version3_0, map[string]*openapi.Schema{}, map[string]reflect.Type{}}
		out, err := json.Marshal(apart.bodyObject(t, p))
		if err != nil {
			panic(err) // a schema always has a JSON form
		}
		return string(out)
	}
	return text(creating) != text(updating)
}

func (s *schemas) bodyObject(t reflect.Type, p phase) *openapi.Schema {
	out := &openapi.Schema{Type: "object", Properties: map[string]*openapi.Schema{}, AdditionalProperties: false}
	for _, m := range members(t) {
		if m.rule.createOnly && p == updating || m.rule.updateOnly && p == creating {
			continue
		}
		value := s.body(t.FieldByIndex(m.index).Type, p, m.rule)
		if m.rule.nullable {
			value = s.nullable(value)
		}
		out.Properties[m.name] = value
		if m.rule.required || m.rule.requiredOnCreate && p == creating {
			out.Required = append(out.Required, m.name)
		}
	}
	if c, ok := reflect.New(t).Interface().(describer); ok {
		c.describe(p, out)
	}
	slices.Sort(out.Required)
	return out
}

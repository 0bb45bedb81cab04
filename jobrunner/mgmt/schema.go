package mgmt

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// schemas generates the schemas of a document from wire types and their rules, which decode obeys too.
type schemas struct {
	version3_0 bool // OpenAPI 3.0 instead of 3.1
	components map[string]*openapi.Schema
	types      map[string]reflect.Type // by component
}

// anyList converts a list for Schema.Enum; nil stays nil.
func anyList(values []string) (out []any) {
	for _, v := range values {
		out = append(out, v)
	}
	return out
}

var versionSuffix = regexp.MustCompile(`V\d$`)

// componentName returns the name of the wire type without its version.
func componentName(t reflect.Type) string {
	name := versionSuffix.ReplaceAllString(t.Name(), "")
	for _, initialism := range []string{"GPU", "CPU", "SSH", "URL", "ECR", "VCPU", "CUDA"} {
		name = strings.ReplaceAll(name, initialism, initialism[:1]+strings.ToLower(initialism[1:]))
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func (s *schemas) component(name string, t reflect.Type, describe func(reflect.Type) *openapi.Schema) *openapi.Schema {
	switch registered := s.types[name]; {
	case registered == nil:
		s.types[name] = t
		s.components[name] = describe(t)
	case registered != t:
		panic(fmt.Sprintf("the types %s and %s are both the component %s: rename one", registered, t, name))
	}
	return &openapi.Schema{Ref: "#/components/schemas/" + name}
}

// nullable returns a schema that also accepts null.
func (s *schemas) nullable(schema *openapi.Schema) *openapi.Schema {
	switch {
	case schema.Ref != "":
		return &openapi.Schema{AnyOf: []*openapi.Schema{schema, {Type: "null"}}}
	case s.version3_0:
		schema.Nullable = true
	default:
		schema.Type = []string{schema.Type.(string), "null"}
	}
	return schema
}

// answer returns the schema of a type in an answer. The rules of requests don't apply: each version
// shows values that the other accepted, and a later release may add values.
func (s *schemas) answer(t reflect.Type) *openapi.Schema {
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
		return s.answer(t.Elem())
	case reflect.Struct:
		return s.component(componentName(t), t, s.answerObject)
	case reflect.Slice:
		return &openapi.Schema{Type: "array", Items: s.answer(t.Elem())}
	case reflect.Map:
		return &openapi.Schema{Type: "object", AdditionalProperties: s.answer(t.Elem())}
	case reflect.String:
		return &openapi.Schema{Type: "string"}
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
	for _, m := range members(t, bodyPath{}) {
		f := t.FieldByIndex(m.index)
		value := s.answer(f.Type)
		if optional := strings.Contains(f.Tag.Get("json"), ",omitempty"); !optional {
			out.Required = append(out.Required, m.name)
			if f.Type.Kind() == reflect.Pointer {
				value = s.nullable(value)
			}
		}
		out.Properties[m.name] = value
	}
	slices.Sort(out.Required)
	return out
}

// contractObject registers the schema of a resource's object in the contract, and returns a reference to it.
// path is the object's path in the resource: "" or with a final dot.
func (s *schemas) contractObject(resource, path string) *openapi.Schema {
	api := map[bool]contract.API{true: contract.V1, false: contract.V2}[s.version3_0]
	out := &openapi.Schema{Type: "object", Properties: map[string]*openapi.Schema{}}
	for _, row := range contract.FieldsOf(api, resource, contract.Read) {
		name, ok := strings.CutPrefix(row.Path, path)
		if !ok || strings.ContainsAny(name, ".[") {
			continue
		}
		value := &openapi.Schema{Type: row.Type, Format: map[string]string{"integer": "int64", "number": "double"}[row.Type]}
		switch row.Type {
		case "object":
			value = s.contractObject(resource, row.Path+".")
		case "array":
			value.Items = s.contractObject(resource, row.Path+"[].")
		}
		if row.Nullable {
			value = s.nullable(value)
		}
		if row.RequiredIn(contract.Read) {
			out.Required = append(out.Required, name)
		}
		out.Properties[name] = value
	}
	slices.Sort(out.Required)
	name := ""
	for word := range strings.FieldsFuncSeq(resource+"."+path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	s.components[name] = out
	return &openapi.Schema{Ref: "#/components/schemas/" + name}
}

// body returns the schema of a type in a request's body, as decode reads it.
func (s *schemas) body(t reflect.Type, m member, at bodyPath) *openapi.Schema {
	if t == reflect.TypeFor[clearableText]() {
		row := *m.row
		row.Clear = `""`
		return s.nullable(bodyString(&row, contract.Update))
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.body(t.Elem(), m, at)
	case reflect.Struct:
		return s.bodyComponent(t, at.in(m.name))
	case reflect.Slice:
		element := member{name: m.name + "[]", row: m.row.Element()}
		out := &openapi.Schema{Type: "array", Items: s.body(t.Elem(), element, at), UniqueItems: m.row.Unique}
		out.MinItems, out.MaxItems = wholeNumber(m.row.Min), wholeNumber(m.row.Max)
		return out
	case reflect.Map:
		return s.env()
	case reflect.String:
		return bodyString(m.row, at.Use)
	case reflect.Bool:
		return &openapi.Schema{Type: "boolean"}
	case reflect.Int64:
		return withBounds(&openapi.Schema{Type: "integer", Format: "int64"}, m.row)
	case reflect.Float64:
		return withBounds(&openapi.Schema{Type: "number", Format: "double"}, m.row)
	}
	panic("unsupported type in a body: " + t.String())
}

// env is the schema of decodeEnv. OpenAPI 3.0 can't express rules for names.
func (s *schemas) env() *openapi.Schema {
	out := &openapi.Schema{Type: "object", AdditionalProperties: &openapi.Schema{Type: "string", Pattern: `^[^\x00]*$`}}
	if !s.version3_0 {
		out.PropertyNames = &openapi.Schema{Pattern: `^[^=\x00]+$`}
	}
	return out
}

func bodyString(r *contract.Field, u contract.Use) *openapi.Schema {
	out := &openapi.Schema{Type: "string", MinLength: wholeNumber(r.Min), MaxLength: wholeNumber(r.Max)}
	if r.Closed() {
		out.Enum = anyList(r.Enum)
	}
	if r.Form != nil {
		out.Pattern, out.Description = r.Form.Pattern, "Expected "+r.Form.Words+"."
	}
	if r.Not != nil {
		out.Not = &openapi.Schema{Pattern: r.Not.Pattern}
	}
	if r.Clear == `""` && u == contract.Update {
		out.MinLength = nil
		if out.Pattern != "" {
			out.Pattern = "^$|" + out.Pattern
		}
	}
	return out
}

// withBounds adds the bounds of a number. A schema can't express powers of two, so the description names them.
func withBounds(out *openapi.Schema, r *contract.Field) *openapi.Schema {
	out.Minimum, out.Maximum = r.Min, r.Max
	if r.OrZero && r.Min != nil {
		out.Minimum = new(float64(0))
		out.Not = &openapi.Schema{Minimum: new(float64(1)), Maximum: new(*r.Min - 1)} // excludes the integers between 0 and the minimum
	}
	if r.PowerOfTwo {
		out.Description = "Expected a power of two."
		if r.Min != nil && *r.Min >= 2 {
			out.MultipleOf = new(float64(2))
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

// bodyComponent registers one component for creates and another one for updates.
func (s *schemas) bodyComponent(t reflect.Type, at bodyPath) *openapi.Schema {
	suffix := map[contract.Use]string{contract.Create: "Create", contract.Update: "Update"}[at.Use]
	return s.component(strings.TrimSuffix(componentName(t), "Body")+suffix, t, func(t reflect.Type) *openapi.Schema { return s.bodyObject(t, at) })
}

func (s *schemas) bodyObject(t reflect.Type, at bodyPath) *openapi.Schema {
	out := &openapi.Schema{Type: "object", Properties: map[string]*openapi.Schema{}, AdditionalProperties: false}
	for _, m := range members(t, at) {
		if m.row == nil {
			continue
		}
		typ := t.FieldByIndex(m.index).Type
		value := s.body(typ, m, at)
		if m.row.Nullable && typ != reflect.TypeFor[clearableText]() {
			value = s.nullable(value)
		}
		out.Properties[m.name] = value
		if m.row.RequiredIn(at.Use) {
			out.Required = append(out.Required, m.name)
		}
		s.addRules(out, m, at.Use)
	}
	if rejectsEmptyUpdate(t, at.Use) {
		out.MinProperties = 1
	}
	slices.Sort(out.Required)
	return out
}

func required(name string) *openapi.Schema { return &openapi.Schema{Required: []string{name}} }

// addRules adds the rules between a member and the other members of its object.
func (s *schemas) addRules(out *openapi.Schema, m member, use contract.Use) {
	switch r := m.row; {
	case r.RequiredUnless != "" && use == contract.Create && s.version3_0: // null or "" doesn't count
		other := required(r.RequiredUnless)
		other.Properties = map[string]*openapi.Schema{r.RequiredUnless: {Type: "string", MinLength: new(int64(1))}}
		out.AnyOf = []*openapi.Schema{required(m.name), other}
	case r.RequiredUnless != "" && use == contract.Create:
		out.If, out.Then = &openapi.Schema{Not: required(r.RequiredUnless)}, required(m.name)
	case r.RequiresInUpdate != "" && use == contract.Update:
		out.DependentRequired = map[string][]string{m.name: {r.RequiresInUpdate}}
	case r.RequiredForType != "":
		hasType := &openapi.Schema{Properties: map[string]*openapi.Schema{"type": {Enum: []any{r.RequiredForType}}}}
		out.AllOf = append(out.AllOf, &openapi.Schema{If: hasType, Then: required(m.name)}, &openapi.Schema{If: required(m.name), Then: hasType})
	}
}

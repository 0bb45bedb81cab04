package kit

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// derive makes a resource's attributes computed. It omits attributes that only a configuration has.
func derive(attributes map[string]schema.Attribute, omit []string) map[string]schema.Attribute {
	out := make(map[string]schema.Attribute, len(attributes))
	for name, a := range attributes {
		if a.IsWriteOnly() || slices.Contains(omit, name) {
			continue
		}
		derived := attributeLike(a, "Computed", derivedDescription(a.GetMarkdownDescription()))
		derived.FieldByName("Sensitive").SetBool(a.IsSensitive())
		switch a := a.(type) {
		case schema.SingleNestedAttribute:
			derived.FieldByName("Attributes").Set(reflect.ValueOf(derive(a.Attributes, nil)))
		case schema.ListNestedAttribute:
			derived.FieldByName("NestedObject").Set(reflect.ValueOf(schema.NestedAttributeObject{Attributes: derive(a.NestedObject.Attributes, nil)}))
		}
		out[name] = derived.Interface().(schema.Attribute)
	}
	return out
}

// attributeLike returns an attribute of the same type with a flag and a description. It also implements
// the attribute interface of data sources.
func attributeLike(a schema.Attribute, flag, text string) reflect.Value {
	out := reflect.New(reflect.TypeOf(a)).Elem()
	out.FieldByName(flag).SetBool(true)
	out.FieldByName("MarkdownDescription").SetString(text)
	if elementType := out.FieldByName("ElementType"); elementType.IsValid() {
		elementType.Set(reflect.ValueOf(a).FieldByName("ElementType"))
	}
	return out
}

// derivedDescription returns the first sentence of a description, which defines the attribute, and the
// versions that have it. The rest (defaults, bounds, effects of a change) applies only to resources.
func derivedDescription(text string) string {
	first, _, more := strings.Cut(text, ". ")
	if more {
		first += "."
	}
	if only := versionNote(text); !strings.Contains(first, strings.TrimSpace(only)) {
		first += only
	}
	return first
}

var versionOnly = regexp.MustCompile(`API v[12] only\.`)

func versionNote(text string) string {
	if only := versionOnly.FindString(text); only != "" {
		return " " + only
	}
	return ""
}

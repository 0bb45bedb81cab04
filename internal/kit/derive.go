package kit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	data "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// derive converts a resource's attributes into computed attributes of a data source. It omits
// attributes that only a configuration has.
func derive(attributes map[string]schema.Attribute, omit []string) map[string]data.Attribute {
	out := make(map[string]data.Attribute, len(attributes))
	for name, a := range attributes {
		if !a.IsWriteOnly() && !slices.Contains(omit, name) {
			out[name] = deriveAttribute(a)
		}
	}
	return out
}

func deriveAttribute(a schema.Attribute) data.Attribute {
	text, sensitive := derivedDescription(a.GetMarkdownDescription()), a.IsSensitive()
	switch a := a.(type) {
	case schema.StringAttribute:
		return data.StringAttribute{Computed: true, Sensitive: sensitive, MarkdownDescription: text}
	case schema.BoolAttribute:
		return data.BoolAttribute{Computed: true, Sensitive: sensitive, MarkdownDescription: text}
	case schema.Int64Attribute:
		return data.Int64Attribute{Computed: true, Sensitive: sensitive, MarkdownDescription: text}
	case schema.Float64Attribute:
		return data.Float64Attribute{Computed: true, Sensitive: sensitive, MarkdownDescription: text}
	case schema.ListAttribute:
		return data.ListAttribute{Computed: true, ElementType: a.ElementType, Sensitive: sensitive, MarkdownDescription: text}
	case schema.SetAttribute:
		return data.SetAttribute{Computed: true, ElementType: a.ElementType, Sensitive: sensitive, MarkdownDescription: text}
	case schema.MapAttribute:
		return data.MapAttribute{Computed: true, ElementType: a.ElementType, Sensitive: sensitive, MarkdownDescription: text}
	case schema.SingleNestedAttribute:
		return data.SingleNestedAttribute{Computed: true, Sensitive: sensitive, MarkdownDescription: text, Attributes: derive(a.Attributes, nil)}
	case schema.ListNestedAttribute:
		return data.ListNestedAttribute{Computed: true, Sensitive: sensitive, MarkdownDescription: text,
			NestedObject: data.NestedAttributeObject{Attributes: derive(a.NestedObject.Attributes, nil)}}
	}
	panic(fmt.Sprintf("no attribute of a data source is derived from a %T", a)) // a programming error, which every test finds
}

// filterAttribute makes an attribute of a list's configuration that filters by equality.
func filterAttribute(name string, a schema.Attribute) data.Attribute {
	text := "Filter by `" + name + "`." + onlyIn(a.GetMarkdownDescription())
	switch a.(type) {
	case schema.StringAttribute:
		return data.StringAttribute{Optional: true, MarkdownDescription: text}
	case schema.BoolAttribute:
		return data.BoolAttribute{Optional: true, MarkdownDescription: text}
	case schema.Int64Attribute:
		return data.Int64Attribute{Optional: true, MarkdownDescription: text}
	}
	panic(fmt.Sprintf("a list can't be filtered by a %T", a))
}

// derivedDescription returns the first sentence of a description, which defines the attribute,
// and the versions that have it. The rest (defaults, bounds, effects of a change) applies only
// to resources.
func derivedDescription(text string) string {
	first, _, more := strings.Cut(text, ". ")
	if more {
		first += "."
	}
	if only := onlyIn(text); !strings.Contains(first, strings.TrimSpace(only)) {
		first += only
	}
	return first
}

var versionOnly = regexp.MustCompile(`API v[12] only\.`)

func onlyIn(text string) string {
	if only := versionOnly.FindString(text); only != "" {
		return " " + only
	}
	return ""
}

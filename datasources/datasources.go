// Package datasources holds the data sources that aren't derived from a resource. Each file has
// the schema, model and Read of a subject.
package datasources

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
)

// All lists the constructors of the data sources.
var All = []func() datasource.DataSource{
	Billing.New, ClusterBilling.New, NetworkVolumeBilling.New, PodBilling.New, PublicEndpointBilling.New, ServerlessBilling.New,
	ClusterPods.New,
	CPUType.New, CPUTypes.New,
	DataCenter.New, DataCenters.New,
	EndpointBuild.New, EndpointBuilds.New, EndpointHealth.New, EndpointReleases.New, EndpointWorkers.New,
	GPUType.New, GPUTypes.New,
	Job.New,
	PodLogs.New, WorkerLogs.New,
}

// Computed attributes.

// text is null if the answer has no text or an empty one.
func text(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func integer(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}

func number(description string) schema.NumberAttribute {
	return schema.NumberAttribute{Computed: true, MarkdownDescription: description}
}

func boolean(description string) schema.BoolAttribute {
	return schema.BoolAttribute{Computed: true, MarkdownDescription: description}
}

func texts(description string) schema.ListAttribute {
	return schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: description}
}

func object(description string, members map[string]schema.Attribute) schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: description, Attributes: members}
}

func objects(description string, members map[string]schema.Attribute) schema.ListNestedAttribute {
	return schema.ListNestedAttribute{Computed: true, MarkdownDescription: description, NestedObject: schema.NestedAttributeObject{Attributes: members}}
}

// oneOf rejects a value that isn't in a closed list.
func oneOf(c diagnostics.Check, attribute string, v types.String, values ...string) {
	if !v.IsNull() && !v.IsUnknown() && !slices.Contains(values, v.ValueString()) {
		c.Error(attribute, "Invalid value of "+attribute, "Invalid %s: expected %s, got %q.", attribute, either(values), v.ValueString())
	}
}

// eachOf rejects elements that aren't in a closed list.
func eachOf(c diagnostics.Check, attribute string, v types.Set, values ...string) {
	for _, e := range v.Elements() {
		if s, ok := e.(types.String); ok {
			if s.IsNull() {
				c.Error(attribute, "Invalid value of "+attribute, "Invalid %s: an element is null. Leave it out, for example with compact().", attribute)
				return
			}
			oneOf(c, attribute, s, values...)
		}
	}
}

func either(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// checkCount rejects a number below 1 or above high. A high of 0 means no limit.
func checkCount(c diagnostics.Check, attribute string, v types.Int64, high int64) {
	n := v.ValueInt64()
	if v.IsNull() || v.IsUnknown() || n >= 1 && (high == 0 || n <= high) {
		return
	}
	expected := "at least 1"
	if high > 0 {
		expected = fmt.Sprintf("1 to %d", high)
	}
	c.Error(attribute, "Invalid value of "+attribute, "Invalid %s: expected %s, got %d.", attribute, expected, n)
}

// listIf returns nil unless the list was requested. A requested list that the answer lacks
// becomes empty.
func listIf[T any](asked bool, list []T) []T {
	switch {
	case !asked:
		return nil
	case list == nil:
		return []T{}
	}
	return list
}

func convert[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

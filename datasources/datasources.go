// Package datasources holds the data sources that aren't derived from a resource, a subject per file.
package datasources

import (
	"regexp"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
)

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

// text is an attribute that is null if the response has no text or an empty one.
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

// Attributes of a configuration.

func filter(description string, rules ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, MarkdownDescription: description, Validators: rules}
}

func filterSet(description string, rules ...validator.Set) schema.SetAttribute {
	return schema.SetAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: description, Validators: rules}
}

func filterInteger(description string, rules ...validator.Int64) schema.Int64Attribute {
	return schema.Int64Attribute{Optional: true, MarkdownDescription: description, Validators: rules}
}

// requiredID is the id of an object that the data source is about.
func requiredID(description string) schema.StringAttribute {
	return schema.StringAttribute{Required: true, MarkdownDescription: description, Validators: []validator.String{rule.ID}}
}

var positive = rule.AtLeast[int64](1)

var rfc3339 = rule.Validator[string]{Expects: "a time as RFC 3339, such as 2026-06-01T00:00:00Z", Holds: func(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}}

func matching(form, expected string) rule.Validator[string] {
	return rule.Validator[string]{Expects: expected, Holds: regexp.MustCompile(form).MatchString}
}

// listIf returns nil unless the list was requested.
func listIf[T any](requested bool, list []T) []T {
	if !requested {
		return nil
	}
	return emptyIfNil(list)
}

// emptyIfNil returns a list that the response lacks as an empty one.
func emptyIfNil[T any](list []T) []T {
	if list == nil {
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

// Package pluginserver serves a provider over Terraform's plugin protocol.
package pluginserver

import (
	"context"
	"fmt"
	"math/big"
	"reflect"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// New returns a server for a provider. It removes secrets from diagnostics, and rejects a fraction at
// the attribute that must be a whole number. The framework would report that as a bug of the provider,
// without the attribute.
func New(p provider.Provider) tfprotov6.ProviderServer {
	inner, ok := providerserver.NewProtocol6(p)().(protocol)
	if !ok {
		panic("the framework's server lacks a part of the protocol") // a programming error, which every test finds
	}
	ctx := context.Background()
	var meta provider.MetadataResponse
	p.Metadata(ctx, provider.MetadataRequest{}, &meta)
	var block provider.SchemaResponse
	p.Schema(ctx, provider.SchemaRequest{}, &block)
	s := &server{protocol: inner, block: block.Schema, resources: schemas(p.Resources(ctx), meta.TypeName), dataSources: schemas(p.DataSources(ctx), meta.TypeName)}
	if p, ok := p.(provider.ProviderWithEphemeralResources); ok {
		s.ephemerals = schemas(p.EphemeralResources(ctx), meta.TypeName)
	}
	if p, ok := p.(provider.ProviderWithActions); ok {
		s.actions = schemas(p.Actions(ctx), meta.TypeName)
	}
	return s
}

// schemaSource has the common methods of resources, data sources, ephemeral resources and actions.
type schemaSource[MetadataRequest, MetadataResponse, SchemaRequest, SchemaResponse any] interface {
	Metadata(context.Context, MetadataRequest, *MetadataResponse)
	Schema(context.Context, SchemaRequest, *SchemaResponse)
}

// schemas returns the schemas by type name. MQ and MR are the request and response of Metadata; SQ and SR
// are the request and response of Schema.
func schemas[T schemaSource[MQ, MR, SQ, SR], MQ ~struct{ ProviderTypeName string }, MR, SQ, SR any](constructors []func() T, provider string) map[string]fwSchema {
	out := map[string]fwSchema{}
	for _, constructor := range constructors {
		var metadata MR
		var resp SR
		constructor().Metadata(context.Background(), MQ{provider}, &metadata)
		constructor().Schema(context.Background(), *new(SQ), &resp)
		out[reflect.ValueOf(metadata).FieldByName("TypeName").String()] = reflect.ValueOf(resp).FieldByName("Schema").Interface().(fwSchema)
	}
	return out
}

// protocol lists everything that the framework serves. Terraform can't use a part that is
// missing here.
type protocol interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
}

type server struct {
	protocol
	block                                       fwSchema // of the provider block
	resources, dataSources, ephemerals, actions map[string]fwSchema
}

type fwSchema interface {
	Type() attr.Type
	TypeAtTerraformPath(ctx context.Context, at *tftypes.AttributePath) (attr.Type, error)
}

// fractionErrors rejects fractions in a configuration or state if the attribute must be a whole number.
// location is part of the message: "" or " in the state".
func fractionErrors(ctx context.Context, schema fwSchema, object *tfprotov6.DynamicValue, location string) (diags []*tfprotov6.Diagnostic) {
	if schema == nil || object == nil {
		return nil
	}
	value, err := object.Unmarshal(schema.Type().TerraformType(ctx))
	if err != nil {
		return nil // the framework reports the error
	}
	err = tftypes.Walk(value, func(at *tftypes.AttributePath, v tftypes.Value) (bool, error) {
		if !v.Type().Is(tftypes.Number) || v.IsNull() || !v.IsKnown() {
			return true, nil
		}
		var n big.Float
		if err := v.As(&n); err != nil {
			return false, err
		}
		if _, accuracy := n.Int64(); accuracy == big.Exact {
			return true, nil
		}
		if expected, err := schema.TypeAtTerraformPath(ctx, at); err == nil && expected.Equal(basetypes.Int64Type{}) {
			kind := "whole number"
			if n.IsInt() {
				kind = "64-bit integer"
			}
			diags = append(diags, &tfprotov6.Diagnostic{
				Severity: tfprotov6.DiagnosticSeverityError, Attribute: at, Summary: "Invalid value of " + attributeName(at),
				Detail: fmt.Sprintf("Invalid %s%s: expected a %s, got %s.", attributeName(at), location, kind, n.Text('g', 20)),
			})
		}
		return true, nil
	})
	if err != nil {
		return nil
	}
	return diags
}

// dropErrorsOfUnknown drops the errors about attributes of unknown objects. The framework reports the
// required attributes of an unknown element of a list as missing.
func dropErrorsOfUnknown(ctx context.Context, schema fwSchema, config *tfprotov6.DynamicValue, diags []*tfprotov6.Diagnostic) []*tfprotov6.Diagnostic {
	if schema == nil || config == nil || len(diags) == 0 {
		return diags
	}
	value, err := config.Unmarshal(schema.Type().TerraformType(ctx))
	if err != nil {
		return diags
	}
	return slices.DeleteFunc(diags, func(d *tfprotov6.Diagnostic) bool {
		parent, _, err := tftypes.WalkAttributePath(value, d.Attribute.WithoutLastStep())
		object, ok := parent.(tftypes.Value)
		return err == nil && ok && object.Type().Is(tftypes.Object{}) && !object.IsKnown()
	})
}

func attributeName(at *tftypes.AttributePath) (name string) {
	for _, step := range at.Steps() {
		switch step := step.(type) {
		case tftypes.AttributeName:
			if name != "" {
				name += "."
			}
			name += string(step)
		case tftypes.ElementKeyInt:
			name += fmt.Sprintf("[%d]", int64(step))
		}
	}
	return name
}

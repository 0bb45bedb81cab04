// Package pluginserver serves a provider over Terraform's plugin protocol.
package pluginserver

import (
	"context"
	"fmt"
	"math/big"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// New serves a provider. It rejects fractions where a whole number is expected: the framework
// would report an error of the provider without naming the number.
func New(p provider.Provider) tfprotov6.ProviderServer {
	inner, ok := providerserver.NewProtocol6(p)().(protocol)
	if !ok {
		panic("the framework's server lacks a part of the protocol") // a programming error, which every test finds
	}
	s := &server{protocol: inner, schemas: map[string]content{}, dataSchemas: map[string]content{}}
	ctx := context.Background()
	s.all = sync.OnceValues(func() (*tfprotov6.GetProviderSchemaResponse, error) {
		return inner.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	})
	var meta provider.MetadataResponse
	p.Metadata(ctx, provider.MetadataRequest{}, &meta)
	for _, constructor := range p.Resources(ctx) {
		r := constructor()
		var name resource.MetadataResponse
		var content resource.SchemaResponse
		r.Metadata(ctx, resource.MetadataRequest{ProviderTypeName: meta.TypeName}, &name)
		r.Schema(ctx, resource.SchemaRequest{}, &content)
		s.schemas[name.TypeName] = content.Schema
	}
	for _, constructor := range p.DataSources(ctx) {
		d := constructor()
		var name datasource.MetadataResponse
		var content datasource.SchemaResponse
		d.Metadata(ctx, datasource.MetadataRequest{ProviderTypeName: meta.TypeName}, &name)
		d.Schema(ctx, datasource.SchemaRequest{}, &content)
		s.dataSchemas[name.TypeName] = content.Schema
	}
	return s
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
	schemas, dataSchemas map[string]content
	all                  func() (*tfprotov6.GetProviderSchemaResponse, error)
}

// content is the schema of a resource or data source.
type content interface {
	Type() attr.Type
	TypeAtTerraformPath(ctx context.Context, at *tftypes.AttributePath) (attr.Type, error)
}

// GetProviderSchema converts the schemas once, also for secretsOf.
func (s *server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return s.all()
}

func (s *server) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	if diags := fractions(ctx, s.schemas[req.TypeName], req.Config); len(diags) > 0 {
		return &tfprotov6.ValidateResourceConfigResponse{Diagnostics: diags}, nil
	}
	return guard(ctx, s, resourceSchema(req.TypeName), s.protocol.ValidateResourceConfig, req)
}

// PlanResourceChange also checks values that were unknown during validation.
func (s *server) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	if diags := fractions(ctx, s.schemas[req.TypeName], req.Config); len(diags) > 0 {
		return &tfprotov6.PlanResourceChangeResponse{Diagnostics: diags, PlannedState: req.PriorState}, nil
	}
	return guard(ctx, s, resourceSchema(req.TypeName), s.protocol.PlanResourceChange, req)
}

func (s *server) ValidateDataResourceConfig(ctx context.Context, req *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	if diags := fractions(ctx, s.dataSchemas[req.TypeName], req.Config); len(diags) > 0 {
		return &tfprotov6.ValidateDataResourceConfigResponse{Diagnostics: diags}, nil
	}
	return guard(ctx, s, dataSchema(req.TypeName), s.protocol.ValidateDataResourceConfig, req)
}

// ReadDataSource also checks values that were unknown during validation.
func (s *server) ReadDataSource(ctx context.Context, req *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	if diags := fractions(ctx, s.dataSchemas[req.TypeName], req.Config); len(diags) > 0 {
		return &tfprotov6.ReadDataSourceResponse{Diagnostics: diags}, nil
	}
	return guard(ctx, s, dataSchema(req.TypeName), s.protocol.ReadDataSource, req)
}

// fractions reports the numbers of a configuration that must be whole and aren't.
func fractions(ctx context.Context, schema content, config *tfprotov6.DynamicValue) (diags []*tfprotov6.Diagnostic) {
	if schema == nil || config == nil {
		return nil
	}
	value, err := config.Unmarshal(schema.Type().TerraformType(ctx))
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
		if whole, accuracy := n.Int64(); accuracy == big.Exact && n.Cmp(new(big.Float).SetInt64(whole)) == 0 {
			return true, nil
		}
		if wanted, err := schema.TypeAtTerraformPath(ctx, at); err == nil && wanted.Equal(basetypes.Int64Type{}) {
			diags = append(diags, &tfprotov6.Diagnostic{
				Severity: tfprotov6.DiagnosticSeverityError, Attribute: at, Summary: "Invalid value of " + attributeName(at),
				Detail: fmt.Sprintf("Invalid %s: expected a whole number, got %s.", attributeName(at), n.Text('g', 20)),
			})
		}
		return true, nil
	})
	if err != nil {
		return nil
	}
	return diags
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

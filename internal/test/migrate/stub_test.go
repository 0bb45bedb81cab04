package migrate_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// stub replaces another provider, which the CLI must start because its objects are in the state. It serves
// a schema for each type of a recorded document, with attributes of the recorded values' types.
type stub struct {
	tfprotov6.ProviderServer // nil: other methods aren't called
	schemas                  map[string]*tfprotov6.Schema
}

// stubDocument names the variable with the path of the recorded document.
const stubDocument = "MIGRATE_TEST_DOCUMENT"

func serveStub() error {
	resources, err := readResources(os.Getenv(stubDocument))
	if err != nil {
		return err
	}
	s := &stub{schemas: map[string]*tfprotov6.Schema{}}
	for _, r := range resources {
		schema := s.schemas[r.Type]
		if schema == nil {
			schema = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{}}
			s.schemas[r.Type] = schema
		}
		addAttributes(schema.Block, r.Values)
	}
	return tf6server.Serve("registry.terraform.io/runpod/runpod", func() tfprotov6.ProviderServer { return s })
}

// addAttributes adds new attributes. If an attribute was null before, it also corrects the type.
func addAttributes(block *tfprotov6.SchemaBlock, values map[string]any) {
	for name, v := range values {
		i := slices.IndexFunc(block.Attributes, func(a *tfprotov6.SchemaAttribute) bool { return a.Name == name })
		if i < 0 {
			block.Attributes = append(block.Attributes, &tfprotov6.SchemaAttribute{Name: name, Type: typeOf(v), Optional: true, Computed: true})
		} else if v != nil {
			block.Attributes[i].Type = typeOf(v)
		}
	}
}

func typeOf(v any) tftypes.Type {
	switch v.(type) {
	case bool:
		return tftypes.Bool
	case json.Number:
		return tftypes.Number
	case []any:
		return tftypes.List{ElementType: tftypes.String}
	case map[string]any:
		return tftypes.Map{ElementType: tftypes.String}
	default:
		return tftypes.String
	}
}

func (s *stub) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	resp := &tfprotov6.GetMetadataResponse{ServerCapabilities: &tfprotov6.ServerCapabilities{}}
	for name := range s.schemas {
		resp.Resources = append(resp.Resources, tfprotov6.ResourceMetadata{TypeName: name})
	}
	return resp, nil
}

func (s *stub) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{
		ServerCapabilities: &tfprotov6.ServerCapabilities{}, Provider: &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{}}, ResourceSchemas: s.schemas,
	}, nil
}

func (s *stub) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (s *stub) ValidateProviderConfig(_ context.Context, req *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: req.Config}, nil
}

func (s *stub) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (s *stub) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

func (s *stub) UpgradeResourceState(_ context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	value, err := req.RawState.Unmarshal(s.schemas[req.TypeName].ValueType())
	if err != nil {
		return nil, err
	}
	packed, err := tfprotov6.NewDynamicValue(value.Type(), value)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &packed}, err
}

// ReadResource returns the current state. OpenTofu also reads objects that it forgets.
func (s *stub) ReadResource(_ context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return &tfprotov6.ReadResourceResponse{NewState: req.CurrentState, Private: req.Private}, nil
}

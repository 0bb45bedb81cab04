package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// printSchema prints the provider's schemas in the form of `terraform providers schema -json`, from which
// the documentation is generated. It includes features that this machine's Terraform doesn't support.
func printSchema(ctx context.Context) error {
	document, err := describe(ctx, provider.Server("docs"))
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

// printOpenAPI prints the document that a jobrunner serves.
func printOpenAPI(ctx context.Context) error {
	const key = "dev"
	j, err := jobrunner.New(ctx, jobrunner.Config{APIKey: key})
	if err != nil {
		return err
	}
	answer, request := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/v2/openapi.json", nil)
	request.Header.Set("Authorization", "Bearer "+key)
	j.Handler().ServeHTTP(answer, request)
	_, err = os.Stdout.Write(answer.Body.Bytes())
	return errors.Join(err, j.Close())
}

// object is a JSON object. Types (tftypes.Type) encode themselves as in Terraform's JSON.
type object = map[string]any

func describe(ctx context.Context, server tfprotov6.ProviderServer) (object, error) {
	all, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, err
	}
	identities, err := server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		return nil, err
	}
	for _, d := range append(all.Diagnostics, identities.Diagnostics...) {
		return nil, fmt.Errorf("%s: %s", d.Summary, d.Detail)
	}
	return object{
		"format_version": "1.0",
		"provider_schemas": object{"registry.terraform.io/hashicorp/gpucloud": object{ // where tfplugindocs looks
			"provider":                   schema(all.Provider),
			"resource_schemas":           each(all.ResourceSchemas, schema),
			"data_source_schemas":        each(all.DataSourceSchemas, schema),
			"ephemeral_resource_schemas": each(all.EphemeralResourceSchemas, schema),
			"list_resource_schemas":      each(all.ListResourceSchemas, schema),
			"action_schemas":             each(all.ActionSchemas, func(s *tfprotov6.ActionSchema) object { return schema(s.Schema) }),
			"functions":                  each(all.Functions, signature),
			"resource_identity_schemas":  each(identities.IdentitySchemas, identity),
		}},
	}, nil
}

func each[V any](values map[string]V, convert func(V) object) object {
	out := object{}
	for name, v := range values {
		out[name] = convert(v)
	}
	return out
}

// schema has no blocks: the provider's schemas nest attributes.
func schema(s *tfprotov6.Schema) object {
	return object{"version": s.Version, "block": object{
		"attributes": attributes(s.Block.Attributes), "description": s.Block.Description, "description_kind": kind(s.Block.DescriptionKind), "deprecated": s.Block.Deprecated,
	}}
}

func attributes(list []*tfprotov6.SchemaAttribute) object {
	out := object{}
	for _, a := range list {
		described := object{
			"description": a.Description, "description_kind": kind(a.DescriptionKind), "deprecated": a.Deprecated,
			"required": a.Required, "optional": a.Optional, "computed": a.Computed, "sensitive": a.Sensitive, "write_only": a.WriteOnly,
		}
		if a.NestedType != nil {
			described["nested_type"] = object{"attributes": attributes(a.NestedType.Attributes), "nesting_mode": nesting[a.NestedType.Nesting]}
		} else {
			described["type"] = a.Type
		}
		out[a.Name] = described
	}
	return out
}

var nesting = map[tfprotov6.SchemaObjectNestingMode]string{
	tfprotov6.SchemaObjectNestingModeSingle: "single", tfprotov6.SchemaObjectNestingModeList: "list",
	tfprotov6.SchemaObjectNestingModeSet: "set", tfprotov6.SchemaObjectNestingModeMap: "map",
}

func kind(k tfprotov6.StringKind) string {
	if k == tfprotov6.StringKindMarkdown {
		return "markdown"
	}
	return "plain"
}

func signature(f *tfprotov6.Function) object {
	parameters := []object{}
	for _, p := range f.Parameters {
		parameters = append(parameters, parameter(p))
	}
	out := object{"summary": f.Summary, "description": f.Description, "deprecation_message": f.DeprecationMessage, "return_type": f.Return.Type, "parameters": parameters}
	if f.VariadicParameter != nil {
		out["variadic_parameter"] = parameter(f.VariadicParameter)
	}
	return out
}

func parameter(p *tfprotov6.FunctionParameter) object {
	return object{"name": p.Name, "description": p.Description, "is_nullable": p.AllowNullValue, "type": p.Type}
}

func identity(s *tfprotov6.ResourceIdentitySchema) object {
	out := object{}
	for _, a := range s.IdentityAttributes {
		out[a.Name] = object{"type": a.Type, "description": a.Description, "required_for_import": a.RequiredForImport, "optional_for_import": a.OptionalForImport}
	}
	return object{"version": s.Version, "attributes": out}
}

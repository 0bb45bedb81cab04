package pluginserver

import (
	"context"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// Each call with a configuration or a state gets a redact.Set with its secrets, to which the API
// client adds the secrets of its requests and responses. Every diagnostic, including the framework's,
// passes through that set before it leaves the server. A list block has no secrets: ListResource
// starts with an empty set, and ValidateListResourceConfig has none.

// guard makes a call with a redact.Set. If fractionErrors rejects the configuration, guard returns these
// errors instead. Each call checks for fractions, because values may be unknown during validation.
func guard[Q, R any](ctx context.Context, schema fwSchema, call func(context.Context, *Q) (*R, error), req *Q) (*R, error) {
	ctx, secrets := redact.NewContext(ctx)
	secrets.AddLater(func() []string { return secretsOf(ctx, schema, req) })
	running := new(callContext)
	running.Store(&ctx)
	defer running.Store(new(context.Background()))
	var config *tfprotov6.DynamicValue
	if field := reflect.ValueOf(req).Elem().FieldByName("Config"); field.IsValid() {
		config = field.Interface().(*tfprotov6.DynamicValue)
		if diags := fractionErrors(ctx, schema, config, ""); len(diags) > 0 {
			resp := new(R)
			reflect.ValueOf(resp).Elem().FieldByName("Diagnostics").Set(reflect.ValueOf(diags))
			return resp, nil
		}
	}
	resp, err := call(running, req)
	if fields := reflect.ValueOf(resp).Elem(); err == nil && fields.IsValid() {
		field := fields.FieldByName("Diagnostics")
		if diags, ok := field.Interface().([]*tfprotov6.Diagnostic); ok {
			redactDiagnostics(secrets, diags)
			field.Set(reflect.ValueOf(dropErrorsOfUnknown(ctx, schema, config, diags)))
		}
	}
	return resp, err
}

// callContext is the context of a call, and empty after it. The framework keeps the context of each call until the
// provider stops, and with it the call's request, logger and secrets.
type callContext struct {
	atomic.Pointer[context.Context]
}

func (c *callContext) Deadline() (time.Time, bool) { return (*c.Load()).Deadline() }
func (c *callContext) Done() <-chan struct{}       { return (*c.Load()).Done() }
func (c *callContext) Err() error                  { return (*c.Load()).Err() }
func (c *callContext) Value(key any) any           { return (*c.Load()).Value(key) }

func redactDiagnostics(secrets *redact.Set, diags []*tfprotov6.Diagnostic) {
	for _, d := range diags {
		d.Summary, d.Detail = secrets.Message(d.Summary), secrets.Message(d.Detail)
	}
}

// secretsOf returns the secrets in the configurations and states of a request.
func secretsOf(ctx context.Context, schema fwSchema, req any) (out []string) {
	if schema == nil {
		return nil
	}
	typ, fields := schema.Type().TerraformType(ctx), reflect.Indirect(reflect.ValueOf(req))
	for i := range fields.NumField() {
		value, ok := fields.Field(i).Interface().(*tfprotov6.DynamicValue)
		if !ok || value == nil {
			continue
		}
		object, err := value.Unmarshal(typ)
		if err != nil { // a value of another type contains no secrets
			continue
		}
		_ = tftypes.Walk(object, func(at *tftypes.AttributePath, v tftypes.Value) (bool, error) {
			var text *string
			if v.Type().Is(tftypes.String) && v.IsKnown() && v.As(&text) == nil && text != nil {
				for _, step := range at.Steps() {
					if name, ok := step.(tftypes.AttributeName); ok && redact.IsSecret(string(name)) {
						out = append(out, redact.Values(string(name), *text)...)
					}
				}
			}
			return true, nil
		})
	}
	return out
}

func (s *server) ValidateProviderConfig(ctx context.Context, req *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return guard(ctx, s.block, s.protocol.ValidateProviderConfig, req)
}

func (s *server) ConfigureProvider(ctx context.Context, req *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return guard(ctx, s.block, s.protocol.ConfigureProvider, req)
}

func (s *server) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return guard(ctx, s.resources[req.TypeName], s.protocol.ValidateResourceConfig, req)
}

func (s *server) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	return guard(ctx, s.resources[req.TypeName], s.protocol.PlanResourceChange, req)
}

func (s *server) ValidateDataResourceConfig(ctx context.Context, req *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return guard(ctx, s.dataSources[req.TypeName], s.protocol.ValidateDataResourceConfig, req)
}

func (s *server) ReadDataSource(ctx context.Context, req *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	return guard(ctx, s.dataSources[req.TypeName], s.protocol.ReadDataSource, req)
}

// UpgradeResourceState also rejects a state that was edited by hand to have fractions.
func (s *server) UpgradeResourceState(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	schema := s.resources[req.TypeName]
	resp, err := guard(withState(ctx, req.RawState), schema, s.protocol.UpgradeResourceState, req)
	if err == nil {
		resp.Diagnostics = append(resp.Diagnostics, fractionErrors(ctx, schema, resp.UpgradedState, " in the state")...)
	}
	return resp, err
}

func (s *server) MoveResourceState(ctx context.Context, req *tfprotov6.MoveResourceStateRequest) (*tfprotov6.MoveResourceStateResponse, error) {
	return guard(withState(ctx, req.SourceState), s.resources[req.TargetTypeName], s.protocol.MoveResourceState, req)
}

// withState returns a context whose set has the secrets of a state in JSON.
func withState(ctx context.Context, state *tfprotov6.RawState) context.Context {
	ctx, secrets := redact.NewContext(ctx)
	if state != nil {
		secrets.AddJSON(state.JSON)
	}
	return ctx
}

func (s *server) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	return guard(ctx, s.resources[req.TypeName], s.protocol.ReadResource, req)
}

func (s *server) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	return guard(ctx, s.resources[req.TypeName], s.protocol.ApplyResourceChange, req)
}

func (s *server) ImportResourceState(ctx context.Context, req *tfprotov6.ImportResourceStateRequest) (*tfprotov6.ImportResourceStateResponse, error) {
	return guard(ctx, s.resources[req.TypeName], s.protocol.ImportResourceState, req)
}

func (s *server) ValidateEphemeralResourceConfig(ctx context.Context, req *tfprotov6.ValidateEphemeralResourceConfigRequest) (*tfprotov6.ValidateEphemeralResourceConfigResponse, error) {
	return guard(ctx, s.ephemerals[req.TypeName], s.protocol.ValidateEphemeralResourceConfig, req)
}

func (s *server) OpenEphemeralResource(ctx context.Context, req *tfprotov6.OpenEphemeralResourceRequest) (*tfprotov6.OpenEphemeralResourceResponse, error) {
	return guard(ctx, s.ephemerals[req.TypeName], s.protocol.OpenEphemeralResource, req)
}

func (s *server) ValidateActionConfig(ctx context.Context, req *tfprotov6.ValidateActionConfigRequest) (*tfprotov6.ValidateActionConfigResponse, error) {
	return guard(ctx, s.actions[req.ActionType], s.protocol.ValidateActionConfig, req)
}

func (s *server) PlanAction(ctx context.Context, req *tfprotov6.PlanActionRequest) (*tfprotov6.PlanActionResponse, error) {
	return guard(ctx, s.actions[req.ActionType], s.protocol.PlanAction, req)
}

// InvokeAction also redacts the progress messages of the action.
func (s *server) InvokeAction(ctx context.Context, req *tfprotov6.InvokeActionRequest) (*tfprotov6.InvokeActionServerStream, error) {
	if diags := fractionErrors(ctx, s.actions[req.ActionType], req.Config, ""); len(diags) > 0 {
		return &tfprotov6.InvokeActionServerStream{Events: func(yield func(tfprotov6.InvokeActionEvent) bool) {
			yield(tfprotov6.InvokeActionEvent{Type: tfprotov6.CompletedInvokeActionEventType{Diagnostics: diags}})
		}}, nil
	}
	ctx, secrets := redact.NewContext(ctx)
	secrets.AddLater(func() []string { return secretsOf(ctx, s.actions[req.ActionType], req) })
	stream, err := s.protocol.InvokeAction(ctx, req)
	if err != nil {
		return stream, err
	}
	events := stream.Events
	stream.Events = func(yield func(tfprotov6.InvokeActionEvent) bool) {
		for event := range events {
			switch e := event.Type.(type) {
			case tfprotov6.ProgressInvokeActionEventType:
				e.Message = secrets.Message(e.Message)
				event.Type = e
			case tfprotov6.CompletedInvokeActionEventType:
				redactDiagnostics(secrets, e.Diagnostics)
			}
			if !yield(event) {
				return
			}
		}
	}
	return stream, nil
}

// ListResource also removes control characters from the display names, which the CLI prints. A name is public, even if a
// secret equals a part of it.
func (s *server) ListResource(ctx context.Context, req *tfprotov6.ListResourceRequest) (*tfprotov6.ListResourceServerStream, error) {
	ctx, secrets := redact.NewContext(ctx)
	stream, err := s.protocol.ListResource(ctx, req)
	if err != nil {
		return stream, err
	}
	results := stream.Results
	stream.Results = func(yield func(tfprotov6.ListResourceResult) bool) {
		for result := range results {
			redactDiagnostics(secrets, result.Diagnostics)
			result.DisplayName = (*redact.Set)(nil).Line(result.DisplayName)
			if !yield(result) {
				return
			}
		}
	}
	return stream, nil
}

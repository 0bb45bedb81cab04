package tfdrive

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// FunctionError is the error of a function. Argument is the position of the invalid argument, or -1.
type FunctionError struct {
	Argument int
	Text     string
}

func (e *FunctionError) Error() string { return fmt.Sprintf("argument %d: %s", e.Argument, e.Text) }

// Call calls a function, as Terraform does for an expression.
func (d *Provider) Call(name string, arguments ...any) (any, error) {
	d.t.Helper()
	signature := d.schema.Functions[name]
	if signature == nil {
		d.t.Fatalf("the provider has no function %s", name)
	}
	req := &tfprotov6.CallFunctionRequest{Name: name}
	for i, argument := range arguments {
		var ty tftypes.Type
		if i < len(signature.Parameters) {
			ty = signature.Parameters[i].Type
		} else {
			ty = signature.VariadicParameter.Type
		}
		req.Arguments = append(req.Arguments, d.pack(d.value(ty, argument)))
	}
	resp := ask(d, d.server.CallFunction, req)
	if resp.Error != nil {
		failure := &FunctionError{Argument: -1, Text: resp.Error.Text}
		if resp.Error.FunctionArgument != nil {
			failure.Argument = int(*resp.Error.FunctionArgument)
		}
		return nil, failure
	}
	return plain(d.unpack(resp.Result, signature.Return.Type)), nil
}

// Open validates the configuration of an ephemeral resource and opens it.
func (d *Provider) Open(typeName string, config map[string]any) (State, Diagnostics) {
	d.t.Helper()
	schema := d.schema.EphemeralResourceSchemas[typeName]
	if schema == nil {
		d.t.Fatalf("the provider has no ephemeral resource type %s", typeName)
	}
	ty := schema.ValueType()
	packed := d.pack(d.value(ty, config))
	valid := ask(d, d.server.ValidateEphemeralResourceConfig, &tfprotov6.ValidateEphemeralResourceConfigRequest{TypeName: typeName, Config: packed})
	if diags := Diagnostics(valid.Diagnostics); diags.Err() != nil {
		return State{Type: typeName}, diags
	}
	resp := ask(d, d.server.OpenEphemeralResource, &tfprotov6.OpenEphemeralResourceRequest{TypeName: typeName, Config: packed})
	return State{Type: typeName, Value: d.unpack(resp.Result, ty), private: resp.Private}, resp.Diagnostics
}

// Invoke validates, plans and runs an action, and returns its messages.
func (d *Provider) Invoke(actionType string, config map[string]any) (messages []string, diags Diagnostics) {
	d.t.Helper()
	schema := d.schema.ActionSchemas[actionType]
	server, ok := d.server.(tfprotov6.ActionServer)
	if schema == nil || !ok {
		d.t.Fatalf("the provider has no action %s", actionType)
	}
	packed := d.pack(d.value(schema.Schema.ValueType(), config))
	valid := ask(d, server.ValidateActionConfig, &tfprotov6.ValidateActionConfigRequest{ActionType: actionType, Config: packed})
	if diags = valid.Diagnostics; diags.Err() != nil {
		return nil, diags
	}
	planned := ask(d, server.PlanAction, &tfprotov6.PlanActionRequest{ActionType: actionType, Config: packed})
	if diags = planned.Diagnostics; diags.Err() != nil {
		return nil, diags
	}
	stream := ask(d, server.InvokeAction, &tfprotov6.InvokeActionRequest{ActionType: actionType, Config: packed})
	for event := range stream.Events {
		switch event := event.Type.(type) {
		case tfprotov6.ProgressInvokeActionEventType:
			messages = append(messages, event.Message)
		case tfprotov6.CompletedInvokeActionEventType:
			diags = event.Diagnostics
		}
	}
	return messages, diags
}

type Diagnostics []*tfprotov6.Diagnostic

// Err returns the errors, each as "path: summary: detail", or nil.
func (ds Diagnostics) Err() error {
	if text := ds.text(tfprotov6.DiagnosticSeverityError); text != "" {
		return fmt.Errorf("%s", text)
	}
	return nil
}

// Do returns the result of a call that must succeed: state := tfdrive.Do(p.Apply(planned))(t).
func Do[T any](result T, diags Diagnostics) func(must.TB) T { return must.Do(result, diags.Err()) }

// Err returns the error of a call: must.ErrorContains(t, tfdrive.Err(p.Apply(planned)), "in use").
func Err[T any](_ T, diags Diagnostics) error { return diags.Err() }

func (ds Diagnostics) Warnings() string { return ds.text(tfprotov6.DiagnosticSeverityWarning) }

func (ds Diagnostics) text(severity tfprotov6.DiagnosticSeverity) string {
	var lines []string
	for _, d := range ds {
		if d.Severity == severity {
			lines = append(lines, fmt.Sprintf("%s: %s: %s", dottedPath(d.Attribute), d.Summary, d.Detail))
		}
	}
	return strings.Join(lines, "\n")
}

func (ds Diagnostics) String() string {
	return strings.TrimSpace(ds.text(tfprotov6.DiagnosticSeverityError) + "\n" + ds.Warnings())
}

func dottedPath(p *tftypes.AttributePath) string {
	if p == nil {
		return ""
	}
	var names []string
	for _, step := range p.Steps() {
		switch step := step.(type) {
		case tftypes.AttributeName:
			names = append(names, string(step))
		case tftypes.ElementKeyInt:
			names = append(names, fmt.Sprint(int64(step)))
		case tftypes.ElementKeyString:
			names = append(names, string(step))
		default:
			names = append(names, "*")
		}
	}
	return strings.Join(names, ".")
}

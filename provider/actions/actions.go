// Package actions holds the provider's actions (Terraform 1.14 and later): operations that a
// configuration can't express, such as a restart. Each action is a table with its schema, its
// checks and its function.
package actions

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/jobrun"
)

// All lists the constructors of every action.
var All = []func() action.Action{
	purgeQueue.constructor,
	recycleWorkers.constructor,
	jobCancel.constructor,
	jobRetry.constructor,
	jobRun.constructor,
	podRestart.constructor,
	podStart.constructor,
	podStop.constructor,
}

// definition describes an action. M is its model: a struct with a field for every
// attribute, named as the attribute in Go's spelling.
type definition[M any] struct {
	name        string // without the provider's prefix
	failure     string // summary of an error: "Could not …"
	description string
	attributes  map[string]schema.Attribute
	validate    func(c diagnostics.Check, config *M) // checks the known values of the configuration
	// invoke runs the action and reports its progress.
	invoke func(ctx context.Context, c *api.Client, config *M, report reporter) error
}

// reporter shows a message to the user while an action runs.
type reporter func(format string, args ...any)

func (d *definition[M]) constructor() action.Action { return &configuredAction[M]{definition: d} }

type configuredAction[M any] struct {
	definition *definition[M]
	run        *kit.Run
}

func (a *configuredAction[M]) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + a.definition.name
}

func (a *configuredAction[M]) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{MarkdownDescription: a.definition.description, Attributes: a.definition.attributes}
}

func (a *configuredAction[M]) Configure(_ context.Context, req action.ConfigureRequest, _ *action.ConfigureResponse) {
	a.run, _ = req.ProviderData.(*kit.Run)
}

func (a *configuredAction[M]) ValidateConfig(ctx context.Context, req action.ValidateConfigRequest, resp *action.ValidateConfigResponse) {
	config := new(M)
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Config), config)...)
	if !resp.Diagnostics.HasError() {
		a.definition.validate(diagnostics.Check{Diagnostics: &resp.Diagnostics}, config)
	}
}

// Invoke validates the configuration again: all its values are known now.
func (a *configuredAction[M]) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	c, config := a.run.Client(&resp.Diagnostics), new(M)
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Config), config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	check := diagnostics.Check{Diagnostics: &resp.Diagnostics}
	if a.definition.validate(check, config); resp.Diagnostics.HasError() {
		return
	}
	err := a.definition.invoke(ctx, c, config, func(format string, args ...any) {
		resp.SendProgress(action.InvokeProgressEvent{Message: fmt.Sprintf(format, args...)})
	})
	if invalid, ok := errors.AsType[*diagnostics.AttributeError](err); ok {
		check.Error(invalid.Attribute, a.definition.failure, "%s", err)
	} else if err != nil {
		resp.Diagnostics.AddError(a.definition.failure, err.Error())
	}
}

// timeoutModel holds the timeout of an action. A model embeds it.
type timeoutModel struct{ Timeout types.String }

func timeoutAttribute(text string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, MarkdownDescription: text + ", such as `90s` or `1h`; default `10m`."}
}

func (m timeoutModel) validate(c diagnostics.Check) {
	if _, err := jobrun.ParseTimeout(m.Timeout); err != nil {
		c.Error("timeout", "Invalid timeout", "%s", err)
	}
}

func (m timeoutModel) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout, _ := jobrun.ParseTimeout(m.Timeout) // can't fail: validated
	return context.WithTimeoutCause(ctx, timeout, api.NotFinished(timeout))
}

package tfcli_test

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/action"
	actionschema "github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	ephemeralschema "github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	listschema "github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// probe is a provider without a service. It has one thing of each kind in the plugin protocol.
type probe struct{}

func (probe) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "probe"
}
func (probe) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse)          {}
func (probe) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}
func (probe) DataSources(context.Context) []func() datasource.DataSource                        { return nil }
func (probe) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return thing{"probe_thing"} },
		func() resource.Resource { return thing{"probe_other"} },
	}
}
func (probe) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{func() ephemeral.EphemeralResource { return secret{} }}
}
func (probe) ListResources(context.Context) []func() list.ListResource {
	return []func() list.ListResource{func() list.ListResource { return things{} }}
}
func (probe) Actions(context.Context) []func() action.Action {
	return []func() action.Action{func() action.Action { return ping{} }}
}
func (probe) Functions(context.Context) []func() function.Function {
	return []func() function.Function{func() function.Function { return answer{} }}
}

type thing struct{ typeName string }

type thingModel struct {
	ID     types.String `tfsdk:"id"`
	Secret types.String `tfsdk:"secret"`
}

type thingIdentity struct {
	ID types.String `tfsdk:"id"`
}

func (t thing) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = t.typeName
}
func (thing) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema.Attributes = map[string]schema.Attribute{
		"id":     schema.StringAttribute{Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
		"secret": schema.StringAttribute{Optional: true, WriteOnly: true},
	}
}
func (thing) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema.Attributes = map[string]identityschema.Attribute{
		"id": identityschema.StringAttribute{RequiredForImport: true},
	}
}
func (thing) Create(ctx context.Context, _ resource.CreateRequest, resp *resource.CreateResponse) {
	resp.Diagnostics.Append(resp.State.Set(ctx, thingModel{ID: types.StringValue("one")})...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, thingIdentity{ID: types.StringValue("one")})...)
}
func (thing) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model thingModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, thingIdentity{ID: model.ID})...)
}
func (thing) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
	resp.Diagnostics.Append(resp.Identity.Set(ctx, thingIdentity{ID: types.StringValue("one")})...)
}
func (thing) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}
func (thing) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughWithIdentity(ctx, path.Root("id"), path.Root("id"), req, resp)
}
func (thing) MoveState(context.Context) []resource.StateMover {
	return []resource.StateMover{{StateMover: func(ctx context.Context, _ resource.MoveStateRequest, resp *resource.MoveStateResponse) {
		resp.Diagnostics.Append(resp.TargetState.Set(ctx, thingModel{ID: types.StringValue("one")})...)
	}}}
}

type secret struct{}

func (secret) Metadata(_ context.Context, _ ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = "probe_secret"
}
func (secret) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema.Attributes = map[string]ephemeralschema.Attribute{"value": ephemeralschema.StringAttribute{Computed: true}}
}
func (secret) Open(ctx context.Context, _ ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	resp.Diagnostics.Append(resp.Result.SetAttribute(ctx, path.Root("value"), "hidden")...)
}

type things struct{}

func (things) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "probe_thing"
}
func (things) ListResourceConfigSchema(_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse) {
	resp.Schema = listschema.Schema{}
}
func (things) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	stream.Results = func(push func(list.ListResult) bool) {
		result := req.NewListResult(ctx)
		result.DisplayName = "the only thing"
		result.Diagnostics.Append(result.Identity.Set(ctx, thingIdentity{ID: types.StringValue("one")})...)
		push(result)
	}
}

type ping struct{}

func (ping) Metadata(_ context.Context, _ action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = "probe_ping"
}
func (ping) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = actionschema.Schema{}
}
func (ping) Invoke(_ context.Context, _ action.InvokeRequest, resp *action.InvokeResponse) {
	resp.SendProgress(action.InvokeProgressEvent{Message: "ping answered"})
}

type answer struct{}

func (answer) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "answer"
}
func (answer) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{Return: function.StringReturn{}}
}
func (answer) Run(ctx context.Context, _ function.RunRequest, resp *function.RunResponse) {
	resp.Error = resp.Result.Set(ctx, "an answer")
}

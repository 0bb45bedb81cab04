package tfcli_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

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
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
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
	resp.IdentitySchema.Attributes = map[string]identityschema.Attribute{"id": identityschema.StringAttribute{RequiredForImport: true}}
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

func TestMain(m *testing.M) {
	if acctest.IsProviderProcess() {
		err := providerserver.Serve(context.Background(), func() provider.Provider { return probe{} },
			providerserver.ServeOpts{Address: "registry.terraform.io/gpucloud/probe", ProtocolVersion: 6})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A feature works with a CLI of this machine if and only if Has reports it.
func TestFeatures(t *testing.T) {
	const thing = "resource \"probe_thing\" \"one\" {}\n"
	const apply = "apply -auto-approve"
	for _, c := range []struct {
		feature tfcli.Feature
		before  string // configuration that is applied first
		file    string // name of config's file
		config  string
		command string
		want    string // in the output
	}{
		{tfcli.WriteOnly, "", "main.tf", "resource \"probe_thing\" \"one\" {\n  secret = \"s\"\n}\n", apply, "1 added"},
		{tfcli.EphemeralResource, "", "main.tf",
			"ephemeral \"probe_secret\" \"s\" {}\n" + thing + "output \"o\" {\n  value = ephemeralasnull(ephemeral.probe_secret.s.value) == null\n}\n", apply, "o = true"},
		{tfcli.Functions, "", "main.tf", "output \"o\" {\n  value = provider::probe::answer()\n}\n", apply, "o = \"an answer\""},
		{tfcli.MoveAcrossTypes, "resource \"probe_other\" \"one\" {}\n", "main.tf",
			thing + "moved {\n  from = probe_other.one\n  to   = probe_thing.one\n}\n", apply, "0 added, 0 changed, 0 destroyed"},
		{tfcli.ImportByIdentity, "", "main.tf", thing + "import {\n  to = probe_thing.one\n  identity = {\n    id = \"one\"\n  }\n}\n", apply, "1 imported"},
		{tfcli.ListResources, "", "all.tfquery.hcl", "list \"probe_thing\" \"all\" {\n  provider = probe\n}\n", "query", "the only thing"},
		{tfcli.Actions, "", "main.tf", "action \"probe_ping\" \"p\" {}\n", apply + " -invoke=action.probe_ping.p", "ping answered"},
	} {
		t.Run(strings.ReplaceAll(c.feature.String(), " ", "-"), func(t *testing.T) {
			acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
				w := acctest.NewWorkspace(t, cli, "probe")
				if c.before != "" {
					w.Write("main.tf", c.before)
					w.MustRun("apply", "-auto-approve")
				}
				w.Write(c.file, c.config)
				out, err := w.Run(strings.Fields(c.command)...)
				works := err == nil && strings.Contains(out, c.want)
				must.Equal(t, works, cli.Has(c.feature), c.feature, "works", "but Has reports", err, out)
			})
		})
	}
}

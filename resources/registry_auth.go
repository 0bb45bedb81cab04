package resources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

// RegistryAuth is gpucloud_registry_auth: a credential for private images. The
// API can neither return nor change one, so every change replaces it.
var RegistryAuth = &kit.Kind[registryAuth]{
	Name:   "registry_auth",
	Title:  "registry auth",
	Schema: registryAuthSchema,
	ID:     func(m *registryAuth) *types.String { return &m.ID },
	Plan:   planRegistryAuth,
	Twins: func(ctx context.Context, c *api.Client, plan *registryAuth) []api.Twin {
		return c.RegistryAuths.Twins(ctx, api.RegistryAuth{Name: plan.Name.ValueString()})
	},

	Create: func(ctx context.Context, c *api.Client, config, plan *registryAuth) error {
		want := api.RegistryAuth{
			Name:     plan.Name.ValueString(),
			Username: plan.Username.ValueString(),
			Password: plan.Password.ValueString(),
		}
		if plan.Password.IsNull() { // a write-only value is in the configuration alone
			want.Password = config.PasswordWO.ValueString()
		}
		got, err := c.RegistryAuths.Create(ctx, want)
		if err == nil {
			plan.ID = types.StringValue(got.ID)
		}
		return err
	},
	Read: func(ctx context.Context, c *api.Client, state *registryAuth) error {
		got, err := c.RegistryAuths.Get(ctx, state.ID.ValueString())
		if err == nil {
			state.Name = types.StringValue(got.Name)
		}
		return err
	},
	// Only what an import could not know is recorded in place.
	Update: func(context.Context, *api.Client, *registryAuth, *registryAuth) error { return nil },
	Delete: func(ctx context.Context, c *api.Client, state *registryAuth) error {
		return c.RegistryAuths.Delete(ctx, state.ID.ValueString())
	},
}

var registryAuthSchema = schema.Schema{
	MarkdownDescription: "A credential for pulling private images. Templates and endpoints name it by `id` in `registry`.\n\n" +
		"With `password_wo` (Terraform 1.11 and later) the secret is neither in the state nor in a saved plan; raise `password_wo_version` to send a new one. " +
		"The API has no update, so a changed credential replaces the auth: one apply, also while templates use it.",
	Attributes: map[string]schema.Attribute{
		"id": idAttribute("registry auth"),
		"name": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Name of the auth, unique in the account. A change replaces the auth. With `create_before_destroy` a changed credential needs a new name, too.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"username": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "User name at the registry. A change replaces the auth.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"password": schema.StringAttribute{
			Optional:            true,
			Sensitive:           true,
			MarkdownDescription: "Password or token, kept in the state: for Terraform before 1.11. A change replaces the auth.",
			Validators: []validator.String{
				stringvalidator.LengthAtLeast(1),
				stringvalidator.ExactlyOneOf(path.MatchRoot("password_wo")),
			},
		},
		"password_wo": schema.StringAttribute{
			Optional:            true,
			Sensitive:           true,
			WriteOnly:           true,
			MarkdownDescription: "Password or token, never kept: sent when the auth is created, and again when `password_wo_version` changes.",
			Validators: []validator.String{
				stringvalidator.LengthAtLeast(1),
				stringvalidator.AlsoRequires(path.MatchRoot("password_wo_version")),
			},
		},
		"password_wo_version": schema.Int64Attribute{
			Optional:            true,
			MarkdownDescription: "Any number; a change says that `password_wo` is a new one, and replaces the auth.",
			Validators:          []validator.Int64{int64validator.AlsoRequires(path.MatchRoot("password_wo"))},
		},
	},
}

type registryAuth struct {
	ID                types.String `tfsdk:"id"`
	Name              types.String `tfsdk:"name"`
	Username          types.String `tfsdk:"username"`
	Password          types.String `tfsdk:"password"`
	PasswordWO        types.String `tfsdk:"password_wo"`
	PasswordWOVersion types.Int64  `tfsdk:"password_wo_version"`
}

// planRegistryAuth replaces the auth when its credentials change. After an
// import the state has none: what the configuration says is then recorded as
// what the server already holds.
func planRegistryAuth(ctx context.Context, p *kit.Plan[registryAuth]) {
	if p.State == nil || p.State.Username.IsNull() {
		return
	}
	for _, attribute := range []string{"username", "password", "password_wo_version"} {
		if p.Changes(ctx, attribute) {
			p.Replace(attribute)
		}
	}
}

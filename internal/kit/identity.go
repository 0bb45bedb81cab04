package kit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	listschema "github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

var idPath = path.Root("id")

func (r *kindResource[M]) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"id": identityschema.StringAttribute{RequiredForImport: true, Description: "Id of the " + r.kind.Title + "."},
	}}
}

// identify sets an object's identity, which is its id. CLIs without identities pass nil.
func (k *Kind[M]) identify(ctx context.Context, m *M, identity *tfsdk.ResourceIdentity, diags *diag.Diagnostics) {
	if identity != nil {
		diags.Append(identity.SetAttribute(ctx, idPath, *k.id(m))...)
	}
}

// ImportState imports an object by its identity, its id, or a unique name.
func (r *kindResource[M]) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	id := types.StringNull()
	if req.ID == "" && req.Identity != nil {
		resp.Diagnostics.Append(req.Identity.GetAttribute(ctx, idPath, &id)...)
	}
	if id.IsNull() || r.kind.Single {
		if c := r.client(&resp.Diagnostics); c != nil {
			id = types.StringValue(r.find(ctx, c, cmp.Or(id.ValueString(), req.ID), &resp.Diagnostics))
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, idPath, id)...)
	if resp.Identity != nil {
		resp.Diagnostics.Append(resp.Identity.SetAttribute(ctx, idPath, id)...)
	}
}

// MoveState takes over the state of another provider's resource in a moved block: the id and
// the values that no API returns. A read completes it, as after an import.
func (r *kindResource[M]) MoveState(context.Context) []resource.StateMover {
	return []resource.StateMover{{StateMover: func(ctx context.Context, req resource.MoveStateRequest, resp *resource.MoveStateResponse) {
		if m := r.kind.Moved.Move(ctx, r.kind.Name, req, resp); m != nil {
			r.save(ctx, m, &resp.TargetState, resp.TargetIdentity, resp.TargetPrivate, &resp.Diagnostics)
		}
	}}}
}

// find returns the id of the object with this id, or else of the only object with this name. An
// id that no list contains may still be valid: reading it decides.
func (r *kindResource[M]) find(ctx context.Context, c *api.Client, idOrName string, diags *diag.Diagnostics) string {
	all, err := r.kind.Objects(ctx, c)
	ids := api.WithName(all, idOrName)
	switch {
	case slices.ContainsFunc(all, func(o api.NamedObject) bool { return o.ID == idOrName }):
		return idOrName
	case len(ids) > 1:
		diags.AddError("Several objects have this name", fmt.Sprintf("%d objects have the name %q. Import one of these ids: %s.", len(ids), idOrName, strings.Join(ids, ", ")))
	case len(ids) == 1:
		return ids[0]
	case r.kind.Single:
		diags.AddError("Invalid import ID", fmt.Sprintf("An account has one %s. Its id is %q, not %.100q.", r.kind.Title, all[0].ID, idOrName))
	case api.ValidID(idOrName):
		return idOrName
	case err != nil:
		r.report(diags, "list", "", err)
	default:
		diags.AddError("Invalid import ID", fmt.Sprintf("%.100q is neither an id nor the name of an existing %s. Pass its id or exact name. An id has 1 to 128 letters, digits, - and _.", idOrName, r.kind.Title))
	}
	return ""
}

func (r *kindResource[M]) ListResourceConfigSchema(_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse) {
	text, names := "Finds each "+r.kind.Title+".", "Only objects with exactly this name."
	if r.kind.Single {
		text, names = "Finds the account's only "+r.kind.Title+".", "Nothing is found unless this is absent, or the fixed name of the object."
	}
	resp.Schema = listschema.Schema{
		MarkdownDescription: text,
		Attributes: map[string]listschema.Attribute{
			"name": listschema.StringAttribute{Optional: true, MarkdownDescription: names},
		},
	}
}

// List returns the objects of the kind from the client's cached list.
func (r *kindResource[M]) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var diags diag.Diagnostics
	var name types.String
	diags.Append(req.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	c := r.client(&diags)
	var all []api.NamedObject
	if c != nil {
		var err error
		if all, err = r.kind.Objects(ctx, c); err != nil {
			r.report(&diags, "list", "", err)
		}
	}
	if diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	all = slices.DeleteFunc(all, func(o api.NamedObject) bool { return !name.IsNull() && o.Name != name.ValueString() })
	stream.Results = func(push func(list.ListResult) bool) {
		pushed := int64(0)
		for i, object := range all {
			result, found := r.newListResult(ctx, c, req, object)
			if !found {
				continue
			}
			pushed++
			if pushed == req.Limit && i+1 < len(all) {
				result.Diagnostics.AddWarning("Not all objects are listed", fmt.Sprintf("%d of %d objects are listed: set a larger limit in the list block. Terraform's default is 100.", pushed, len(all)))
			}
			if !push(result) || pushed == req.Limit { // a limit of 0 means no limit
				return
			}
		}
	}
}

// newListResult returns an object of a list, with its attributes if the request asks for them. found
// is false if the object has been deleted since.
func (r *kindResource[M]) newListResult(ctx context.Context, c *api.Client, req list.ListRequest, object api.NamedObject) (result list.ListResult, found bool) {
	result = req.NewListResult(ctx)
	result.DisplayName = cmp.Or(object.Name, object.ID)
	result.Diagnostics.Append(result.Identity.SetAttribute(ctx, idPath, object.ID)...)
	if !req.IncludeResource {
		return result, true
	}
	m := new(M)
	result.Diagnostics.Append(result.Resource.SetAttribute(ctx, idPath, object.ID)...)
	result.Diagnostics.Append(value.Load(ctx, tfsdk.State(*result.Resource), m)...)
	if result.Diagnostics.HasError() {
		return result, true
	}
	switch err := r.kind.Read(ctx, c, m); {
	case api.IsNotFound(err):
		return result, false
	case err != nil:
		r.report(&result.Diagnostics, "read", object.ID, err)
	default:
		result.Diagnostics.Append(value.Store(ctx, (*tfsdk.State)(result.Resource), m)...)
	}
	return result, true
}

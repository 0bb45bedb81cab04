package kit

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

func (r *kindResource[M]) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	if planrule.Destroys() {
		return
	}
	config := new(M)
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Config), config)...)
	if r.kind.Validate != nil && !resp.Diagnostics.HasError() {
		r.kind.Validate(ctx, diagnostics.Check{Diagnostics: &resp.Diagnostics}, config)
	}
}

func (r *kindResource[M]) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		r.planDeletion(ctx, req, resp)
		return
	}
	if planrule.Destroys() { // the plan before a destroy only refreshes: no rule may stop it
		return
	}
	run := r.run
	if run == nil {
		run = new(Run)
	}
	p := planrule.New[M](ctx, run.API, &run.templates, &run.reported, &req, resp)
	p.Catalog = run.Catalog
	if p.State != nil {
		r.kind.loadPrivate(ctx, p.State, req.Private, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if v := r.kind.Version; v != "" && p.Version != "" && p.Version != v {
		resp.Diagnostics.AddError(fmt.Sprintf("API %s has no %s", p.Version, r.kind.Title),
			fmt.Sprintf("The %s exists in management API %s only. Remove the resource, or set api_version = %q in the provider block.", r.kind.Title, v, string(v)))
		return
	}
	for _, o := range r.kind.Only {
		p.CheckVersion(ctx, o)
	}
	if r.kind.Plan != nil {
		r.kind.Plan(ctx, p)
		resp.Diagnostics.Append(value.Store(ctx, (*tfsdk.State)(&resp.Plan), p.Plan)...)
	}
	p.SettleUnknowns(r.kind.Volatile)
	p.ReplaceUnchangeable(ctx, r.kind.Only, r.kind.Title, r.kind.id, r.kind.Loss)
	if !r.kind.id(p.Plan).IsUnknown() { // no CLI can show or store a plan with an unknown identity
		r.kind.identify(ctx, p.Plan, resp.Identity, &resp.Diagnostics)
	}
	if p.State != nil && len(resp.RequiresReplace) > 0 {
		r.refuseProtected(p.State, "replaced", &resp.Diagnostics)
	}
	if p.State == nil && r.kind.ExistingMatches != nil && p.API != nil && req.Config.Raw.IsFullyKnown() && !resp.Diagnostics.HasError() {
		if matches := r.kind.ExistingMatches(ctx, p.API, p.Plan); len(matches) > 0 {
			resp.Diagnostics.AddWarning(api.ExistingWarning(matches, r.kind.Title, r.typeName()))
		}
	}
}

// planDeletion rejects the deletion of a protected object, and warns about lost data.
func (r *kindResource[M]) planDeletion(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	state := new(M)
	resp.Diagnostics.Append(value.Load(ctx, req.State, state)...)
	if resp.Diagnostics.HasError() || r.refuseProtected(state, "deleted", &resp.Diagnostics) || r.kind.Loss == nil {
		return
	}
	if loss := r.kind.Loss(state); loss != "" {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The %s will be deleted", r.kind.Title), loss)
	}
}

// refuseProtected reports an error if the object is protected.
func (r *kindResource[M]) refuseProtected(state *M, ending string, diags *diag.Diagnostics) bool {
	if protected, _ := value.Attribute(state, "deletion_protection").(types.Bool); !protected.ValueBool() {
		return false
	}
	id := r.kind.id(state).ValueString()
	diags.AddAttributeError(path.Root("deletion_protection"), fmt.Sprintf("The %s is protected", r.kind.Title),
		fmt.Sprintf("%s %s would be %s, and deletion_protection is true. Nothing was sent. To end it on purpose, set deletion_protection = false and apply that first.", r.kind.Title, id, ending))
	return true
}

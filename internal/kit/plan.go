package kit

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planned"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

func (r *kindResource[M]) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	config := new(M)
	resp.Diagnostics.Append(req.Config.Get(ctx, config)...)
	if r.kind.Validate != nil && !resp.Diagnostics.HasError() {
		r.kind.Validate(ctx, diagnostics.Check{Diagnostics: &resp.Diagnostics}, config)
	}
}

func (r *kindResource[M]) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		r.warnOfLoss(ctx, req, resp)
		return
	}
	run := r.run
	if run == nil {
		run = &Run{Planned: new(planned.Notes)}
	}
	p := planrule.New[M](ctx, run.API, run.Planned, &run.reported, &req, resp)
	if p.State != nil {
		r.kind.loadPrivate(ctx, p.State, req.Private)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	for _, o := range r.kind.Only {
		p.CheckVersion(ctx, o)
	}
	if r.kind.Plan != nil {
		r.kind.Plan(ctx, p)
		resp.Diagnostics.Append(resp.Plan.Set(ctx, p.Plan)...)
	}
	if p.State == nil && r.kind.ExistingMatches != nil && p.API != nil && req.Config.Raw.IsFullyKnown() && !resp.Diagnostics.HasError() {
		for _, match := range r.kind.ExistingMatches(ctx, p.API, p.Plan) {
			resp.Diagnostics.AddWarning(match.Warning(r.kind.Title, r.typeName()))
		}
	}
}

// warnOfLoss warns of a deletion.
func (r *kindResource[M]) warnOfLoss(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	state := new(M)
	resp.Diagnostics.Append(req.State.Get(ctx, state)...)
	if r.kind.Loss == nil || resp.Diagnostics.HasError() {
		return
	}
	if loss := r.kind.Loss(state); loss != "" {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The %s will be deleted", r.kind.Title), loss)
	}
}

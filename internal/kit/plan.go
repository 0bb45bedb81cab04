package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planned"
)

// Check is where a rule says what it refuses. Attributes are dotted paths.
type Check struct{ diags *diag.Diagnostics }

// Error refuses the value of an attribute.
func (c Check) Error(attribute, summary, format string, args ...any) {
	c.diags.AddAttributeError(Path(attribute), summary, named(attribute, summary, fmt.Sprintf(format, args...)))
}

// Warn tells what the plan's reader should know; of the whole object where the
// attribute is "".
func (c Check) Warn(attribute, summary, format string, args ...any) {
	if attribute == "" {
		c.diags.AddWarning(summary, fmt.Sprintf(format, args...))
		return
	}
	c.diags.AddAttributeWarning(Path(attribute), summary, named(attribute, summary, fmt.Sprintf(format, args...)))
}

// named is a text that names its attribute: not every CLI can point into a
// nested one.
func named(attribute, summary, text string) string {
	if strings.Contains(summary+text, attribute) {
		return text
	}
	return attribute + ": " + text
}

// Plan is a change that Terraform is about to propose. A rule reads Config and
// State and changes Plan.
type Plan[M any] struct {
	Check
	Run                 *Run
	Version             api.Version // "" while the provider's settings are unknown
	Config, State, Plan *M          // State is nil for a create

	req  *resource.ModifyPlanRequest
	resp *resource.ModifyPlanResponse
}

// Fail refuses the plan because a question to the API failed. A failure of the
// whole deployment is said once in a run.
func (p *Plan[M]) Fail(attribute, summary string, err error) {
	if p.Run.alreadyReported(err) {
		p.diags.AddError(notTried, "")
		return
	}
	p.Error(attribute, summary, "%s", err)
}

// Updates tells whether the object is changed in place or replaced.
func (p *Plan[M]) Updates(ctx context.Context) bool {
	return p.State != nil && !p.planned(ctx).Raw.Equal(p.req.State.Raw)
}

// Replace makes the change of an attribute replace the object.
func (p *Plan[M]) Replace(attribute string) { p.resp.RequiresReplace.Append(Path(attribute)) }

// Changes tells whether an attribute's planned value differs from the state's,
// or may differ because it is unknown. It is false for a create.
func (p *Plan[M]) Changes(ctx context.Context, attribute string) bool {
	if p.State == nil {
		return false
	}
	var before, after attr.Value
	p.req.State.GetAttribute(ctx, Path(attribute), &before)
	p.planned(ctx).GetAttribute(ctx, Path(attribute), &after)
	return before == nil || after == nil || !after.Equal(before)
}

// StaysEmpty tells whether an attribute that the state has empty is left out, or
// the other way round: null, "" and [] are one.
func (p *Plan[M]) StaysEmpty(ctx context.Context, attribute string) bool {
	var before, after attr.Value
	p.req.State.GetAttribute(ctx, Path(attribute), &before)
	p.planned(ctx).GetAttribute(ctx, Path(attribute), &after)
	return empty(before) && empty(after)
}

func empty(v attr.Value) bool {
	switch v := v.(type) {
	case types.String:
		return !v.IsUnknown() && v.ValueString() == ""
	case interface{ Elements() []attr.Value }:
		return len(v.Elements()) == 0 && !v.(attr.Value).IsUnknown()
	}
	return v == nil || v.IsNull()
}

// Known tells whether all of these planned attributes are known in full.
func (p *Plan[M]) Known(ctx context.Context, attributes ...string) bool {
	plan := p.planned(ctx)
	for _, a := range attributes {
		v, _, err := tftypes.WalkAttributePath(plan.Raw, tftypes.NewAttributePath().WithAttributeName(a))
		if value, ok := v.(tftypes.Value); err != nil || !ok || !value.IsFullyKnown() {
			return false
		}
	}
	return true
}

// planned is the plan as the rules have it so far.
func (p *Plan[M]) planned(ctx context.Context) tfsdk.Plan {
	plan := p.resp.Plan
	plan.Set(ctx, p.Plan)
	return plan
}

// only refuses what the version in use can't express.
func (p *Plan[M]) only(ctx context.Context, o Only) {
	var v attr.Value
	p.req.Config.GetAttribute(ctx, Path(o.Attribute), &v)
	if p.Version == "" || p.Version == o.Version || v == nil || v.IsNull() || v.IsUnknown() {
		return
	}
	what, text := o.Attribute, v.String()
	if s, ok := v.(types.String); ok {
		text = s.ValueString()
	}
	if slices.Contains(o.Except, text) {
		return
	}
	if len(o.Except) > 0 {
		what += " = " + v.String()
	}
	p.Error(o.Attribute, fmt.Sprintf("API %s can't express this", p.Version),
		"%s exists in management API %s only. Leave it out, or set api_version = %q in the provider block.",
		what, o.Version, string(o.Version))
}

func (r *managed[M]) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	config := new(M)
	resp.Diagnostics.Append(req.Config.Get(ctx, config)...)
	if r.kind.Validate != nil && !resp.Diagnostics.HasError() {
		r.kind.Validate(ctx, Check{&resp.Diagnostics}, config)
	}
}

func (r *managed[M]) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		r.warnOfLoss(ctx, req, resp)
		return
	}
	p := &Plan[M]{Check: Check{&resp.Diagnostics}, Run: r.run, Config: new(M), Plan: new(M), req: &req, resp: resp}
	if p.Run == nil {
		p.Run = &Run{Planned: new(planned.Notes)}
	}
	if p.Run.API != nil {
		p.Version = p.Run.API.Version
	}
	resp.Diagnostics.Append(req.Config.Get(ctx, p.Config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, p.Plan)...)
	if !req.State.Raw.IsNull() {
		p.State = new(M)
		resp.Diagnostics.Append(req.State.Get(ctx, p.State)...)
		r.kind.loadNotes(ctx, p.State, req.Private)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	for _, o := range r.kind.Only {
		p.only(ctx, o)
	}
	if r.kind.Plan != nil {
		r.kind.Plan(ctx, p)
		resp.Diagnostics.Append(resp.Plan.Set(ctx, p.Plan)...)
	}
	if p.State == nil && r.kind.ExistingMatches != nil && p.Run.API != nil && req.Config.Raw.IsFullyKnown() && !resp.Diagnostics.HasError() {
		for _, match := range r.kind.ExistingMatches(ctx, p.Run.API, p.Plan) {
			resp.Diagnostics.AddWarning(match.Warning(r.kind.Title, r.typeName()))
		}
	}
}

func (r *managed[M]) warnOfLoss(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	state := new(M)
	resp.Diagnostics.Append(req.State.Get(ctx, state)...)
	if r.kind.Loss == nil || resp.Diagnostics.HasError() {
		return
	}
	if loss := r.kind.Loss(state); loss != "" {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The %s will be deleted", r.kind.Title), loss)
	}
}

// Name is how messages name an attribute: "gpu.type_ids", "cpu[0].vcpu_count". An
// element of a set has the set's.
func Name(at path.Path) string {
	name, _, _ := strings.Cut(at.String(), "[Value(")
	return name
}

// Path turns "gpu.type_ids" into the framework's path.
func Path(dotted string) path.Path {
	names := strings.Split(dotted, ".")
	p := path.Root(names[0])
	for _, name := range names[1:] {
		p = p.AtName(name)
	}
	return p
}

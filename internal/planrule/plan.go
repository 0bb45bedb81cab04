// Package planrule is what the plan rule of a kind can ask about a change, and
// what it can do to the plan.
package planrule

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
)

// Plan is a change that Terraform is about to propose. A rule reads Config and
// State and changes Plan.
type Plan[M any] struct {
	diagnostics.Check
	API                 *api.Client     // nil while the provider's settings are unknown
	Version             api.Version     // "" while they are
	Templates           *sync.Map       // the changes of templates that this run plans, by id
	Catalog             *catalog.Checks // nil while they are
	Config, State, Plan *M              // State is nil for a create
	// Created tells whether this provider created the object. The state of any other,
	// imported or moved, has settings that no configuration asked for.
	Created bool

	run  *diagnostics.Run
	req  *resource.ModifyPlanRequest
	resp *resource.ModifyPlanResponse
}

// New reads a change.
func New[M any](ctx context.Context, c *api.Client, templates *sync.Map, run *diagnostics.Run, req *resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) *Plan[M] {
	p := &Plan[M]{
		Check: diagnostics.Check{Diagnostics: &resp.Diagnostics}, API: c, Templates: templates, Config: new(M), Plan: new(M),
		run: run, req: req, resp: resp,
	}
	if c != nil {
		p.Version = c.Version
	}
	resp.Diagnostics.Append(req.Config.Get(ctx, p.Config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, p.Plan)...)
	if !req.State.Raw.IsNull() {
		p.State = new(M)
		resp.Diagnostics.Append(req.State.Get(ctx, p.State)...)
		made, _ := req.Private.GetKey(ctx, MadeKey)
		p.Created = made != nil
		if seen, _ := req.Private.GetKey(ctx, SeenKey); string(seen) == NotSeen {
			resp.Diagnostics.AddError("The moved object has not been read", "Its state comes from another provider and says little more than its id, so that this plan would replace it. "+
				"Plan with a refresh: without -refresh=false.")
		}
	}
	return p
}

// SeenKey is that of a private state which tells whether a read has found the object.
// NotSeen is its value for one that was moved from another provider, until then. MadeKey
// is that of the time of the create: RFC 3339, in quotes.
const (
	MadeKey = "made"
	SeenKey = "seen"
	NotSeen = "false"
)

// Fail refuses the plan because a question to the API failed. A failure of the
// whole deployment is reported once in a run.
func (p *Plan[M]) Fail(attribute, summary string, err error) {
	p.run.Fail(p.Check, attribute, summary, err)
}

// ErrorInPlace refuses a change that only a new object can have. If the CLI has
// -replace, this may become one, and the error is a warning: an update refuses the change.
func (p *Plan[M]) ErrorInPlace(attribute, summary, format string, args ...any) {
	if Replaces() {
		p.Warn(attribute, summary, format, args...)
		return
	}
	p.Error(attribute, summary, format, args...)
}

// Updates tells whether the object is changed in place or replaced.
func (p *Plan[M]) Updates(ctx context.Context) bool {
	return p.State != nil && !p.planned(ctx).Raw.Equal(p.req.State.Raw)
}

// Replace makes the change of an attribute replace the object.
func (p *Plan[M]) Replace(attribute string) {
	p.resp.RequiresReplace.Append(diagnostics.Path(attribute))
}

// Changes tells whether an attribute's planned value differs from the state's,
// or may differ because it is unknown. It is false for a create.
func (p *Plan[M]) Changes(ctx context.Context, attribute string) bool {
	if p.State == nil {
		return false
	}
	before, after := p.Values(ctx, attribute)
	return before == nil || after == nil || !after.Equal(before)
}

// Values are an attribute's value in the state and in the plan so far.
func (p *Plan[M]) Values(ctx context.Context, attribute string) (before, after attr.Value) {
	p.req.State.GetAttribute(ctx, diagnostics.Path(attribute), &before)
	return before, p.value(ctx, attribute)
}

// value is an attribute's value in the plan so far, as the framework returns it: a member of
// an object that is null or unknown is null.
func (p *Plan[M]) value(ctx context.Context, attribute string) (v attr.Value) {
	root, nested, isNested := strings.Cut(attribute, ".")
	switch m := member(p.Plan, root).(type) {
	case attr.Value:
		v = m
	default:
		if kind, diags := p.resp.Plan.Schema.TypeAtPath(ctx, diagnostics.Path(root)); !diags.HasError() {
			tfsdk.ValueFrom(ctx, m, kind, &v)
		}
	}
	for isNested {
		var name string
		name, nested, isNested = strings.Cut(nested, ".")
		object, ok := v.(types.Object)
		if !ok {
			return nil
		}
		if v, ok = object.Attributes()[name]; ok {
			continue
		}
		kind := object.AttributeTypes(ctx)[name]
		if kind == nil {
			return nil
		}
		v, _ = kind.ValueFromTerraform(ctx, tftypes.NewValue(kind.TerraformType(ctx), nil)) // null fits each type
	}
	return v
}

// member returns the value of a model's attribute, nil if the model doesn't have it. To
// convert a whole model takes the framework a hundred times as long, and a rule asks for
// many attributes.
func member(model any, attribute string) any {
	m := reflect.ValueOf(model).Elem()
	for _, f := range reflect.VisibleFields(m.Type()) {
		if f.Tag.Get("tfsdk") == attribute {
			return m.FieldByIndex(f.Index).Interface()
		}
	}
	return nil
}

// StaysEmpty tells whether an attribute that the state has empty is left out, or
// the other way round: null, "" and [] are one.
func (p *Plan[M]) StaysEmpty(ctx context.Context, attribute string) bool {
	before, after := p.Values(ctx, attribute)
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

// Omitted decides an optional attribute that the configuration omits, and that no update
// can clear: an object that this provider did not create keeps what it has, because the
// server may have chosen it.
func Omitted[M any, V attr.Value](p *Plan[M], of func(*M) *V) {
	switch {
	case !(*of(p.Config)).IsNull():
	case p.State != nil && !p.Created:
		*of(p.Plan) = *of(p.State)
	default:
		*of(p.Plan) = *of(p.Config)
	}
}

// SettleUnknowns decides what an update leaves unknown, once the rules have decided the
// rest: the volatile attributes, which the server may change with any update, and nothing
// of a plan that changes nothing else. The framework decides before the rules.
func (p *Plan[M]) SettleUnknowns(volatile []string) {
	if p.State == nil || p.Diagnostics.HasError() {
		return
	}
	settle := func(unknown bool) tftypes.Value {
		plan, err := tftypes.Transform(p.resp.Plan.Raw, func(at *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
			switch {
			case !slices.Contains(volatile, dotted(at)):
				return v, nil
			case unknown:
				return tftypes.NewValue(v.Type(), tftypes.UnknownValue), nil
			}
			was, _, err := tftypes.WalkAttributePath(p.req.State.Raw, at)
			if before, ok := was.(tftypes.Value); err == nil && ok {
				return before, nil
			}
			return v, nil
		})
		if err != nil {
			return p.resp.Plan.Raw
		}
		return plan
	}
	if p.resp.Plan.Raw = settle(false); !p.resp.Plan.Raw.Equal(p.req.State.Raw) {
		p.resp.Plan.Raw = settle(true)
	}
}

// dotted is a path of attributes alone; "" for an element's.
func dotted(at *tftypes.AttributePath) string {
	var names []string
	for _, step := range at.Steps() {
		name, ok := step.(tftypes.AttributeName)
		if !ok {
			return ""
		}
		names = append(names, string(name))
	}
	return strings.Join(names, ".")
}

// Known tells whether all of these planned attributes are known in full.
func (p *Plan[M]) Known(ctx context.Context, attributes ...string) bool {
	for _, a := range attributes {
		v := p.value(ctx, a)
		if v == nil {
			return false
		}
		if value, err := v.ToTerraformValue(ctx); err != nil || !value.IsFullyKnown() {
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

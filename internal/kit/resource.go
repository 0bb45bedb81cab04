package kit

import (
	"cmp"
	"context"
	"errors"
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

type kindResource[M any] struct {
	kind *Kind[M]
	run  *Run
}

func (r *kindResource[M]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind.Name
	resp.ResourceBehavior.MutableIdentity = r.kind.NewIDs
}

func (r *kindResource[M]) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.kind.Schema
}

func (r *kindResource[M]) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.run, _ = req.ProviderData.(*Run)
}

func (r *kindResource[M]) client(diags *diag.Diagnostics) *api.Client { return r.run.Client(diags) }

func (r *kindResource[M]) typeName() string { return r.run.Provider + "_" + r.kind.Name }

func (r *kindResource[M]) report(diags *diag.Diagnostics, verb, id string, err error) {
	subject := diagnostics.Subject{Title: r.kind.Title, TypeName: r.typeName(), Schema: r.kind.Schema}
	if verb == "list" {
		subject.Title += "s"
	}
	r.run.reported.Report(diags, subject, verb, id, err)
}

// loadPrior reads an object from the state, and gives the client the time of its create.
func (r *kindResource[M]) loadPrior(ctx context.Context, stored tfsdk.State, p planrule.Private, diags *diag.Diagnostics) (c *api.Client, state *M, id string) {
	c, state = r.client(diags), new(M)
	diags.Append(value.Load(ctx, stored, state)...)
	if diags.HasError() {
		return c, state, ""
	}
	id = r.kind.id(state).ValueString()
	restoreCreateTime(ctx, c, id, p, diags)
	return c, state, id
}

// save writes an object to the state, including its private part.
func (r *kindResource[M]) save(ctx context.Context, m *M, state *tfsdk.State, identity *tfsdk.ResourceIdentity, p planrule.Private, diags *diag.Diagnostics) {
	r.kind.savePrivate(ctx, m, p, diags)
	diags.Append(value.Store(ctx, state, m)...)
	r.kind.identify(ctx, m, identity, diags)
}

func (r *kindResource[M]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	c := r.client(&resp.Diagnostics)
	var config, plan M
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Config), &config)...)
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Plan), &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	err := r.kind.Create(ctx, c, &config, &plan)
	if warning, ok := errors.AsType[*diagnostics.Warning](err); ok {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The %s was created, and may be incomplete", r.kind.Title), warning.Error())
	} else if err != nil {
		r.report(&resp.Diagnostics, "create", "", err)
		// An existing object must be in the state even after a failure: otherwise it would never be deleted.
		if id := r.kind.id(&plan); id.IsUnknown() || id.IsNull() {
			return
		}
	}
	recordCreateTime(ctx, resp.Private, &resp.Diagnostics)
	resp.Diagnostics.Append(planrule.RecordDeployment(ctx, resp.Private, c)...)
	r.save(ctx, &plan, &resp.State, resp.Identity, resp.Private, &resp.Diagnostics)
	r.checkAnswer(req.Plan, &resp.State, r.kind.id(&plan).ValueString(), afterCreate, &resp.Diagnostics)
	value.DropUnknowns(&resp.State)
}

func (r *kindResource[M]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	if r.run != nil && r.run.API == nil && r.run.reported.WarnIfRepeated(&resp.Diagnostics) { // the provider's settings are unknown, and this run has reported that before
		state := new(M)
		resp.Diagnostics.Append(value.Load(ctx, req.State, state)...)
		r.kind.identify(ctx, state, resp.Identity, &resp.Diagnostics)
		return
	}
	c, state, id := r.loadPrior(ctx, req.State, req.Private, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.kind.loadPrivate(ctx, state, req.Private, &resp.Diagnostics); resp.Diagnostics.HasError() {
		return
	}
	r.kind.identify(ctx, state, resp.Identity, &resp.Diagnostics) // even if the object is gone or couldn't be read
	prior := *state
	err := r.kind.Read(ctx, c, state)
	if err == nil && planrule.NeedsReadByID(&prior, state, r.kind.Schema, r.kind.Volatile) {
		*state = prior
		err = r.kind.Read(api.WithoutLists(ctx), c, state)
	}
	switch {
	case api.IsNotFound(err):
		resp.State.RemoveResource(ctx)
		resp.Diagnostics.Append(planrule.WarnOfAnotherDeployment(ctx, req.Private, c, r.kind.Title, id)...)
	case err != nil: // the state doesn't change
		r.report(&resp.Diagnostics, "read", id, err)
	default:
		r.save(ctx, state, &resp.State, resp.Identity, resp.Private, &resp.Diagnostics)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, planrule.SeenKey, []byte("true"))...)
		resp.Diagnostics.Append(planrule.RecordDeployment(ctx, resp.Private, c)...)
	}
}

func (r *kindResource[M]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	c, state, id := r.loadPrior(ctx, req.State, req.Private, &resp.Diagnostics)
	var config, plan M
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Config), &config)...)
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Plan), &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.kind.loadPrivate(ctx, state, req.Private, &resp.Diagnostics)
	if r.kind.loadPrivate(ctx, &plan, req.Private, &resp.Diagnostics); resp.Diagnostics.HasError() {
		return
	}
	if err := r.kind.Update(ctx, c, &config, state, &plan); err != nil {
		r.report(&resp.Diagnostics, "update", id, err)
		// An update that replaces the object may fail after it created the new one: the state
		// keeps the new id, with the previous settings.
		if newID := *r.kind.id(&plan); !newID.IsUnknown() && newID.ValueString() != id {
			*r.kind.id(state) = newID
			recordCreateTime(ctx, resp.Private, &resp.Diagnostics)
		}
		r.save(ctx, state, &resp.State, resp.Identity, resp.Private, &resp.Diagnostics)
		return
	}
	if r.kind.id(&plan).ValueString() != id {
		recordCreateTime(ctx, resp.Private, &resp.Diagnostics)
	}
	r.save(ctx, &plan, &resp.State, resp.Identity, resp.Private, &resp.Diagnostics)
	r.checkAnswer(req.Plan, &resp.State, id, afterUpdate, &resp.Diagnostics)
}

func (r *kindResource[M]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	c, state, id := r.loadPrior(ctx, req.State, req.Private, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || r.rejectProtected(r.protectedID(state), "deleted", &resp.Diagnostics) {
		return
	}
	if err := r.kind.Delete(ctx, c, state); err != nil {
		r.report(&resp.Diagnostics, "delete", id, err)
	}
}

func (r *kindResource[M]) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	if planrule.CommandDestroys() {
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
	if planrule.CommandDestroys() { // the plan before a destroy only refreshes: no rule may stop it
		return
	}
	run := cmp.Or(r.run, new(Run))
	if run.API == nil { // No rule can run yet. For a create, the plan at the apply runs them; for a change they may be needed now, so it is an error.
		if !req.State.Raw.IsNull() && !req.Plan.Raw.Equal(req.State.Raw) && !run.reported.WarnIfRepeated(&resp.Diagnostics) {
			run.Client(&resp.Diagnostics)
		}
		return
	}
	p := planrule.New[M](ctx, run.API, &run.templates, &run.reported, &req, resp)
	p.Catalog = run.Catalog
	if p.State != nil {
		r.kind.loadPrivate(ctx, p.State, req.Private, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if v := r.kind.Version; v != "" && p.Version != v {
		resp.Diagnostics.AddError(fmt.Sprintf("API %s has no %s", p.Version, r.kind.Title),
			fmt.Sprintf("The %s exists in management API %s only. Remove the resource, or set api_version = %q in the provider block.", r.kind.Title, v, string(v)))
		return
	}
	for _, o := range r.kind.OneVersionOnly {
		// Only changes are checked, unless the kind does more: with ignore_changes, a configuration can't leave out a value
		// that the other version set.
		if o.Version == api.V2 && o.HandledByKind || p.State == nil || p.Changes(ctx, o.Attribute) {
			o.Check(ctx, p.Check, p.Version, req.Config)
		}
	}
	if r.kind.Plan != nil {
		r.kind.Plan(ctx, p)
		resp.Diagnostics.Append(value.Store(ctx, (*tfsdk.State)(&resp.Plan), p.Plan)...)
	}
	p.SettleUnknowns(r.kind.Volatile)
	p.ReplaceUnchangeable(ctx, r.kind.OneVersionOnly, r.kind.Title, r.kind.id, r.kind.Loss)
	if !r.kind.id(p.Plan).IsUnknown() { // no CLI can show or store a plan with an unknown identity
		r.kind.identify(ctx, p.Plan, resp.Identity, &resp.Diagnostics)
	}
	r.rejectProtected(p.ProtectedIDIfReplaced(ctx, r.protectedID(p.State)), "replaced", &resp.Diagnostics)
	if p.State == nil && r.kind.ExistingMatches != nil && req.Config.Raw.IsFullyKnown() && !resp.Diagnostics.HasError() {
		if matches := r.kind.ExistingMatches(ctx, p.API, p.Plan); len(matches) > 0 {
			resp.Diagnostics.AddWarning(api.ExistingWarning(matches, r.kind.Title, r.typeName()))
		}
	}
}

// planDeletion rejects the deletion of a protected object, and warns about lost data.
func (r *kindResource[M]) planDeletion(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	state := new(M)
	resp.Diagnostics.Append(value.Load(ctx, req.State, state)...)
	if resp.Diagnostics.HasError() || r.rejectProtected(r.protectedID(state), "deleted", &resp.Diagnostics) || r.kind.Loss == nil {
		return
	}
	r.kind.loadPrivate(ctx, state, req.Private, new(diag.Diagnostics)) // errors don't matter: the private state only makes the warning more precise
	if loss := r.kind.Loss(state); loss != "" {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The %s will be deleted", r.kind.Title), loss)
	}
}

// protectedID returns the id of an object if it is protected, or "".
func (r *kindResource[M]) protectedID(state *M) (id string) {
	if state == nil {
		return ""
	}
	if protected, _ := value.Attribute(state, "deletion_protection").(types.Bool); protected.ValueBool() {
		id = r.kind.id(state).ValueString()
	}
	return id
}

// rejectProtected reports an error and returns true, unless id is "". id is the id of a protected object;
// change is "deleted" or "replaced". The state of a tainted or deposed object keeps the protection.
func (r *kindResource[M]) rejectProtected(id, change string, diags *diag.Diagnostics) bool {
	if id == "" {
		return false
	}
	diags.AddAttributeError(path.Root("deletion_protection"), fmt.Sprintf("The %s is protected", r.kind.Title),
		fmt.Sprintf("The %s %s would be %s, and deletion_protection is true. Nothing was sent. To allow it, set deletion_protection = false and apply that first. "+
			"If it is tainted, untaint it before that; if it is deposed, delete it in the deployment.", r.kind.Title, id, change))
	return true
}

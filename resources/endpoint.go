package resources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

// Endpoint is gpucloud_endpoint: a serverless endpoint, which may follow a
// template (endpoint_template.go says how) or carry its own container settings.
var Endpoint = &kit.Kind[endpoint]{
	Name:   "endpoint",
	Title:  "endpoint",
	Schema: endpointSchema,
	ID:     func(m *endpoint) *types.String { return &m.ID },
	// Ruled: API v1 has them of a template, or by other names (endpoint_plan.go).
	Only: []planrule.Only{
		{Version: api.V2, Attribute: "type", Except: []string{"QUEUE"}, Ruled: true},
		{Version: api.V2, Attribute: "image", Ruled: true},
		{Version: api.V2, Attribute: "args", Ruled: true},
		{Version: api.V2, Attribute: "entrypoint", Ruled: true},
		{Version: api.V2, Attribute: "cmd", Ruled: true},
		{Version: api.V2, Attribute: "disk", Ruled: true},
		{Version: api.V2, Attribute: "env", Except: []string{"{}"}, Ruled: true},
		{Version: api.V2, Attribute: "env_wo", Ruled: true},
		{Version: api.V2, Attribute: "ports", Ruled: true},
		{Version: api.V2, Attribute: "registry", Ruled: true},
		{Version: api.V2, Attribute: "gpu.pools", Ruled: true},
		{Version: api.V2, Attribute: "gpu.excluded_types", Ruled: true},
		{Version: api.V2, Attribute: "wait_for.rollout", Except: []string{"false"}, Ruled: true},
		{Version: api.V2, Attribute: "flashboot", Except: []string{"OFF", "FLASHBOOT"}, Ruled: true},
	},
	Protected: func(m *endpoint) types.Bool { return m.DeletionProtection },
	Private:   func(m *endpoint) any { return &m.Private },
	Moved:     movedEndpoint,
	Validate:  validateEndpoint,
	Plan:      planEndpoint,
	ExistingMatches: func(ctx context.Context, c *api.Client, plan *endpoint) []api.ExistingMatch {
		want, err := plan.desired(ctx, c)
		if err != nil {
			return nil
		}
		return c.Endpoints.ExistingMatches(ctx, want)
	},
	Objects: func(ctx context.Context, c *api.Client) ([]api.Named, error) { return c.Endpoints.Named(ctx) },

	Create: func(ctx context.Context, c *api.Client, config, plan *endpoint) error {
		// The template is read first, so that nothing can fail once the
		// endpoint exists.
		template, err := plan.template(ctx, c)
		if err != nil {
			return err
		}
		plan.setValues(&config.writeOnlyEnv, nil, envDigests{}, nil)
		want, err := plan.desired(ctx, c)
		if err != nil {
			return err
		}
		got, err := c.Endpoints.Create(ctx, want)
		if err != nil {
			return err
		}
		if err := plan.recordApplied(ctx, c, template, got); err != nil {
			return err
		}
		return awaitedCreate(plan.awaitEndpoint(ctx, c, true))
	},
	Read: func(ctx context.Context, c *api.Client, state *endpoint) error {
		got, err := c.Endpoints.Get(ctx, state.ID.ValueString())
		if err != nil {
			return err
		}
		state.Private.Named = state.named()
		if got.Container != nil {
			state.Private.EnvWO.compare(c, &state.writeOnlyEnv, got.Container.Env)
		}
		if err := state.flatten(ctx, c, got); err != nil {
			return err
		}
		return state.recordRead(ctx, c, got)
	},
	Update: func(ctx context.Context, c *api.Client, config, state, plan *endpoint) error {
		template, err := plan.template(ctx, c)
		if err != nil {
			return err
		}
		// Compared with what the server has now, so that what an earlier,
		// interrupted apply left behind is mended too.
		have, err := c.Endpoints.Get(ctx, state.ID.ValueString())
		if err != nil {
			return err
		}
		plan.setValues(&config.writeOnlyEnv, &state.writeOnlyEnv, state.Private.EnvWO, have.Environment())
		want, err := plan.desired(ctx, c)
		if err != nil {
			return err
		}
		if have, err = resetIdleTimeout(ctx, c, have, want); err != nil {
			return err
		}
		switch {
		case template == nil:
		case plan.appliesTemplate(state):
			if template, err = plan.templateAsPlanned(ctx, c); err != nil {
				return err
			}
			want.ApplyTemplate = true
			prior, err := state.expand(ctx)
			if err != nil {
				return err
			}
			inherit(&want, prior, *template)
		default: // no part of the container changes
			have.TemplateID, have.Container = want.TemplateID, want.Container
		}
		got, err := c.Endpoints.Update(ctx, have, want)
		if err != nil {
			return err
		}
		planned := plan.FromTemplate
		if err := plan.recordApplied(ctx, c, template, got); err != nil {
			return err
		}
		if !want.ApplyTemplate { // a link shows a template that has changed since the plan
			plan.FromTemplate = planned
		}
		return plan.awaitEndpoint(ctx, c, false)
	},
	Delete: func(ctx context.Context, c *api.Client, state *endpoint) error {
		return c.Endpoints.Delete(ctx, state.ID.ValueString())
	},
}

// resetIdleTimeout sets the default idle timeout of an endpoint that is about to scale on
// requests. From then on, API v2 neither returns nor accepts one, and the endpoint would
// keep its last.
func resetIdleTimeout(ctx context.Context, c *api.Client, have, want api.Endpoint) (api.Endpoint, error) {
	last := have.Workers.IdleTimeout
	if last == nil || *last == defaultIdleTimeout || want.Workers.IdleTimeout != nil || want.Scaling.Type != requestCount {
		return have, nil
	}
	reset := have
	reset.Workers.IdleTimeout = new(defaultIdleTimeout)
	return c.Endpoints.Update(ctx, have, reset)
}

package resources

import (
	"context"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

// Endpoint is gpucloud_endpoint: a serverless endpoint. It may follow a template (see
// endpoint_template.go) or have its own container settings.
var Endpoint = newCollectionKind(kit.Kind[endpoint]{
	Name:           "endpoint",
	Schema:         endpointSchema,
	OneVersionOnly: endpointOneVersion,
	Moved:          movedEndpoint,
	Validate:       validateEndpoint,
	Plan:           planEndpoint,
	ExistingMatches: func(ctx context.Context, c *api.Client, plan *endpoint) []api.ExistingMatch {
		want, err := plan.expandWithPools(ctx, c)
		if err != nil {
			return nil
		}
		return c.Endpoints.ExistingMatches(ctx, want)
	},

	Create: func(ctx context.Context, c *api.Client, config, plan *endpoint) error {
		// Read the template first, so that a failure creates no endpoint.
		template, err := plan.readTemplate(ctx, c)
		if err != nil {
			return err
		}
		plan.setWriteOnlyEnv(&config.writeOnlyEnv, nil, envDigests{}, nil)
		want, err := plan.expandWithPools(ctx, c)
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
		return waitError(plan.awaitEndpoint(ctx, c, true), afterCreate)
	},
	Read: func(ctx context.Context, c *api.Client, state *endpoint) error {
		got, err := c.Endpoints.Refresh(ctx, state.expand())
		if err != nil {
			return err
		}
		state.Private.References = state.references()
		if got.Container != nil {
			state.Private.EnvWO.dropChanged(c, &state.writeOnlyEnv, got.Container.Env)
		}
		if err := state.flatten(ctx, c, got); err != nil {
			return err
		}
		return state.recordRead(ctx, c, got)
	},
	Update: func(ctx context.Context, c *api.Client, config, state, plan *endpoint) error {
		template, err := plan.readTemplate(ctx, c)
		if err != nil {
			return err
		}
		// Compare with the current endpoint rather than the state, to repair the result of an
		// interrupted apply.
		have, err := c.Endpoints.Refresh(ctx, state.expand())
		if err != nil {
			return err
		}
		plan.setWriteOnlyEnv(&config.writeOnlyEnv, &state.writeOnlyEnv, state.Private.EnvWO, deref(have.Container).Env)
		if plan.sends(&state.writeOnlyEnv) {
			plan.Private.EnvWO = envDigests{} // a variable that was removed from env_wo gets the template's value
		}
		want, err := plan.expandWithPools(ctx, c)
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
			inheritCUDAVersions(&want, state.expand(), *template)
		default: // the update must not change the container
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
		if !want.ApplyTemplate { // a linked endpoint may already have later changes of the template, which the plan doesn't have
			plan.FromTemplate = planned
		}
		return waitError(plan.awaitEndpoint(ctx, c, false), afterUpdate)
	},
}, func(c *api.Client) *api.Collection[api.Endpoint] { return c.Endpoints }, (*endpoint).expand, nil)

// resetIdleTimeout sets the default idle timeout before an endpoint changes to scaling on
// requests. Afterwards API v2 neither returns nor accepts an idle timeout, and the endpoint
// would keep its last one.
func resetIdleTimeout(ctx context.Context, c *api.Client, have, want api.Endpoint) (api.Endpoint, error) {
	last := have.Workers.IdleTimeout
	if last == nil || *last == defaultIdleTimeout || want.Workers.IdleTimeout != nil || want.Scaling.Type != requestCount {
		return have, nil
	}
	reset := have
	reset.Workers.IdleTimeout = new(defaultIdleTimeout)
	return c.Endpoints.Update(ctx, have, reset)
}

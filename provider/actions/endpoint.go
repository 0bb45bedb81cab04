package actions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/jobrun"
)

var recycleWorkers = &definition[recycleWorkersModel]{
	name:    "endpoint_recycle_workers",
	failure: "Could not recycle the workers",
	description: "Replaces all workers of an endpoint, for example if an image's tag has moved or workers hang.\n\n" +
		"The action sets `workers` to 0, waits until all workers are gone, and restores the old value, even after a failure or an interrupt. Jobs wait meanwhile; the deployment may interrupt running ones.",
	attributes: map[string]schema.Attribute{
		"endpoint_id": schema.StringAttribute{Required: true, MarkdownDescription: "Id of the endpoint."},
		"timeout":     timeoutAttribute("How long to wait"),
	},
	validate: func(c diagnostics.Check, config *recycleWorkersModel) {
		kit.ValidID(c, "endpoint_id", config.EndpointID)
		config.validate(c)
	},
	invoke: recycle,
}

type recycleWorkersModel struct {
	EndpointID types.String
	timeoutModel
}

// restoreTimeout limits how long restoring the worker limits may take.
const restoreTimeout = 30 * time.Second

func recycle(ctx context.Context, c *api.Client, config *recycleWorkersModel, report reporter) (failure error) {
	id := config.EndpointID.ValueString()
	before, err := c.Endpoints.GetFresh(ctx, id)
	if err != nil {
		return err
	}
	if before.Workers.Max == 0 {
		return fmt.Errorf("endpoint %s may have no workers: its workers.max is 0", id)
	}
	scaledDown := before
	scaledDown.Workers.Min, scaledDown.Workers.Max = 0, 0
	_, err = c.Endpoints.Update(ctx, before, scaledDown)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Tries == 1 && e.Status >= 400 && e.Status < 500 {
		return err // a rejected update changes nothing
	}
	defer func() {
		restoreCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
		defer cancel()
		if _, err := c.Endpoints.Update(restoreCtx, scaledDown, before); err != nil {
			failure = errors.Join(failure, fmt.Errorf("endpoint %s may have workers.min = 0 and workers.max = 0, because the earlier values %d and %d could not be restored: apply its configuration again. %w", id, before.Workers.Min, before.Workers.Max, err))
			return
		}
		report("Endpoint %s has %d to %d workers again.", id, before.Workers.Min, before.Workers.Max)
	}()
	if err != nil {
		return err
	}
	waitCtx, cancel := config.withTimeout(ctx)
	defer cancel()
	last := -1
	err = api.Poll(waitCtx, func() (bool, error) {
		health, err := c.Jobs.Health(waitCtx, id)
		if left := health.Total(); err == nil && left != last {
			report("Workers left at endpoint %s: %d.", id, left)
			last = left
		}
		return last == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the workers of endpoint %s are gone: %w", id, err)
	}
	return nil
}

var purgeQueue = &definition[purgeQueueModel]{
	name:        "endpoint_purge_queue",
	failure:     "Could not purge the queue",
	description: "Removes the jobs that wait in the queue of an endpoint, for good. Running jobs continue.",
	attributes: map[string]schema.Attribute{
		"endpoint_id": schema.StringAttribute{Required: true, MarkdownDescription: jobrun.EndpointIDDescription},
	},
	validate: func(c diagnostics.Check, config *purgeQueueModel) {
		kit.ValidID(c, "endpoint_id", config.EndpointID)
	},
	invoke: func(ctx context.Context, c *api.Client, config *purgeQueueModel, report reporter) error {
		removed, err := c.Jobs.PurgeQueue(ctx, config.EndpointID.ValueString())
		if err == nil {
			report("Jobs removed from the queue of endpoint %s: %d.", config.EndpointID.ValueString(), removed)
		}
		return err
	},
}

type purgeQueueModel struct{ EndpointID types.String }

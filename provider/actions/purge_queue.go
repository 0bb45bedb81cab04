package actions

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/jobrun"
)

var purgeQueue = &definition[purgeQueueModel]{
	name:    "endpoint_purge_queue",
	failure: "Could not purge the queue",
	about:   "Removes the jobs that wait in the queue of an endpoint, for good. Jobs in progress go on.",
	attributes: map[string]schema.Attribute{
		"endpoint_id": schema.StringAttribute{Required: true, MarkdownDescription: jobrun.EndpointID},
	},
	validate: func(_ context.Context, c diagnostics.Check, config *purgeQueueModel) {
		jobrun.CheckID(c, "endpoint_id", config.EndpointID)
	},
	invoke: func(ctx context.Context, c *api.Client, config *purgeQueueModel, report reporter) error {
		removed, err := c.Jobs.PurgeQueue(ctx, config.EndpointID.ValueString())
		if err == nil {
			report("Removed the %d jobs that waited at endpoint %s.", removed, config.EndpointID.ValueString())
		}
		return err
	},
}

type purgeQueueModel struct {
	EndpointID types.String `tfsdk:"endpoint_id"`
}

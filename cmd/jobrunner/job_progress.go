package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

// progress says on stderr how a job goes on that is awaited, each time that this
// changes: programs read neither its updates nor a terminal.
func (d *deployment) progress(ctx context.Context, c *api.Client, endpointID string) func(api.Job) {
	said, updates := "", cli.IsTerminal(os.Stderr) && !d.JSON
	return func(now api.Job) {
		line := fmt.Sprintf("job %s is %s", now.ID, now.Status)
		if why := waitReason(ctx, c, endpointID, now); why != "" {
			line += ": " + why
		}
		if update := progressUpdate(now); update != "" && updates {
			line += ": " + update
		}
		if line != said && ctx.Err() == nil {
			fmt.Fprintln(stderr, line)
			said = line
		}
	}
}

// waitReason is why a job waits whose endpoint has no worker that can start.
func waitReason(ctx context.Context, c *api.Client, endpointID string, now api.Job) string {
	if now.Status != "IN_QUEUE" {
		return ""
	}
	reason, err := c.Jobs.StartFailure(ctx, endpointID)
	if err != nil || reason == "" {
		return ""
	}
	return "no worker can start: " + reason
}

// reasonTime limits the search for a reason when nobody waits for the job any longer.
const reasonTime = 3 * time.Second

// lastReason is waitReason at the end of a line about a job that nobody awaits any longer.
func lastReason(ctx context.Context, c *api.Client, endpointID string, last api.Job) string {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), reasonTime)
	defer done()
	if why := waitReason(ctx, c, endpointID, last); why != "" {
		return "; " + why
	}
	return ""
}

// maxUpdate limits a progress update in a line, in bytes.
const maxUpdate = 200

// progressUpdate is what the handler of a running job has said of its progress, in a line.
func progressUpdate(now api.Job) string {
	if now.Status != "IN_PROGRESS" || !hasOutput(now) {
		return ""
	}
	text := string(now.Output)
	_ = json.Unmarshal(now.Output, &text) // anything but text is shown as JSON
	return strings.ReplaceAll(logline.Shorten(strings.TrimSpace(text), maxUpdate), "\n", " ")
}

// unreadNote is a line about chunks that a job's output lacks; "" where there are none.
func unreadNote(ctx context.Context, c *api.Client, endpointID string, j api.Job, hint string) string {
	if output := string(j.Output); j.Status != "COMPLETED" || output != "" && output != "[]" {
		return ""
	}
	n, err := c.Jobs.Unread(ctx, endpointID, j.ID)
	if err != nil || n == 0 {
		return ""
	}
	return fmt.Sprintf("Its handler streamed %d chunks, which are not in the output (return_aggregate_stream adds them): %s", n, hint)
}

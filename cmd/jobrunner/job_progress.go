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

// progress returns a function that prints each change of a job's status on stderr, and on a
// terminal its progress updates, too.
func (d *deployment) progress(ctx context.Context, c *api.Client, endpointID string) func(api.Job) {
	printed, updates := "", cli.IsTerminal(os.Stderr) && !d.JSON
	return func(now api.Job) {
		line := fmt.Sprintf("job %s is %s", now.ID, now.Status)
		if why := waitReason(ctx, c, endpointID, now); why != "" {
			line += ": " + why
		}
		if update := progressUpdate(now); update != "" && updates {
			line += ": " + update
		}
		if line != printed && ctx.Err() == nil {
			fmt.Fprintln(stderr, line)
			printed = line
		}
	}
}

// waitReason returns why a waiting job's endpoint has no ready worker, or "".
func waitReason(ctx context.Context, c *api.Client, endpointID string, now api.Job) string {
	if now.Status != "IN_QUEUE" {
		return ""
	}
	reason, _, err := c.Jobs.StartFailure(ctx, endpointID)
	if err != nil || reason == "" {
		return ""
	}
	return "no worker is ready: " + reason
}

// reasonTime limits lastReason.
const reasonTime = 3 * time.Second

// lastReason returns waitReason as the end of a message, after the wait for the job was given up.
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

// progressUpdate returns the last progress update of a running job as one line, or "".
func progressUpdate(now api.Job) string {
	if now.Status != "IN_PROGRESS" || !hasOutput(now) {
		return ""
	}
	text := string(now.Output)
	_ = json.Unmarshal(now.Output, &text) // fails for other values, which are shown as JSON
	return strings.ReplaceAll(logline.Shorten(strings.TrimSpace(text), maxUpdate), "\n", " ")
}

// unreadNote returns a hint about chunks that a job's output lacks, or "".
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

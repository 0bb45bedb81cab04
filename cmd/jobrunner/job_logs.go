package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

type jobLogs struct {
	jobOf `embed:""`
	Lines int64 `default:"1000" help:"How many of the last lines of the worker's log to look at."`
	All   bool  `help:"Print these lines, also those about other jobs."`
}

// Help says how lines are chosen.
func (jobLogs) Help() string {
	return jobHelp + "Printed are the lines from the first to the last that name the job, without those that name another one.\n\nExample:\n  jobrunner job logs my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1"
}

// Run reads the log of the worker that has, or had, the job.
func (l *jobLogs) Run() error {
	if l.Lines < 1 {
		return refusedJob(fmt.Errorf("invalid --lines %d: expected at least 1", l.Lines))
	}
	return l.with(func(ctx context.Context, c *api.Client, endpointID string) error {
		j, err := c.Jobs.Status(ctx, endpointID, l.Job)
		switch {
		case err != nil:
			return err
		case j.WorkerID == "":
			return fmt.Errorf("job %s is %s: no worker has taken it", l.Job, j.Status)
		}
		lines, err := c.WorkerLog(ctx, endpointID, j.WorkerID, api.LogQuery{Tail: l.Lines, For: 30 * time.Second})
		if err != nil {
			return fmt.Errorf("the log of worker %s: %w", j.WorkerID, err)
		}
		if !l.All {
			lines = linesAbout(l.Job, lines)
		}
		for _, line := range lines {
			if l.JSON {
				err = printJSON(line)
			} else {
				_, err = fmt.Fprintf(stdout, "%s %s\n", line.Time, line.Text)
			}
			if err != nil {
				return err
			}
		}
		if len(lines) == 0 {
			fmt.Fprintf(stderr, "worker %s logged nothing that names job %s in its last %d lines; --all prints them\n", j.WorkerID, l.Job, l.Lines)
		}
		return nil
	})
}

// linesAbout chooses the lines from the first to the last that name the job, without
// those that name another one: what a handler prints names none.
func linesAbout(jobID string, lines []api.LogLine) (about []api.LogLine) {
	last := 0 // of about, those up to the last that names the job
	for _, line := range lines {
		switch logline.Parse(line.Text).Job {
		case jobID:
			about = append(about, line)
			last = len(about)
		case "":
			if last > 0 {
				about = append(about, line)
			}
		}
	}
	return about[:last]
}

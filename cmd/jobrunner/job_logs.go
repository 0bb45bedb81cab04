package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

type jobLogs struct {
	jobArgs `embed:""`
	Lines   int64 `default:"1000" help:"Number of last lines of the worker's log to search, at most 5000."`
	All     bool  `help:"Print all these lines, also of other jobs."`
}

// maxLogLines is the maximum number of lines that the API returns.
const maxLogLines = 5000

func (l *jobLogs) Run() error {
	if l.Lines < 1 || l.Lines > maxLogLines {
		return usageErrorf("invalid --lines: expected 1 to %d, got %d", maxLogLines, l.Lines)
	}
	return l.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		j, err := c.Jobs.Status(ctx, endpointID, l.Job)
		switch {
		case err != nil:
			return err
		case j.WorkerID == "":
			if reason := waitReason(ctx, c, endpointID, j); reason != "" {
				return fmt.Errorf("job %s is %s: no worker has taken it: %s", l.Job, j.Status, reason)
			}
			return fmt.Errorf("job %s is %s: no worker has taken it", l.Job, j.Status)
		}
		lines, err := c.WorkerLog(ctx, endpointID, j.WorkerID, api.LogQuery{Tail: l.Lines, MaxTime: 30 * time.Second})
		if err != nil {
			return fmt.Errorf("the log of worker %s: %w", j.WorkerID, err)
		}
		jobLines, hasStart := findJobLines(j, lines, l.hasAllLines(lines))
		if l.All {
			jobLines = lines
		}
		if err := l.print(jobLines); err != nil {
			return err
		}
		switch {
		case len(lines) == 0:
			fmt.Fprintf(stderr, "worker %s has logged nothing\n", j.WorkerID)
		case len(jobLines) == 0:
			fmt.Fprintf(stderr, "worker %s logged nothing that names job %s in its last %d lines; --all prints them%s\n", j.WorkerID, l.Job, len(lines), l.moreHint(lines))
		case !hasStart:
			fmt.Fprintf(stderr, "the beginning of job %s is not among the last %d lines of its worker's log%s\n", l.Job, len(lines), l.moreHint(lines))
		}
		return nil
	})
}

// moreHint returns a hint on how to get earlier lines.
func (l *jobLogs) moreHint(lines []api.LogLine) string {
	switch {
	case l.hasAllLines(lines):
		return ""
	case int64(len(lines)) < l.Lines:
		return "; the deployment keeps no earlier ones"
	case l.Lines == maxLogLines:
		return fmt.Sprintf("; %d is the maximum", maxLogLines)
	}
	return fmt.Sprintf("; --lines prints more, at most %d", maxLogLines)
}

// print prints lines as JSON, or in the form of jobrunner dev.
func (l *jobLogs) print(lines []api.LogLine) error {
	out := &terminal{minLevel: slog.LevelDebug, w: stdout}
	if !l.All {
		out.onlyJob = l.Job
	}
	for _, line := range lines {
		if l.JSON {
			if err := printJSON(line); err != nil {
				return err
			}
			continue
		}
		if line.Source == "system" {
			line.Text = run.SystemPrefix + line.Text
		}
		out.showLine(line.Time, "", line.Text)
	}
	return nil
}

func (l *jobLogs) hasAllLines(lines []api.LogLine) bool {
	if len(lines) == 0 {
		return true
	}
	if n := lines[0].Number; n != nil {
		return *n == 0
	}
	return int64(len(lines)) < l.Lines
}

// lateLineTime is how long after a job's end its lines may arrive: they come by a pipe, the result by HTTP.
const lateLineTime = time.Second

// findJobLines returns the lines of a job, from the first line that names it until its end. It
// includes lines that name no job, because handlers print such lines, and skips lines that name
// another job. hasAllLines means that the log has no earlier lines. hasStart is false if the job may have
// started before the first line. jobLines then begins with the first line.
func findJobLines(j api.Job, lines []api.LogLine, hasAllLines bool) (jobLines []api.LogLine, hasStart bool) {
	hasStart = hasAllLines || !beganBefore(j, lines)
	var withoutJob []api.LogLine // lines that name no job, since the last line that names this one
	firstTime := ""              // time of the first line that names the job
	beforeOtherJob := -1         // len(withoutJob) when a line named another job, or -1
	for _, line := range lines {
		switch jobOfLine(line, j) {
		case j.ID:
			if len(jobLines) > 0 || !hasStart {
				jobLines = append(jobLines, withoutJob...)
			}
			jobLines, withoutJob, beforeOtherJob = append(jobLines, line), nil, -1
			firstTime = cmp.Or(firstTime, line.Time)
		case "":
			withoutJob = append(withoutJob, line)
		default:
			if beforeOtherJob < 0 {
				beforeOtherJob = len(withoutJob)
			}
		}
	}
	switch {
	case len(jobLines) == 0:
		hasStart = true
	case !j.Finished(): // the handler, which still runs, printed them
		jobLines = append(jobLines, withoutJob...)
	default:
		jobLines = append(jobLines, linesUntilEnd(j, firstTime, withoutJob, beforeOtherJob)...)
	}
	return jobLines, hasStart
}

// linesUntilEnd returns the lines before the end of a job. A handler that dies logs no end, so linesUntilEnd
// computes it from the time of the job's first line. Late lines count, unless they follow a line of
// another job.
func linesUntilEnd(j api.Job, firstTime string, lines []api.LogLine, beforeOtherJob int) []api.LogLine {
	start, err := time.Parse(time.RFC3339Nano, firstTime)
	if err != nil {
		return nil
	}
	end := start.Add(milliseconds(j.ExecutionTime))
	for i, line := range lines {
		at, err := time.Parse(time.RFC3339Nano, line.Time)
		if beforeOtherJob < 0 || i < beforeOtherJob {
			at = at.Add(-lateLineTime)
		}
		if err != nil || at.After(end) {
			return lines[:i]
		}
	}
	return lines
}

// jobOfLine returns the id of the job that a line names, or "". A logger's field may name any job; in
// the text only j is recognized.
func jobOfLine(line api.LogLine, j api.Job) string {
	if line.Job != "" {
		return line.Job
	}
	if id := logline.Parse(line.Text).Job; id != "" || !strings.Contains(line.Text, j.ID) {
		return id
	}
	return j.ID
}

// beganBefore reports whether a job may have started before the first of these lines.
func beganBefore(j api.Job, lines []api.LogLine) bool {
	lastTime := ""
	for _, line := range lines {
		switch jobOfLine(line, j) {
		case j.ID:
			lastTime = line.Time
		case "":
		default:
			if lastTime == "" { // the worker had another job before
				return false
			}
		}
	}
	end, err := time.Parse(time.RFC3339Nano, lastTime)
	if err != nil || !j.Finished() {
		return true // unknown
	}
	logStart, err := time.Parse(time.RFC3339Nano, lines[0].Time)
	return err != nil || end.Add(-milliseconds(j.ExecutionTime)).Before(logStart)
}

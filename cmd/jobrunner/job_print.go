package main

import (
	"bytes"
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

func printJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n", text)
	return err
}

// show prints a job in any status, or returns err if the request for the job failed.
func (d *deploymentFlags) show(j api.Job, err error) error {
	switch {
	case err != nil:
		return err
	case d.JSON:
		return printJSON(j)
	}
	fmt.Fprintf(stdout, "job     %s\nstatus  %s\n", j.ID, j.Status)
	if j.WorkerID != "" {
		fmt.Fprintf(stdout, "worker  %s\n", j.WorkerID)
	}
	if j.Finished() && hasRun(j) { // the response to a cancel has no times
		fmt.Fprintf(stdout, "queued  %s\nran     %s\n", milliseconds(j.DelayTime), milliseconds(j.ExecutionTime))
	}
	if j.Retries > 0 {
		fmt.Fprintf(stdout, "retries %d\n", j.Retries)
	}
	if reason := cause(j); reason != "" {
		fmt.Fprintf(stdout, "error   %s\n", reason)
	}
	if hasOutput(j) {
		fmt.Fprintf(stdout, "output\n%s\n", prettyOutput(j))
	}
	return nil
}

// printEnd prints the output of a job that has ended, and returns its exit status.
func (d *deploymentFlags) printEnd(j api.Job) error {
	switch {
	case d.JSON:
		_ = printJSON(j) // verdict reports a failed write
	case j.Status == "COMPLETED" && !hasOutput(j):
		fmt.Fprintln(stderr, noOutputHint)
	case hasOutput(j) && (j.Status == "COMPLETED" || j.Status == "FAILED"): // in other states, the output is the last progress update
		fmt.Fprintln(stdout, prettyOutput(j))
	}
	return verdict(j)
}

// noOutputHint is a hint about a COMPLETED job without output, which is usually a mistake.
const noOutputHint = "It has no output: a handler on the SDK must return it, any other program must print it as one line of valid JSON (without NaN)"

// tail prints the chunks of a job until its end. If it has none, tail prints its output.
func (d *deploymentFlags) tail(ctx context.Context, c *api.Client, endpointID, jobID string) (api.Job, error) {
	printer := chunkPrinter{asJSON: d.JSON}
	j, err := c.Jobs.Stream(ctx, endpointID, jobID, d.progress(ctx, c, endpointID), printer.print)
	printer.end()
	switch {
	case err != nil:
	case printer.hasPrinted:
		j.Output = nil // already printed as chunks
	case hasOutput(j) && !d.JSON:
		fmt.Fprintln(stdout, prettyOutput(j))
	}
	return j, err
}

// finishTail ends a command that called tail. It prints the job with --json, and returns its exit status.
func (d *deploymentFlags) finishTail(j api.Job, err error) error {
	if err != nil {
		return &exitError{exitNoResult, err.Error()}
	}
	if d.JSON {
		_ = printJSON(j) // verdict reports a failed write
	}
	return verdict(j)
}

// chunkPrinter prints text chunks unchanged, and other chunks as a line of JSON.
type chunkPrinter struct {
	asJSON     bool
	hasPrinted bool // a chunk was printed
	inLine     bool // the last chunk was text without a line break at its end
}

func (p *chunkPrinter) print(c api.Chunk) error {
	p.hasPrinted = true
	var text string
	switch {
	case p.asJSON:
		return printJSON(c)
	case string(c.Output) != "null" && json.Unmarshal(c.Output, &text) == nil:
		p.inLine = p.inLine && text == "" || text != "" && !strings.HasSuffix(text, "\n")
		_, err := fmt.Fprint(stdout, text)
		return err
	}
	p.end()
	_, err := fmt.Fprintf(stdout, "%s\n", c.Output)
	return err
}

func (p *chunkPrinter) end() {
	if p.inLine {
		fmt.Fprintln(stdout)
	}
	p.inLine = false
}

// describe returns a job's result as human-readable text.
func describe(j api.Job) string {
	text := fmt.Sprintf("%s in %s, after %s in the queue (job %s)", j.Status, milliseconds(j.ExecutionTime), milliseconds(j.DelayTime), j.ID)
	if !hasRun(j) {
		text = fmt.Sprintf("%s before it ran (job %s)", j.Status, j.ID)
	}
	if reason := cause(j); reason != "" {
		text += "\n" + reason
	}
	if hasOutput(j) {
		text += "\n" + prettyOutput(j)
	}
	return text
}

// hasRun reports whether a worker had the job before its end.
func hasRun(j api.Job) bool { return j.WorkerID != "" || j.ExecutionTime > 0 }

// cause returns why a job failed: its error, or the limit that it exceeded.
func cause(j api.Job) string {
	switch {
	case j.Error != "":
		return logline.ReadableFailure(string(j.Error))
	case j.Status != "TIMED_OUT":
		return ""
	case hasRun(j):
		return fmt.Sprintf("it ran for %s, until its execution time-out (policy.executionTimeout of the job, or the endpoint's)", milliseconds(j.ExecutionTime))
	}
	return "it never ran before its time to live expired (policy.ttl of the job, or the deployment's)"
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func hasOutput(j api.Job) bool { return len(j.Output) > 0 }

func prettyOutput(j api.Job) string {
	var out bytes.Buffer
	if json.Indent(&out, j.Output, "", "  ") != nil {
		return string(j.Output)
	}
	return out.String()
}

// verdict returns a job's exit status as an error, or nil if it is COMPLETED and its output was written.
func verdict(j api.Job) error {
	status := map[string]int{"FAILED": exitFailed, "TIMED_OUT": exitTimedOut}[j.Status]
	switch {
	case j.Status == "COMPLETED":
		if err := stdout.failure(); err != nil {
			return &exitError{exitNoResult, err.Error()}
		}
		return nil
	case status == 0:
		status = exitNoResult
	}
	text := "the job is " + j.Status
	if reason := cause(j); reason != "" {
		text += ": " + reason
	}
	return &exitError{status, text}
}

// progress returns a function that prints changes of a job's status and, on a terminal, its progress.
func (d *deploymentFlags) progress(ctx context.Context, c *api.Client, endpointID string) func(api.Job) {
	lastLine, showUpdates := "", cli.IsTerminal(os.Stderr) && !d.JSON
	return func(j api.Job) {
		line := fmt.Sprintf("job %s is %s", j.ID, j.Status)
		if reason := waitReason(ctx, c, endpointID, j); reason != "" {
			line += ": " + reason
		}
		if update := progressUpdate(j); update != "" && showUpdates {
			line += ": " + update
		}
		if line != lastLine && ctx.Err() == nil {
			fmt.Fprintln(stderr, line)
			lastLine = line
		}
	}
}

// waitReason returns why a waiting job's endpoint has no ready worker, or "".
func waitReason(ctx context.Context, c *api.Client, endpointID string, j api.Job) string {
	if j.Status != "IN_QUEUE" {
		return ""
	}
	reason, _, err := c.Jobs.StartFailure(ctx, endpointID)
	if err != nil || reason == "" {
		return ""
	}
	return "no worker is ready: " + reason
}

// maxUpdate limits a progress update in a line, in bytes.
const maxUpdate = 200

// progressUpdate returns the last progress update of a running job as one line, or "".
func progressUpdate(j api.Job) string {
	if j.Status != "IN_PROGRESS" || !hasOutput(j) {
		return ""
	}
	text := string(j.Output)
	_ = json.Unmarshal(j.Output, &text) // fails for values that aren't strings, which are shown as JSON
	return strings.ReplaceAll(logline.Shorten(strings.TrimSpace(text), maxUpdate), "\n", " ")
}

// unreadNote returns a hint about chunks that a job's output lacks, or "".
func unreadNote(ctx context.Context, c *api.Client, endpointID string, j api.Job, hint string) string {
	if output := string(j.Output); j.Status != "COMPLETED" || output != "" && output != "[]" {
		return ""
	}
	n, err := c.Jobs.UnreadChunks(ctx, endpointID, j.ID)
	if err != nil || n == 0 {
		return ""
	}
	return fmt.Sprintf("Its handler streamed %d chunks, which are not in the output (return_aggregate_stream adds them): %s", n, hint)
}

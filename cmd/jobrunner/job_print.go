package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
)

// printJSON prints a value for programs, as a line.
func printJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n", text)
	return err
}

// show prints a job, whatever its status.
func (d *deployment) show(j api.Job) error {
	if d.JSON {
		return printJSON(j)
	}
	fmt.Fprintf(stdout, "job     %s\nstatus  %s\n", j.ID, j.Status)
	if j.WorkerID != "" {
		fmt.Fprintf(stdout, "worker  %s\n", j.WorkerID)
	}
	if j.Finished() {
		fmt.Fprintf(stdout, "queued  %s\nran     %s\n", milliseconds(j.DelayTime), milliseconds(j.ExecutionTime))
	}
	if j.Retries > 0 {
		fmt.Fprintf(stdout, "retries %d\n", j.Retries)
	}
	if j.Error != "" {
		fmt.Fprintf(stdout, "error   %s\n", logline.Failure(j.Error))
	}
	if hasOutput(j) {
		fmt.Fprintf(stdout, "output\n%s\n", prettyOutput(j))
	}
	return nil
}

// printEnd prints the output of a job that has ended, and returns its exit status.
func (d *deployment) printEnd(j api.Job) error {
	switch {
	case d.JSON:
		if err := printJSON(j); err != nil {
			return err
		}
	case hasOutput(j):
		fmt.Fprintln(stdout, prettyOutput(j))
	}
	return verdict(j)
}

// tail prints the chunks of a job until its end.
func (d *deployment) tail(ctx context.Context, c *api.Client, endpointID, jobID string) (api.Job, error) {
	out := chunks{asJSON: d.JSON}
	defer out.end()
	return c.Jobs.Stream(ctx, endpointID, jobID, out.print)
}

// verdictOf is the exit status of a job whose chunks are printed.
func (d *deployment) verdictOf(j api.Job, err error) error {
	if err != nil {
		return &exitError{exitNoResult, err.Error()}
	}
	if d.JSON {
		j.Output = nil // its chunks were printed
		if err := printJSON(j); err != nil {
			return err
		}
	}
	return verdict(j)
}

// chunks prints text as it is, and anything else as a line of JSON.
type chunks struct {
	asJSON bool
	inLine bool // text was printed last, without a line break at its end
}

func (p *chunks) print(c api.Chunk) error {
	var text string
	switch {
	case p.asJSON:
		return printJSON(c)
	case json.Unmarshal(c.Output, &text) == nil:
		p.inLine = p.inLine && text == "" || text != "" && !strings.HasSuffix(text, "\n")
		_, err := fmt.Fprint(stdout, text)
		return err
	}
	p.end()
	_, err := fmt.Fprintf(stdout, "%s\n", c.Output)
	return err
}

// end ends a line of text.
func (p *chunks) end() {
	if p.inLine {
		fmt.Fprintln(stdout)
	}
	p.inLine = false
}

// describe describes a job's end for people.
func describe(j api.Job) string {
	text := fmt.Sprintf("%s in %s, after %s in the queue (job %s)", j.Status, milliseconds(j.ExecutionTime), milliseconds(j.DelayTime), shortID(j.ID))
	if j.Error != "" {
		text += "\n" + logline.Failure(j.Error)
	}
	if hasOutput(j) {
		text += "\n" + prettyOutput(j)
	}
	return text
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

// verdict is a job's exit status as an error; nil is COMPLETED.
func verdict(j api.Job) error {
	status := map[string]int{"FAILED": exitFailed, "TIMED_OUT": exitTimedOut}[j.Status]
	switch {
	case j.Status == "COMPLETED":
		return nil
	case status == 0:
		status = exitNoResult
	}
	text := "the job is " + j.Status
	if j.Error != "" {
		text += ": " + logline.Failure(j.Error)
	}
	return &exitError{status, text}
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// jobBatch is a client of batches.
type jobBatch struct {
	Run     runBatch     `cmd:"" help:"Create a batch from the inputs in a file, run it, and print its results."`
	List    listBatches  `cmd:"" help:"List the batches of an endpoint, newest first."`
	Status  batchStatus  `cmd:"" help:"Print a batch's status and numbers of requests."`
	Results batchResults `cmd:"" help:"Print a batch's requests with their results, a line of JSON each."`
	Cancel  cancelBatch  `cmd:"" help:"Cancel a batch: delete its queued requests and let running ones finish."`
}

// Help has an example.
func (jobBatch) Help() string {
	return jobHelp + "A batch runs up to 5,000 requests on separate workers (docs/guides/batch.md).\n\nExample:\n  jobrunner job batch run my-endpoint inputs.jsonl --name nightly > results.jsonl"
}

type batchOf struct {
	deployment `embed:""`
	Endpoint   string `arg:"" help:"Id or name of the endpoint."`
	Batch      string `arg:"" help:"Id of the batch."`
}

type runBatch struct {
	deployment `embed:""`
	Endpoint   string `arg:"" help:"Id or name of the endpoint."`
	Inputs     string `arg:"" help:"File with the input of a request in each line, a JSON object; - for stdin."`
	Name       string `help:"Name of the batch."`
	Detach     bool   `help:"Print the batch's id and don't wait for its end."`
}

// Help has the details and examples.
func (runBatch) Help() string {
	return jobHelp + `After Ctrl-C the batch continues.

Examples:
  jobrunner job batch run my-endpoint inputs.jsonl > results.jsonl
  jobrunner job batch run my-endpoint inputs.jsonl --name nightly --detach

Exit status: 0 all requests are COMPLETED, 1 some aren't, 2 the batch was rejected, 4 anything else.`
}

// maxBatchCall is the maximum size of the inputs in a call, below the API's limit of 10 MiB.
const maxBatchCall = 8 << 20

// Run creates the batch and waits for its end.
func (r *runBatch) Run() error {
	inputs, err := readInputs(r.Inputs)
	if err != nil {
		return rejected(err)
	}
	return r.with(r.Endpoint, func(ctx context.Context, c *api.Client, endpointID string) error {
		b, err := r.create(ctx, c, endpointID, inputs)
		if err != nil {
			return rejected(err)
		}
		if r.Detach {
			return r.showBatch(b, b.ID)
		}
		fmt.Fprintf(stderr, "batch %s has %d requests\n", b.ID, b.Total)
		if b, err = awaitBatch(ctx, c, endpointID, b); err != nil {
			return &exitError{exitNoResult, fmt.Sprintf("batch %s continues: %s; %s prints its results", b.ID, err, commandLine("jobrunner", "job", "batch", "results", r.Endpoint, b.ID))}
		}
		if err := printRequests(ctx, c, endpointID, b.ID); err != nil {
			return &exitError{exitNoResult, err.Error()}
		}
		if b.Completed < b.Total {
			return &exitError{exitFailed, fmt.Sprintf("batch %s is %s: %d of %d requests COMPLETED", b.ID, b.Status, b.Completed, b.Total)}
		}
		return nil
	})
}

// create creates, fills and finalizes the batch. If a step fails, it cancels the batch.
func (r *runBatch) create(ctx context.Context, c *api.Client, endpointID string, inputs []json.RawMessage) (b api.Batch, err error) {
	if b, err = c.Jobs.CreateBatch(ctx, endpointID); err != nil {
		return b, err
	}
	id := b.ID
	if r.Name != "" {
		_, err = c.Jobs.RenameBatch(ctx, endpointID, id, r.Name)
	}
	for first, size, i := 0, 0, 0; i < len(inputs) && err == nil; i++ {
		size += len(inputs[i]) + len(`{"input":},`)
		if i+1 == len(inputs) || size+len(inputs[i+1]) > maxBatchCall {
			_, err = c.Jobs.AddRequests(ctx, endpointID, id, inputs[first:i+1])
			first, size = i+1, 0
		}
	}
	if err == nil {
		b, err = c.Jobs.FinalizeBatch(ctx, endpointID, id)
	}
	if err != nil {
		cancelling, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer done()
		_, cancelErr := c.Jobs.CancelBatch(cancelling, endpointID, id)
		err = errors.Join(err, cancelErr)
	}
	return b, err
}

// readInputs reads a JSON object from each line that isn't empty.
func readInputs(file string) (inputs []json.RawMessage, err error) {
	var from io.Reader = os.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	lines := bufio.NewReader(from)
	for n := 1; ; n++ {
		line, readErr := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if line[0] != '{' || !json.Valid(line) {
				return nil, fmt.Errorf("%s: line %d isn't a JSON object, such as {\"text\": \"hello\"}", file, n)
			}
			inputs = append(inputs, line)
		}
		switch {
		case errors.Is(readErr, io.EOF) && len(inputs) == 0:
			return nil, fmt.Errorf("%s has no input: write a JSON object in each line", file)
		case errors.Is(readErr, io.EOF):
			return inputs, nil
		case readErr != nil:
			return nil, fmt.Errorf("%s: %w", file, readErr)
		}
	}
}

// awaitBatch waits for the end of all requests of a batch and prints its progress.
func awaitBatch(ctx context.Context, c *api.Client, endpointID string, b api.Batch) (api.Batch, error) {
	printed := ""
	for wait := 250 * time.Millisecond; !b.Done(); wait = min(wait*3/2, 5*time.Second) {
		if line := fmt.Sprintf("batch %s: %d of %d requests have ended", b.ID, b.Completed+b.Failed, b.Total); line != printed {
			fmt.Fprintln(stderr, line)
			printed = line
		}
		if err := httpclient.Sleep(ctx, wait); err != nil {
			return b, errors.New("interrupted")
		}
		now, err := c.Jobs.Batch(ctx, endpointID, b.ID)
		if err != nil {
			return b, err
		}
		b = now
	}
	return b, nil
}

func printRequests(ctx context.Context, c *api.Client, endpointID, batchID string) error {
	return c.Jobs.BatchRequests(ctx, endpointID, batchID, func(one api.BatchRequest) error { return printJSON(one) })
}

// showBatch prints a batch as JSON with --json, otherwise a text.
func (d *deployment) showBatch(b api.Batch, text string) error {
	if d.JSON {
		return printJSON(b)
	}
	_, err := fmt.Fprintln(stdout, text)
	return err
}

func describeBatch(b api.Batch) string {
	text := fmt.Sprintf("batch      %s\n", b.ID)
	if b.Name != "" {
		text += fmt.Sprintf("name       %s\n", b.Name)
	}
	return text + fmt.Sprintf("status     %s\nrequests   %d\nrunning    %d\ncompleted  %d\nfailed     %d", b.Status, b.Total, b.InProgress, b.Completed, b.Failed)
}

type listBatches struct {
	deployment `embed:""`
	Endpoint   string `arg:"" help:"Id or name of the endpoint."`
}

// Help has an example.
func (listBatches) Help() string {
	return jobHelp + "Example:\n  jobrunner job batch list my-endpoint"
}

// Run lists the batches.
func (l *listBatches) Run() error {
	return l.with(l.Endpoint, func(ctx context.Context, c *api.Client, endpointID string) error {
		all, err := c.Jobs.Batches(ctx, endpointID)
		if err != nil {
			return err
		}
		for _, b := range all {
			line := fmt.Sprintf("%s  %-9s  %d of %d requests have ended", b.ID, b.Status, b.Completed+b.Failed, b.Total)
			if b.Name != "" {
				line += "  " + b.Name
			}
			if err := l.showBatch(b, line); err != nil {
				return err
			}
		}
		return nil
	})
}

type batchStatus struct {
	batchOf `embed:""`
}

// Help has an example.
func (batchStatus) Help() string {
	return jobHelp + "Example:\n  jobrunner job batch status my-endpoint 01a20ee2-b476-7200-b70b-92030390656b"
}

// Run prints the summary.
func (s *batchStatus) Run() error {
	return s.with(s.Endpoint, func(ctx context.Context, c *api.Client, endpointID string) error {
		b, err := c.Jobs.Batch(ctx, endpointID, s.Batch)
		if err != nil {
			return err
		}
		return s.showBatch(b, describeBatch(b))
	})
}

type batchResults struct {
	batchOf `embed:""`
}

// Help has an example.
func (batchResults) Help() string {
	return jobHelp + "Example:\n  jobrunner job batch results my-endpoint 01a20ee2-b476-7200-b70b-92030390656b"
}

// Run prints the results.
func (r *batchResults) Run() error {
	return r.with(r.Endpoint, func(ctx context.Context, c *api.Client, endpointID string) error {
		return printRequests(ctx, c, endpointID, r.Batch)
	})
}

type cancelBatch struct {
	batchOf `embed:""`
}

// Help has an example.
func (cancelBatch) Help() string {
	return jobHelp + "Example:\n  jobrunner job batch cancel my-endpoint 01a20ee2-b476-7200-b70b-92030390656b"
}

// Run cancels the batch.
func (b *cancelBatch) Run() error {
	return b.with(b.Endpoint, func(ctx context.Context, c *api.Client, endpointID string) error {
		now, err := c.Jobs.CancelBatch(ctx, endpointID, b.Batch)
		if err != nil {
			return err
		}
		return b.showBatch(now, describeBatch(now))
	})
}

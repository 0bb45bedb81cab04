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
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// jobBatch is the group of the commands for batches.
type jobBatch struct {
	Run     runBatch     `cmd:"" help:"Create a batch from the inputs in a file, run it, and print its results."`
	List    listBatches  `cmd:"" help:"List the batches of an endpoint, newest first."`
	Status  batchStatus  `cmd:"" help:"Print a batch's status and numbers of requests."`
	Results batchResults `cmd:"" help:"Print a batch's requests with their results, a line of JSON each."`
	Cancel  cancelBatch  `cmd:"" help:"Cancel the queued requests of a batch and let running ones finish."`
}

type batchArgs struct {
	endpointArgs `embed:""`
	Batch        string `arg:"" help:"Id of the batch."`
}

type runBatch struct {
	endpointArgs `embed:""`
	Inputs       string `arg:"" help:"File with one JSON object per line, each the input of a request; - for stdin."`
	Name         string `help:"Name of the batch."`
	Detach       bool   `help:"Print the batch's id and don't wait for its end."`
}

// maxBatchCall is the maximum size of several inputs in a call; a larger input is sent alone.
const maxBatchCall = 8 << 20

// maxInput is the maximum length of a line. It equals the API's limit for a body, so the API still rejects
// lines that are only slightly shorter.
const maxInput = 10 << 20

const maxInputs = 5000 // the API's limit for a batch

func (r *runBatch) Run() error {
	inputs, err := readInputs(r.Inputs)
	if err != nil {
		return notStarted(err)
	}
	return r.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		b, err := r.create(ctx, c, endpointID, inputs)
		if err != nil {
			return notStarted(err)
		}
		if r.Detach {
			return r.showBatch(b, b.ID)
		}
		fmt.Fprintf(stderr, "batch %s, requests: %d\n", b.ID, b.Total)
		if b, err = awaitBatch(ctx, c, endpointID, b); err != nil {
			return &exitError{exitNoResult, fmt.Sprintf("the wait for batch %s ended: %s; the batch continues; to print its results: %s", b.ID, err, commandLine("jobrunner", "job", "batch", "results", r.Endpoint, b.ID))}
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
		cancelCtx, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer done()
		_, cancelErr := c.Jobs.CancelBatch(cancelCtx, endpointID, id)
		err = errors.Join(err, cancelErr)
	}
	return b, err
}

// readInputs reads a JSON object from each line that isn't empty.
func readInputs(file string) (inputs []json.RawMessage, err error) {
	source := os.Stdin
	if file != "-" {
		if source, err = os.Open(file); err != nil {
			return nil, err
		}
		defer func() { _ = source.Close() }()
	}
	lines := bufio.NewReaderSize(source, maxInput)
	for n := 1; ; n++ {
		line, readErr := lines.ReadSlice('\n')
		if errors.Is(readErr, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("%s: line %d is longer than %d MiB, the limit of the API: send a URL instead", file, n, maxInput>>20)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if line[0] != '{' || !json.Valid(line) || !utf8.Valid(line) {
				return nil, fmt.Errorf("%s: line %d isn't a JSON object in UTF-8, such as {\"text\": \"hello\"}", file, n)
			}
			inputs = append(inputs, bytes.Clone(line))
		}
		switch {
		case len(inputs) > maxInputs:
			return nil, fmt.Errorf("%s has more than %d inputs, the limit of a batch", file, maxInputs)
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
	lastLine := ""
	err := api.Poll(ctx, func() (done bool, err error) {
		latest, err := c.Jobs.Batch(ctx, endpointID, b.ID)
		if err != nil {
			return false, err
		}
		b = latest
		if line := fmt.Sprintf("batch %s: %d of %d requests have ended", b.ID, b.Completed+b.Failed, b.Total); line != lastLine && !b.Finished() {
			fmt.Fprintln(stderr, line)
			lastLine = line
		}
		return b.Finished(), nil
	})
	return b, err
}

func printRequests(ctx context.Context, c *api.Client, endpointID, batchID string) error {
	return c.Jobs.BatchRequests(ctx, endpointID, batchID, func(request api.BatchRequest) error { return printJSON(request) })
}

// showBatch prints a batch as JSON with --json, otherwise a text.
func (d *deploymentFlags) showBatch(b api.Batch, text string) error {
	if d.JSON {
		return printJSON(b)
	}
	_, err := fmt.Fprintln(stdout, text)
	return err
}

// describeBatch prints a batch's fields, without its requests. If the HTTP call failed, it returns err.
func (d *deploymentFlags) describeBatch(b api.Batch, err error) error {
	if err != nil {
		return err
	}
	text := fmt.Sprintf("batch      %s\n", b.ID)
	if b.Name != "" {
		text += fmt.Sprintf("name       %s\n", b.Name)
	}
	text += fmt.Sprintf("status     %s\nrequests   %d\nrunning    %d\ncompleted  %d\nfailed     %d", b.Status, b.Total, b.InProgress, b.Completed, b.Failed)
	return d.showBatch(b, text)
}

type listBatches struct{ endpointArgs }

func (l *listBatches) Run() error {
	return l.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		batches, err := c.Jobs.Batches(ctx, endpointID)
		if err != nil {
			return err
		}
		for _, b := range batches {
			line := fmt.Sprintf("%s  %-9s  %d requests: %d completed, %d failed", b.ID, b.Status, b.Total, b.Completed, b.Failed)
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

type batchStatus struct{ batchArgs }

func (s *batchStatus) Run() error {
	return s.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		return s.describeBatch(c.Jobs.Batch(ctx, endpointID, s.Batch))
	})
}

type batchResults struct{ batchArgs }

func (r *batchResults) Run() error {
	return r.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		return printRequests(ctx, c, endpointID, r.Batch)
	})
}

type cancelBatch struct{ batchArgs }

func (b *cancelBatch) Run() error {
	return b.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		return b.describeBatch(c.Jobs.CancelBatch(ctx, endpointID, b.Batch))
	})
}

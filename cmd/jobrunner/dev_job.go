package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/logline"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/notify"
)

// The exit statuses of dev --once and job.
const (
	exitFailed     = 1 // the job, the batch or a check of doctor failed
	exitNotStarted = 2 // no worker can start, or the input is invalid
	exitTimedOut   = 3
	exitNoResult   = 4 // cancelled or expired, or any other failure
)

// exitError ends the process with a status.
type exitError struct {
	status int
	text   string
}

func (e *exitError) Error() string { return e.text }

// submissionOf creates a job's submission from --input: JSON, the name of a JSON file, or - for stdin.
func submissionOf(input string) ([]byte, error) {
	text := []byte(strings.TrimSpace(input))
	if !bytes.HasPrefix(text, []byte("{")) {
		content, err := flagfile.Read(input)
		if input == "-" {
			content, err = flagfile.ReadFrom(input, os.Stdin)
		}
		switch {
		case err == nil:
			text = content
		case !json.Valid(text):
			return nil, fmt.Errorf("invalid --input %s: expected a JSON object or a file: %w", input, err)
		}
	}
	text = bytes.TrimSpace(text)
	var members map[string]json.RawMessage
	switch err := json.Unmarshal(text, &members); {
	case json.Valid(text) && text[0] != '{':
		return nil, fmt.Errorf("invalid --input %s: expected a JSON object such as {\"prompt\": \"hello\"}, or a file that has one", input)
	case err != nil:
		return nil, fmt.Errorf("invalid --input %s: expected a JSON object, in UTF-8 without a byte order mark: %w", input, err)
	}
	if nested, ok := members["input"]; ok && bytes.HasPrefix(bytes.TrimSpace(nested), []byte("{")) {
		return text, nil
	}
	return json.Marshal(map[string]json.RawMessage{"input": text})
}

func (e *devEndpoint) submit(ctx context.Context, input string) (job api.Job, err error) {
	s, err := decodeSubmission(input)
	if err != nil {
		return job, notStarted(err)
	}
	if job, err = e.client.Jobs.Run(ctx, e.id, s); err != nil {
		return job, notStarted(fmt.Errorf("the job was refused: %w", err))
	}
	return job, nil
}

const (
	pollInterval    = 25 * time.Millisecond // of await
	pollsBeforeHint = 400                   // polls of a queued job after which await --once explains the wait
)

// await waits for a job's end and shows its progress. With once it fails if no worker can start.
func (e *devEndpoint) await(ctx context.Context, job api.Job, once bool, out *terminal) (api.Job, error) {
	lastUpdate, polls := "", 0
	for !job.Finished() {
		if err := httpclient.Sleep(ctx, pollInterval); err != nil {
			return job, err
		}
		latest, err := e.client.Jobs.Status(ctx, e.id, job.ID)
		if err != nil {
			return job, err
		}
		job = latest
		if update := progressUpdate(job); update != "" && update != lastUpdate {
			out.show("JOB", "", "progress: "+update)
			lastUpdate = update
		}
		if once && job.Status == "IN_QUEUE" {
			// While another worker starts, await waits: loading a large model may take minutes.
			if reason, starting, err := e.client.Jobs.StartFailure(ctx, e.id); err == nil && reason != "" && !starting {
				return job, &exitError{exitNotStarted, "the handler does not start: " + reason}
			}
			if polls++; polls == pollsBeforeHint {
				out.show("DEV", "", "the job waits: the worker hasn't requested a job yet, so it may still be starting")
			}
		}
	}
	return job, nil
}

// awaitRollout waits until all workers of older versions have ended.
func (e *devEndpoint) awaitRollout(ctx context.Context) error {
	for {
		list, err := e.client.EndpointWorkers(ctx, e.id)
		if err != nil || !slices.ContainsFunc(list.Workers, func(w api.Worker) bool { return w.IsStale }) {
			return err
		}
		if err := httpclient.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// jobLoop sends a job at each resubmit and shows its result. It cancels the previous job if that still runs.
type jobLoop struct {
	e        *devEndpoint
	input    string
	out      *terminal
	observer *jobObserver
	stop     context.CancelFunc // cancels the job in flight
	done     chan struct{}      // closed when that job has ended
}

func (l *jobLoop) resubmit(ctx context.Context) {
	if l.stop != nil {
		l.stop()
		<-l.done
	}
	jobCtx, stop := context.WithCancel(ctx)
	l.stop, l.done = stop, make(chan struct{})
	go func() {
		defer close(l.done)
		var job api.Job
		err := l.e.awaitRollout(jobCtx)
		if err == nil {
			job, err = l.observer.sendOwn(func() (api.Job, error) { return l.e.submit(jobCtx, l.input) })
		}
		if err == nil {
			l.out.show("JOB", "", "sent (job "+job.ID+")")
			job, err = l.e.await(jobCtx, job, false, l.out)
		}
		switch {
		case ctx.Err() != nil: // the program ends
		case jobCtx.Err() != nil && job.ID != "":
			ctx, cancel := context.WithTimeout(context.WithoutCancel(jobCtx), 5*time.Second)
			defer cancel()
			if _, err := l.e.client.Jobs.Cancel(ctx, l.e.id, job.ID); err == nil { // fails if it has ended
				l.out.show("JOB", "", "cancelled, because the file changed (job "+job.ID+")")
			}
		case jobCtx.Err() != nil:
		case err != nil:
			l.out.show("ERROR", "", err.Error())
		default:
			l.out.show("JOB", "", describe(job)+l.e.outputHint(ctx, job, "jobrunner job run --tail shows them"))
		}
	}()
}

// runOnce sends one job and returns its verdict as the exit status. A program that runs per job must print an
// output, because a file that only defines a handler exits with 0, too.
func (e *devEndpoint) runOnce(ctx context.Context, input string, perJob bool, out *terminal) error {
	job, err := e.submit(ctx, input)
	if err == nil {
		job, err = e.await(ctx, job, true, out)
	}
	switch {
	case ctx.Err() != nil:
		return &exitError{exitNoResult, "interrupted"}
	case err != nil:
		return err
	}
	out.show("JOB", "", fmt.Sprintf("%s in %s", job.Status, milliseconds(job.ExecutionTime))+e.outputHint(ctx, job, "to see them, start jobrunner dev without --once and send the job with jobrunner job run --tail"))
	if hasOutput(job) {
		fmt.Fprintln(stdout, prettyOutput(job))
	} else if perJob && job.Status == "COMPLETED" {
		return &exitError{exitNoResult, "the program ended without an output: print one line of JSON, or, for a handler on the SDK, call runpod.serverless.start"}
	}
	return verdict(job)
}

// outputHint returns a hint if a COMPLETED job has no output or unread chunks. chunksHint says how to see the chunks.
func (e *devEndpoint) outputHint(ctx context.Context, job api.Job, chunksHint string) string {
	if note := unreadNote(ctx, e.client, e.id, job, chunksHint); note != "" {
		return "\n" + note
	}
	if job.Status != "COMPLETED" || hasOutput(job) {
		return ""
	}
	return "\n" + noOutputHint
}

// jobObserver shows how clients' jobs end.
type jobObserver struct {
	ends    chan engine.Event
	started chan struct{} // signals that a job has started

	mu        sync.Mutex      // held while dev sends a job
	sentByDev map[string]bool // by job id
}

const (
	maxEnds     = 1000 // queued events; further ones are dropped
	maxHeadline = 2000 // bytes of the error of a client's job
)

// observe signals that a job has started, or queues its end for show.
func (j *jobObserver) observe(e engine.Event) {
	if e.To == engine.InProgress {
		notify.Signal(j.started)
	}
	if !e.To.Terminal() {
		return
	}
	select {
	case j.ends <- e:
	default:
	}
}

// sendOwn sends a job of dev itself. show leaves out its end, because jobLoop shows its whole result.
func (j *jobObserver) sendOwn(send func() (api.Job, error)) (api.Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	job, err := send()
	j.sentByDev[job.ID] = true
	return job, err
}

// show shows the ends of clients' jobs until ctx ends. It leaves out the jobs' outputs.
func (j *jobObserver) show(ctx context.Context, e *devEndpoint, out *terminal) {
	showLine := func(id, text string) { out.showLine(now(), id, text) }
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.started:
			out.repeats.release(false, showLine)
		case event := <-j.ends:
			if event.To == engine.Completed {
				out.repeats.release(true, showLine)
			}
			j.mu.Lock()
			isOwn := j.sentByDev[event.Job]
			j.mu.Unlock()
			if isOwn {
				continue
			}
			job, err := e.client.Jobs.Status(ctx, e.id, event.Job)
			if err != nil {
				continue // the job has expired, or the program ends
			}
			job.Output, job.Error = nil, httpclient.FreeText(logline.Shorten(logline.Headline(string(job.Error)), maxHeadline))
			out.show("JOB", "", describe(job))
		}
	}
}

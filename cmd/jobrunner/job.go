package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// job is a client of the job API of any deployment.
type job struct {
	Run    runJob    `cmd:"" help:"Send a job, wait for its end, and print its output on stdout."`
	Status jobStatus `cmd:"" help:"Print a job's status, times, error and output."`
	Tail   tailJob   `cmd:"" help:"Print the chunks that a job's handler yields, as they arrive, until the job ends."`
	Logs   jobLogs   `cmd:"" help:"Print the job's part of its worker's log."`
	Cancel cancelJob `cmd:"" help:"Stop a job, or remove it from the queue."`
	Retry  retryJob  `cmd:"" help:"Queue a FAILED or TIMED_OUT job again."`
	Purge  purgeJobs `cmd:"" help:"Remove the jobs that wait for a worker."`
	Batch  jobBatch  `cmd:"" help:"Run many jobs as a batch, on separate workers."`
}

type endpointArgs struct {
	deploymentFlags `embed:""`
	Endpoint        string `arg:"" help:"Id or name of the endpoint."`
}

type jobArgs struct {
	endpointArgs `embed:""`
	Job          string `arg:"" help:"Id of the job."`
}

type runJob struct {
	endpointArgs     `embed:""`
	Input            string        `default:"{}" placeholder:"FILE|JSON|-" help:"Input of the job: a JSON object, a file that has one, or - for stdin."`
	Detach           bool          `xor:"wait" help:"Print the job's id and don't wait for its end."`
	Tail             bool          `xor:"wait" help:"Print the chunks that the handler yields, as they arrive, instead of the output."`
	Timeout          time.Duration `default:"10m" help:"How long to wait for the end. Then, as on Ctrl-C, the job is cancelled."`
	Webhook          string        `placeholder:"URL" help:"Address that the deployment calls when the job ends."`
	ExecutionTimeout time.Duration `placeholder:"DURATION" help:"How long the job may run, at least 5s. Default: the endpoint's."`
	TTL              time.Duration `name:"ttl" placeholder:"DURATION" help:"Time to live of the job, at least 10s. Default: the deployment's."`
	LowPriority      bool          `help:"Don't start a worker for this job."`
}

func (r *runJob) Run() error {
	if r.Timeout <= 0 {
		return notStarted(fmt.Errorf("invalid --timeout %s: expected a positive duration", r.Timeout))
	}
	s, err := r.submission()
	if err != nil {
		return notStarted(err)
	}
	return r.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		if r.Detach {
			job, err := c.Jobs.Run(ctx, endpointID, s)
			if err != nil {
				return notStarted(err)
			}
			if r.JSON {
				return printJSON(job)
			}
			fmt.Fprintln(stdout, job.ID)
			return nil
		}
		result, err := c.Jobs.RunUntil(ctx, endpointID, s, r.Timeout, func(ctx context.Context, job api.Job) (api.Job, error) {
			if r.Tail {
				return r.tail(ctx, c, endpointID, job.ID)
			}
			return c.Jobs.Await(ctx, endpointID, job, r.progress(ctx, c, endpointID))
		})
		failure, ok := errors.AsType[*api.JobError](err)
		switch {
		case ok && failure.Err != nil:
			return &exitError{exitNoResult, err.Error()}
		case err != nil && !ok:
			return notStarted(err)
		case r.Tail:
			return r.finishTail(result, nil)
		}
		hint := commandLine("jobrunner", "job", "tail", r.Endpoint, result.ID) + " prints them, and so does job run --tail"
		if note := unreadNote(ctx, c, endpointID, result, hint); note != "" {
			fmt.Fprintln(stderr, note)
		}
		return r.printEnd(result)
	}, syscall.SIGPIPE)
}

// submission creates the body of the request.
func (r *runJob) submission() (s api.Submission, err error) {
	if s, err = decodeSubmission(r.Input); err != nil {
		return s, err
	}
	if r.Webhook != "" {
		s.Webhook = r.Webhook
	}
	if s.Policy == nil && (r.ExecutionTimeout != 0 || r.TTL != 0 || r.LowPriority) {
		s.Policy = &api.JobPolicy{}
	}
	if r.ExecutionTimeout != 0 {
		s.Policy.ExecutionTimeout = new(r.ExecutionTimeout.Milliseconds())
	}
	if r.TTL != 0 {
		s.Policy.TTL = new(r.TTL.Milliseconds())
	}
	if r.LowPriority {
		s.Policy.LowPriority = new(true)
	}
	return s, nil
}

// decodeSubmission decodes --input, and warns about members that the API doesn't have.
func decodeSubmission(input string) (s api.Submission, err error) {
	text, err := submissionOf(input)
	if err != nil {
		return s, err
	}
	if err := httpclient.Decode(text, &s); err != nil {
		return s, fmt.Errorf("invalid --input: %w", err)
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(text, &members) // valid, because submissionOf checked it
	for _, member := range []string{"input", "webhook", "policy", "s3Config"} {
		delete(members, member)
	}
	if len(members) > 0 {
		fmt.Fprintf(stderr, "--input has the member input, so it is the whole request; unknown members aren't sent: %s\n", strings.Join(slices.Sorted(maps.Keys(members)), ", "))
	}
	return s, nil
}

type jobStatus struct{ jobArgs }

func (s *jobStatus) Run() error {
	return s.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		job, err := c.Jobs.Status(ctx, endpointID, s.Job)
		if err := s.show(job, err); err != nil {
			return err
		}
		if reason := waitReason(ctx, c, endpointID, job); reason != "" {
			fmt.Fprintln(stderr, reason)
		}
		return nil
	})
}

type tailJob struct{ jobArgs }

func (t *tailJob) Run() error {
	return t.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		result, err := t.tail(ctx, c, endpointID, t.Job)
		if ctx.Err() != nil {
			text := "interrupted: the job continues"
			if result.Status != "" {
				text += " as " + result.Status
			}
			reasonCtx, done := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer done()
			if reason := waitReason(reasonCtx, c, endpointID, result); reason != "" {
				text += "; " + reason
			}
			return &exitError{exitNoResult, text}
		}
		return t.finishTail(result, err)
	})
}

type cancelJob struct{ jobArgs }

func (j *cancelJob) Run() error {
	return j.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		job, err := c.Jobs.Cancel(ctx, endpointID, j.Job)
		if err == nil && job.Status != "CANCELLED" {
			fmt.Fprintln(stderr, "the job had already ended")
		}
		return j.show(job, err)
	})
}

type retryJob struct{ jobArgs }

func (j *retryJob) Run() error {
	return j.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		return j.show(c.Jobs.Retry(ctx, endpointID, j.Job))
	})
}

type purgeJobs struct{ endpointArgs }

func (p *purgeJobs) Run() error {
	return p.withEndpoint(func(ctx context.Context, c *api.Client, endpointID string) error {
		removed, err := c.Jobs.PurgeQueue(ctx, endpointID)
		switch {
		case err != nil:
			return err
		case p.JSON:
			return printJSON(map[string]int{"removed": removed})
		}
		fmt.Fprintf(stdout, "removed jobs: %d\n", removed)
		return nil
	})
}

// notStarted gives an error the exit status exitNotStarted, or exitNoResult if the deployment didn't answer or failed.
func notStarted(err error) error {
	if answer, ok := errors.AsType[*api.Error](err); ok && (answer.Status == 0 || answer.Status >= http.StatusInternalServerError) {
		return &exitError{exitNoResult, err.Error()}
	}
	return &exitError{exitNotStarted, err.Error()}
}

// withEndpoint finds the endpoint and passes its id to call. The context of call ends at Ctrl-C, when the terminal
// closes, or with one of the other signals.
func (e *endpointArgs) withEndpoint(call func(ctx context.Context, c *api.Client, endpointID string) error, others ...os.Signal) error {
	ctx, stop := signal.NotifyContext(context.Background(), append(cli.StopSignals(), others...)...)
	defer stop()
	c, err := e.client()
	if err != nil {
		return notStarted(err)
	}
	id, err := endpointID(ctx, c, e.Endpoint)
	if err != nil {
		return notStarted(err)
	}
	if endpoint, err := c.Endpoints.Get(ctx, id); err == nil && endpoint.Type == "LOAD_BALANCER" {
		return notStarted(fmt.Errorf("endpoint %s is a load balancer, which has no jobs: send your requests to its workers, at %s", e.Endpoint, endpoint.RequestURLs.Base))
	}
	return call(ctx, c, id)
}

// endpointID finds an endpoint by its id or name. A key that may not list endpoints needs the id.
func endpointID(ctx context.Context, c *api.Client, idOrName string) (string, error) {
	all, err := c.Endpoints.ListNames(ctx)
	if err != nil {
		if isRefused(err) && api.ValidID(idOrName) {
			if _, err := c.Jobs.Health(ctx, idOrName); isRefused(err) {
				return "", fmt.Errorf("this API key can't use an endpoint with the id %q, and can't list endpoints to find one with this name: use the endpoint's id: %w", idOrName, err)
			}
			return idOrName, nil
		}
		return "", err
	}
	if slices.ContainsFunc(all, func(e api.NamedObject) bool { return e.ID == idOrName }) {
		return idOrName, nil
	}
	switch ids := api.WithName(all, idOrName); len(ids) {
	case 1:
		return ids[0], nil
	case 0:
		return "", fmt.Errorf("no endpoint has the id or name %q; %s", idOrName, listSome(all))
	default:
		return "", fmt.Errorf("%d endpoints have the name %q: choose one by its id, %s", len(ids), idOrName, strings.Join(ids, ", "))
	}
}

// isRefused reports whether the API key lacks the right or the object doesn't exist: the API hides which.
func isRefused(err error) bool {
	refusal, ok := errors.AsType[*api.Error](err)
	return ok && refusal.OtherServer == "" && (refusal.Status == http.StatusForbidden || refusal.Status == http.StatusNotFound)
}

// listSome lists the first endpoints, for an error.
func listSome(all []api.NamedObject) string {
	if len(all) == 0 {
		return "the deployment has none"
	}
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = fmt.Sprintf("%s (%s)", e.Name, e.ID)
	}
	return "there are " + listNames(names)
}

func listNames(names []string) string {
	const maxNames = 10
	if n := len(names) - maxNames; n > 0 {
		names = append(names[:maxNames:maxNames], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(names, ", ")
}

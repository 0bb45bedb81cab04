package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// job is a client of the job API, of this deployment or any other.
type job struct {
	Run    runJob    `cmd:"" help:"Send a job, wait for its end, and print its output on stdout."`
	Status jobStatus `cmd:"" help:"Print a job's status, times, error and output."`
	Tail   tailJob   `cmd:"" help:"Print the chunks that a job's handler yields, as they come, until the job ends."`
	Logs   jobLogs   `cmd:"" help:"Print what the job's worker has logged about it."`
	Cancel cancelJob `cmd:"" help:"Stop a job, or take it out of the queue."`
	Retry  retryJob  `cmd:"" help:"Queue a job again that FAILED or TIMED_OUT."`
	Purge  purgeJobs `cmd:"" help:"Remove the jobs that wait for a worker."`
	Batch  jobBatch  `cmd:"" help:"Run many jobs as a batch, on workers of its own."`
}

// Help has an example of each way to use it.
func (job) Help() string {
	return jobHelp + `Examples:
  jobrunner job run my-endpoint --input '{"prompt": "hello"}'
  jobrunner job status my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1
  GPUCLOUD_BASE_URL=https://cloud.example.com jobrunner job run my-endpoint --detach`
}

// jobHelp is what all of the commands of a job have in common.
const jobHelp = `ENDPOINT is an endpoint's id or its name. The deployment is the one of GPUCLOUD_BASE_URL, by default the
jobrunner of this machine, whose key is taken from its data folder unless GPUCLOUD_API_KEY is set.

`

const jobExits = `
Exit status: 0 the job is COMPLETED, 1 FAILED, 2 it was refused, 3 TIMED_OUT, 4 anything else.`

// jobOf names a job.
type jobOf struct {
	deployment `embed:""`
	Endpoint   string `arg:"" help:"Id or name of the endpoint."`
	Job        string `arg:"" help:"Id of the job."`
}

// with calls a function of the job API.
func (j *jobOf) with(call func(ctx context.Context, c *api.Client, endpointID string) error) error {
	return j.deployment.with(j.Endpoint, call)
}

type runJob struct {
	deployment       `embed:""`
	Endpoint         string        `arg:"" help:"Id or name of the endpoint."`
	Input            string        `default:"{}" placeholder:"FILE|JSON|-" help:"Input of the job: a JSON object, a file that has one, or - for stdin."`
	Detach           bool          `help:"Print the job's id and don't wait for its end."`
	Tail             bool          `help:"Print the chunks that the handler yields, as they come, instead of the output."`
	Timeout          time.Duration `default:"10m" help:"How long to wait for the end; then the job is cancelled, as it is on Ctrl-C."`
	Webhook          string        `placeholder:"URL" help:"Address that the deployment calls when the job ends."`
	ExecutionTimeout time.Duration `placeholder:"DURATION" help:"How long the job may run, at least 5s. Default: the endpoint's."`
	TTL              time.Duration `name:"ttl" placeholder:"DURATION" help:"How long the job is kept from now on, at least 10s. Default: the service's."`
	LowPriority      bool          `help:"Start no worker for this job."`
}

// Help has the details and examples.
func (runJob) Help() string {
	return jobHelp + `Examples:
  jobrunner job run my-endpoint --input '{"prompt": "hello"}'
  jobrunner job run my-endpoint --input request.json --tail
  jobrunner job run my-endpoint --detach
` + jobExits
}

// Run sends the job.
func (r *runJob) Run() error {
	if r.Timeout <= 0 {
		return refusedJob(fmt.Errorf("invalid --timeout %s: expected a positive duration", r.Timeout))
	}
	s, err := r.submission()
	if err != nil {
		return refusedJob(err)
	}
	return r.with(r.Endpoint, func(ctx context.Context, c *api.Client, endpointID string) error {
		if r.Detach {
			sent, err := c.Jobs.Run(ctx, endpointID, s)
			if err != nil {
				return refusedJob(err)
			}
			if r.JSON {
				return printJSON(sent)
			}
			fmt.Fprintln(stdout, sent.ID)
			return nil
		}
		if r.Tail {
			return r.runAndTail(ctx, c, endpointID, s)
		}
		ended, err := c.Jobs.RunToEnd(ctx, endpointID, s, r.Timeout, r.progress(ctx, c, endpointID))
		failure, ok := errors.AsType[*api.JobError](err)
		switch {
		case ok && failure.Err != nil:
			return &exitError{exitNoResult, err.Error() + lastReason(ctx, c, endpointID, ended)}
		case err != nil && !ok:
			return refusedJob(err)
		}
		if note := unreadNote(ctx, c, endpointID, ended, commandLine("jobrunner", "job", "tail", r.Endpoint, ended.ID)+" prints them, and so does job run --tail"); note != "" {
			fmt.Fprintln(stderr, note)
		}
		return r.printEnd(ended)
	})
}

// runAndTail cancels the job when nobody waits any longer, as RunToEnd does.
func (r *runJob) runAndTail(ctx context.Context, c *api.Client, endpointID string, s api.Submission) error {
	sent, err := c.Jobs.Run(ctx, endpointID, s)
	if err != nil {
		return refusedJob(err)
	}
	waiting, done := context.WithTimeoutCause(ctx, r.Timeout, api.NotFinished(r.Timeout))
	defer done()
	ended, err := r.tail(waiting, c, endpointID, sent.ID)
	if waiting.Err() == nil {
		return r.verdictOf(ended, err)
	}
	why := context.Cause(waiting).Error()
	if ctx.Err() != nil {
		why = "interrupted"
	}
	reason := lastReason(ctx, c, endpointID, ended)
	cancelling, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	if _, err := c.Jobs.Cancel(cancelling, endpointID, sent.ID); err != nil {
		return &exitError{exitNoResult, fmt.Sprintf("job %s: %s; it could not be cancelled, and may go on: %s%s", sent.ID, why, err, reason)}
	}
	return &exitError{exitNoResult, fmt.Sprintf("job %s: %s; it was cancelled%s", sent.ID, why, reason)}
}

// submission creates the body of the request.
func (r *runJob) submission() (s api.Submission, err error) {
	text, err := r.input()
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("invalid --input: %w", err)
	}
	if unknown := unknownMembers(text); len(unknown) > 0 {
		fmt.Fprintf(stderr, "--input has the member input, and is taken for a whole request: %s is not sent\n", strings.Join(unknown, ", "))
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

// unknownMembers are the members of a job's submission that the API does not know.
func unknownMembers(submission []byte) []string {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(submission, &members) // which has been checked
	for _, known := range []string{"input", "webhook", "policy", "s3Config"} {
		delete(members, known)
	}
	return slices.Sorted(maps.Keys(members))
}

// input reads the job's input, with the other members of its body where it has them.
func (r *runJob) input() ([]byte, error) {
	if r.Input != "-" {
		return submissionOf(r.Input)
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, fmt.Errorf("invalid --input -: %w", err)
	}
	return submissionOfJSON(text, "-")
}

type jobStatus struct {
	jobOf `embed:""`
}

// Help has an example.
func (jobStatus) Help() string {
	return jobHelp + "Example:\n  jobrunner job status my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1 --json\n\nIt exits with 0 whatever the job's status is."
}

// Run asks for the status.
func (s *jobStatus) Run() error {
	return s.with(func(ctx context.Context, c *api.Client, endpointID string) error {
		now, err := c.Jobs.Status(ctx, endpointID, s.Job)
		if err != nil {
			return err
		}
		if err := s.show(now); err != nil {
			return err
		}
		if why := waitReason(ctx, c, endpointID, now); why != "" {
			fmt.Fprintln(stderr, why)
		}
		return nil
	})
}

type tailJob struct {
	jobOf `embed:""`
}

// Help says what is lost.
func (tailJob) Help() string {
	return jobHelp + "The service hands out each chunk once: what somebody has read before is missing. Text is printed as it is,\nother chunks as a line of JSON each; of a job without chunks, the output.\n\nExample:\n  jobrunner job tail my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1\n" + jobExits
}

// Run shows the chunks.
func (t *tailJob) Run() error {
	return t.with(func(ctx context.Context, c *api.Client, endpointID string) error {
		ended, err := t.tail(ctx, c, endpointID, t.Job)
		if ctx.Err() != nil {
			return &exitError{exitNoResult, fmt.Sprintf("interrupted: the job goes on as %s%s", ended.Status, lastReason(ctx, c, endpointID, ended))}
		}
		return t.verdictOf(ended, err)
	})
}

type cancelJob struct {
	jobOf `embed:""`
}

// Help has an example.
func (cancelJob) Help() string {
	return jobHelp + "Example:\n  jobrunner job cancel my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1"
}

// Run cancels the job.
func (j *cancelJob) Run() error {
	return j.with(func(ctx context.Context, c *api.Client, endpointID string) error {
		now, err := c.Jobs.Cancel(ctx, endpointID, j.Job)
		if err != nil {
			return err
		}
		if now.Status != "CANCELLED" {
			fmt.Fprintln(stderr, "it had ended already")
		}
		return j.show(now)
	})
}

type retryJob struct {
	jobOf `embed:""`
}

// Help has an example.
func (retryJob) Help() string {
	return jobHelp + "Example:\n  jobrunner job retry my-endpoint 0558ca0f-2790-4d67-bf1a-43e52bd2a92d-u1"
}

// Run queues the job again.
func (j *retryJob) Run() error {
	return j.with(func(ctx context.Context, c *api.Client, endpointID string) error {
		now, err := c.Jobs.Retry(ctx, endpointID, j.Job)
		if err != nil {
			return err
		}
		return j.show(now)
	})
}

type purgeJobs struct {
	deployment `embed:""`
	Endpoint   string `arg:"" help:"Id or name of the endpoint."`
}

// Help has an example.
func (purgeJobs) Help() string {
	return jobHelp + "Jobs that run already go on.\n\nExample:\n  jobrunner job purge my-endpoint"
}

// Run purges the queue.
func (p *purgeJobs) Run() error {
	return p.with(p.Endpoint, func(ctx context.Context, c *api.Client, endpointID string) error {
		removed, err := c.Jobs.PurgeQueue(ctx, endpointID)
		switch {
		case err != nil:
			return err
		case p.JSON:
			return printJSON(map[string]int{"removed": removed})
		}
		fmt.Fprintf(stdout, "%d jobs were removed\n", removed)
		return nil
	})
}

// refusedJob is the exit status of a job that was not accepted.
func refusedJob(err error) error { return &exitError{exitNotStarted, err.Error()} }

// with resolves the endpoint's name, and calls a function until Ctrl-C.
func (d *deployment) with(endpoint string, call func(ctx context.Context, c *api.Client, endpointID string) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := d.client()
	if err != nil {
		return refusedJob(err)
	}
	id, err := endpointID(ctx, c, endpoint)
	if err != nil {
		return refusedJob(err)
	}
	if e, err := c.Endpoints.Get(ctx, id); err == nil && e.Type == "LOAD_BALANCER" {
		return refusedJob(fmt.Errorf("endpoint %s is a load balancer, which has no jobs: send your requests to its workers, at %s", endpoint, e.RequestURLs.Base))
	}
	return call(ctx, c, id)
}

// endpointID finds an endpoint by its id or name. A key that may not list endpoints
// needs the id.
func endpointID(ctx context.Context, c *api.Client, given string) (string, error) {
	all, err := c.Endpoints.Named(ctx)
	if err != nil {
		if isRefused(err) && api.ValidID(given) {
			if _, err := c.Jobs.Health(ctx, given); isRefused(err) {
				return "", fmt.Errorf("no endpoint with the id %q is open to this API key, and it may not list endpoints, so a name can't be looked up: give the endpoint's id: %w", given, err)
			}
			return given, nil
		}
		return "", err
	}
	for _, e := range all {
		if e.ID == given {
			return given, nil
		}
	}
	switch ids := api.WithName(all, given); len(ids) {
	case 1:
		return ids[0], nil
	case 0:
		return "", fmt.Errorf("no endpoint has the id or name %q; %s", given, known(all))
	default:
		return "", fmt.Errorf("%d endpoints have the name %q: choose one by its id, %s", len(ids), given, strings.Join(ids, ", "))
	}
}

// isRefused reports that the API key may not do this, or that there is nothing to do it
// to: which of the two, the API does not tell.
func isRefused(err error) bool {
	refusal, ok := errors.AsType[*api.Error](err)
	return ok && (refusal.Status == http.StatusForbidden || refusal.Status == http.StatusNotFound)
}

// known lists some endpoints.
func known(all []api.Named) string {
	if len(all) == 0 {
		return "the deployment has none"
	}
	const most = 10
	var names []string
	for _, e := range all[:min(len(all), most)] {
		names = append(names, fmt.Sprintf("%s (%s)", e.Name, e.ID))
	}
	if len(all) > most {
		names = append(names, fmt.Sprintf("and %d more", len(all)-most))
	}
	return "there are " + strings.Join(names, ", ")
}

package resources

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// An apply can wait for the effects of a create or update. The wait logs its progress. If it fails,
// the error says what is missing and quotes the last lines of the log of the pod or worker.

const defaultWait = 10 * time.Minute

// timeouts limits the waits of an object.
type timeouts struct{ Create, Update string }

var timeoutsAttribute = nonEmptyObject("How long `wait_for` waits, such as `90s` or `15m`.", attributes{
	"create": schema.StringAttribute{Optional: true, MarkdownDescription: "How long a create waits. Defaults to 10m.", Validators: []validator.String{duration}},
	"update": schema.StringAttribute{Optional: true, MarkdownDescription: "How long an update waits. Defaults to 10m.", Validators: []validator.String{duration}},
})

var duration = rule.Validator[string]{Expects: "a duration above 0 in hours, minutes and seconds, such as 90s, 15m or 24h (days aren't a unit)", Holds: func(s string) bool {
	d, err := time.ParseDuration(s)
	return err == nil && d > 0
}}

// waitTime returns how long a create or update may wait.
func waitTime(configured types.Object, creating bool) time.Duration {
	bounds := deref(value.As[timeouts](configured))
	text := bounds.Update
	if creating {
		text = bounds.Create
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	return defaultWait
}

// progress is the result of polling an object.
type progress struct {
	done     bool
	hopeless bool   // it can never become done
	failing  bool   // it may become done, but not by waiting alone
	text     string // "it is PROVISIONING: no GPU is free"
}

const (
	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second
)

// await polls until the object is done. It repeats a failed poll, even if the deployment can't be
// reached, unless the object is gone or the error shows that the deployment rejects all requests, such as 401.
// When the time is up, its error contains the text of the last complete poll and the result of logTail.
// The limit counts from start and doesn't interrupt the first poll.
func await(ctx context.Context, c *api.Client, goal string, start time.Time, limit time.Duration, poll func(context.Context) (progress, error), logTail func(context.Context) string) error {
	limitCtx, cancel := context.WithDeadline(ctx, start.Add(limit))
	defer cancel()
	var previous string
	failing := false
	pollCtx := ctx
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		got, err := poll(pollCtx)
		pollCtx, failing = limitCtx, failing || got.failing
		switch {
		case api.IsNotFound(err):
			return fmt.Errorf("waiting for %s: it was deleted meanwhile, and not by this apply. The next plan creates it again. %w", goal, err)
		case rejectsEveryRequest(err):
			return fmt.Errorf("waiting for %s: %w", goal, err)
		case err != nil && limitCtx.Err() != nil && previous != "": // the limit interrupted the poll
			got.text = previous
		case err != nil:
			got.text = err.Error()
			c.EndOutage() // so that the next poll is sent
		case got.done:
			tflog.Info(ctx, "waited for "+goal, map[string]any{"outcome": "done"})
			return nil
		case got.hopeless:
			return fmt.Errorf("waiting for %s: more time would not help: %s.%s", goal, got.text, logTail(ctx))
		}
		if got.text != previous {
			tflog.Info(ctx, "waiting for "+goal, map[string]any{"progress": got.text})
			previous = got.text
		}
		if httpclient.Sleep(limitCtx, pause) == nil {
			continue
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for %s: interrupted; %s", goal, got.text)
		}
		advice := "If it needs longer, raise timeouts."
		if failing {
			advice = "Look at why it fails: more time alone does not help."
		}
		return fmt.Errorf("waiting for %s: not reached within %s: %s. %s%s", goal, limit, strings.TrimSuffix(got.text, "."), advice, logTail(ctx))
	}
}

// rejectsEveryRequest reports whether the deployment rejects every request with the same error, such
// as 401. An outage isn't a rejection.
func rejectsEveryRequest(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.DeploymentWide && e.Status != 0
}

const (
	afterCreate = "The object exists. Terraform replaces it in the next apply, unless you keep it with the untaint command."
	afterUpdate = "The object is updated. An apply without a change doesn't wait."
)

// waitError adds to the error of a wait what the next apply does.
func waitError(err error, nextApply string) error {
	if err == nil || api.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%w\n\n%s", err, nextApply)
}

var logEnd = api.LogQuery{Tail: 20, MaxTime: 5 * time.Second} // for errors that quote a log

func quoteLog(lines []api.LogLine, err error, owner string) string {
	switch {
	case err != nil:
		return fmt.Sprintf(" The log of %s could not be read: %s", owner, err)
	case len(lines) == 0:
		return fmt.Sprintf(" The log of %s is empty.", owner)
	}
	text := fmt.Sprintf("\n\nThe last lines of %s:", owner)
	for _, line := range lines {
		text += "\n  " + line.Text
	}
	return text
}

type podWait struct {
	Running types.Bool
	Port    types.Int64
}

var podWaitAttribute = nonEmptyObject("What a create or update waits for, within `timeouts`. If it fails, the error shows the end of the pod's log (API v2).", attributes{
	"running": schema.BoolAttribute{Optional: true, MarkdownDescription: "Waits until the pod is `RUNNING`."},
	"port": schema.Int64Attribute{
		Optional:            true,
		MarkdownDescription: "Waits until this port of the container is published and accepts connections from Terraform's machine. `ports` must list it.",
		Validators:          []validator.Int64{rule.Between(1, 65535)},
	},
})

// awaitPod waits for the model's condition, and then updates the model.
func (m *pod) awaitPod(ctx context.Context, c *api.Client, creating bool) error {
	wait := value.As[podWait](m.WaitFor)
	if wait == nil || !wait.Running.ValueBool() && wait.Port.IsNull() {
		return nil
	}
	id := m.ID.ValueString()
	goal := "pod " + id + " to run"
	if !wait.Port.IsNull() {
		goal = fmt.Sprintf("port %d of pod %s to be open", wait.Port.ValueInt64(), id)
	}
	var got api.Pod
	err := await(ctx, c, goal, time.Now(), waitTime(m.Timeouts, creating), func(ctx context.Context) (progress, error) {
		var err error
		if got, err = c.Pods.GetFresh(ctx, id); err != nil {
			return progress{}, err
		}
		return podProgress(ctx, got, wait.Port), nil
	}, func(ctx context.Context) string {
		if c.Version == api.V1 {
			return ""
		}
		lines, err := c.PodLog(ctx, id, logEnd)
		return quoteLog(lines, err, "the pod")
	})
	if err == nil {
		m.recordApplied(c, got)
	}
	return err
}

// podProgress returns the progress of a pod. It connects to the port.
func podProgress(ctx context.Context, got api.Pod, port types.Int64) progress {
	text := "it is " + got.Status
	if reason := deref(got.Reason); reason != "" {
		text += ": " + reason
	}
	switch {
	case !got.Active():
		return progress{hopeless: true, text: text}
	case got.Status != api.PodRunning || got.Runtime == nil:
		return progress{text: text}
	case port.IsNull():
		return progress{done: true}
	}
	for _, published := range got.Runtime.Ports {
		if published.Private != port.ValueInt64() || published.Public == nil || published.IP == nil {
			continue
		}
		address := net.JoinHostPort(*published.IP, strconv.FormatInt(*published.Public, 10))
		dialer := net.Dialer{Timeout: 2 * time.Second}
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return progress{text: fmt.Sprintf("it is RUNNING, and %s does not accept connections", address)}
		}
		_ = connection.Close() // only tests the connection
		return progress{done: true}
	}
	return progress{text: fmt.Sprintf("it is RUNNING, and port %d is not published", port.ValueInt64())}
}

type endpointWait struct{ Rollout, Worker types.Bool }

var endpointWaitAttribute = nonEmptyObject("What a create or update waits for, within `timeouts`. If it fails, the error shows the end of a worker's log (API v2).", attributes{
	"rollout": schema.BoolAttribute{Optional: true, MarkdownDescription: "Waits until every worker has the newest release. API v2 only."},
	"worker":  schema.BoolAttribute{Optional: true, MarkdownDescription: "Waits until a worker is ready. Needs `workers.min` of at least 1."},
})

func (m *endpoint) awaitEndpoint(ctx context.Context, c *api.Client, creating bool) error {
	wait := value.As[endpointWait](m.WaitFor)
	if wait == nil || !wait.Rollout.ValueBool() && !wait.Worker.ValueBool() {
		return nil
	}
	id := m.ID.ValueString()
	start, limit := time.Now(), waitTime(m.Timeouts, creating)
	var shown api.Worker // the worker that the progress describes
	logTail := func(ctx context.Context) string { return quoteWorkerLog(ctx, c, id, shown) }
	if wait.Rollout.ValueBool() {
		err := await(ctx, c, "the rollout of endpoint "+id+" to finish", start, limit, func(ctx context.Context) (progress, error) {
			r, err := c.EndpointReleases(ctx, id)
			return progress{
				done: err == nil && !r.Rollout.InProgress,
				text: fmt.Sprintf("%d of %d workers have the newest release", r.Rollout.WorkersOnLatest, r.Rollout.WorkersTotal),
			}, err
		}, logTail)
		if err != nil || !wait.Worker.ValueBool() {
			return err
		}
	}
	return await(ctx, c, "a worker of endpoint "+id+" to be ready", start, limit, func(ctx context.Context) (progress, error) {
		if c.Version == api.V1 {
			h, err := c.Jobs.Health(ctx, id)
			return progress{done: h.Workers.Ready+h.Workers.Idle+h.Workers.Running > 0, failing: h.Workers.Unhealthy > 0, text: fmt.Sprintf("%d initializing, %d throttled, %d unhealthy", h.Workers.Initializing, h.Workers.Throttled, h.Workers.Unhealthy)}, err
		}
		w, err := c.EndpointWorkers(ctx, id)
		s := w.Summary
		if next := workerToShow(w.Workers); reasonOf(next) != "" || reasonOf(shown) == "" { // a newer worker may not have failed yet
			shown = next
		}
		text := fmt.Sprintf("%d initializing, %d throttled, %d unhealthy", s.Initializing, s.Throttled, s.Unhealthy)
		if reason := reasonOf(shown); reason != "" {
			text += "; " + reason
		}
		return progress{done: s.Idle+s.Running > 0, failing: s.Unhealthy > 0, text: text}, err
	}, logTail)
}

// workerToShow returns the worker that best explains why none is ready: an unhealthy one, or
// else one with a reason, or else one that isn't ready.
func workerToShow(workers []api.Worker) (shown api.Worker) {
	rank := func(w api.Worker) int {
		switch {
		case w.ID == "":
			return 0
		case w.Status == "UNHEALTHY":
			return 4
		case reasonOf(w) != "":
			return 3
		case w.Status != "IDLE" && w.Status != "RUNNING":
			return 2
		}
		return 1
	}
	for _, w := range workers {
		if rank(w) > rank(shown) {
			shown = w
		}
	}
	return shown
}

func reasonOf(w api.Worker) string {
	if deref(w.Reason) == "" {
		return ""
	}
	return "worker " + w.ID + ": " + *w.Reason
}

// quoteWorkerLog quotes the log of the shown worker. If that worker is gone, it quotes the log
// and the reason of another worker.
func quoteWorkerLog(ctx context.Context, c *api.Client, id string, shown api.Worker) string {
	if c.Version == api.V1 {
		return ""
	}
	if shown.ID != "" {
		if lines, err := c.WorkerLog(ctx, id, shown.ID, logEnd); err == nil {
			return quoteLog(lines, nil, "worker "+shown.ID)
		}
	}
	w, err := c.EndpointWorkers(ctx, id)
	switch {
	case err != nil:
		return " The endpoint's workers could not be read: " + err.Error() + "."
	case len(w.Workers) == 0:
		return " The endpoint has no worker."
	}
	worker := workerToShow(w.Workers)
	lines, err := c.WorkerLog(ctx, id, worker.ID, logEnd)
	text := quoteLog(lines, err, "worker "+worker.ID)
	if reason := reasonOf(worker); reason != "" {
		text = " By now, " + reason + "." + text
	}
	return text
}

type clusterWait struct{ Running types.Bool }

var clusterWaitAttribute = nonEmptyObject("What a create or update waits for, within `timeouts`. If it fails, the error shows the end of a pod's log.", attributes{
	"running": schema.BoolAttribute{Optional: true, MarkdownDescription: "Waits until every pod of the cluster is `RUNNING`."},
})

// awaitCluster waits for the model's condition, and then updates the model.
func (m *cluster) awaitCluster(ctx context.Context, c *api.Client, creating bool) error {
	wait := value.As[clusterWait](m.WaitFor)
	if wait == nil || !wait.Running.ValueBool() {
		return nil
	}
	id, want := m.ID.ValueString(), value.As[clusterCompute](m.Compute).PodCount.ValueInt64()
	var unready api.Pod // a pod that doesn't run
	err := await(ctx, c, "the pods of cluster "+id+" to run", time.Now(), waitTime(m.Timeouts, creating), func(ctx context.Context) (progress, error) {
		members, err := c.Clusters.Pods(ctx, id)
		if err != nil {
			return progress{}, err
		}
		var p progress
		p, unready = clusterProgress(ctx, members, want)
		return p, nil
	}, func(ctx context.Context) string {
		if unready.ID == "" {
			return ""
		}
		lines, err := c.PodLog(ctx, unready.ID, logEnd)
		return quoteLog(lines, err, "pod "+unready.ID)
	})
	if err != nil {
		return err
	}
	got, err := c.Clusters.GetFresh(ctx, id)
	if err == nil {
		m.flatten(got)
	}
	return err
}

// clusterProgress returns the progress of a cluster's pods and one pod that doesn't run,
// preferably one that has ended.
func clusterProgress(ctx context.Context, members []api.Pod, want int64) (total progress, unready api.Pod) {
	running := int64(0)
	for _, member := range members {
		p := podProgress(ctx, member, types.Int64Null())
		switch {
		case p.done:
			running++
			continue
		case unready.ID != "" && (total.hopeless || !p.hopeless):
			continue
		}
		rank := ""
		if member.Cluster != nil && member.Cluster.Rank != nil {
			rank = fmt.Sprintf(" (rank %d)", *member.Cluster.Rank)
		}
		unready, total.hopeless, total.text = member, p.hopeless, fmt.Sprintf("; pod %s%s: %s", member.ID, rank, p.text)
	}
	total.done = running == want
	total.text = fmt.Sprintf("%d of %d pods run%s", running, want, total.text)
	return total, unready
}

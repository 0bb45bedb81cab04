package actions

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

var podStart = podAction("pod_start", "Could not start the pod",
	"Starts a pod and waits until it runs.",
	func(ctx context.Context, c *api.Client, id string, report reporter) error {
		if _, err := c.Pods.SetActive(ctx, id, true); err != nil {
			return err
		}
		return awaitRunning(ctx, c, id, report)
	})

var podStop = podAction("pod_stop", "Could not stop the pod",
	"Stops a pod and waits until it has ended. The pod releases its GPUs and keeps its persistent storage.",
	func(ctx context.Context, c *api.Client, id string, report reporter) error {
		if _, err := c.Pods.SetActive(ctx, id, false); err != nil {
			return err
		}
		return awaitStatus(ctx, c, id, report, func(p api.Pod) (bool, error) { return !p.Active(), nil })
	})

var podRestart = podAction("pod_restart", "Could not restart the pod",
	"Restarts the container of a pod that runs, and waits until it runs again. The data on its container disk is lost.",
	func(ctx context.Context, c *api.Client, id string, report reporter) error {
		pod, err := c.Pods.GetFresh(ctx, id)
		switch {
		case err != nil:
			return err
		case pod.Status != api.PodRunning:
			return fmt.Errorf("pod %s is %s: only a pod that is RUNNING can be restarted. gpucloud_pod_start waits until it runs", id, pod.Status)
		}
		if err := c.Pods.Act(ctx, id, api.RestartPod); err != nil {
			return err
		}
		report("Pod %s restarts.", id)
		return awaitRunning(ctx, c, id, report)
	})

func podAction(name, failure, description string, act func(ctx context.Context, c *api.Client, id string, report reporter) error) *definition[podModel] {
	return &definition[podModel]{
		name: name, failure: failure,
		description: description + " If a `gpucloud_pod` manages the pod and has another `desired_state`, the next apply restores that state.",
		attributes: map[string]schema.Attribute{
			"pod_id":  schema.StringAttribute{Required: true, MarkdownDescription: "Id of the pod."},
			"timeout": timeoutAttribute("How long to wait for the pod"),
		},
		validate: func(c diagnostics.Check, config *podModel) {
			kit.ValidID(c, "pod_id", config.PodID)
			config.validate(c)
		},
		invoke: func(ctx context.Context, c *api.Client, config *podModel, report reporter) error {
			waitCtx, cancel := config.withTimeout(ctx)
			defer cancel()
			return act(waitCtx, c, config.PodID.ValueString(), report)
		},
	}
}

type podModel struct {
	PodID types.String
	timeoutModel
}

// awaitRunning waits until a pod runs. A pod that has exited successfully counts as well.
func awaitRunning(ctx context.Context, c *api.Client, id string, report reporter) error {
	return awaitStatus(ctx, c, id, report, func(p api.Pod) (bool, error) {
		if p.Status == api.PodError {
			return true, errors.New("its logs may say why")
		}
		return p.Status == api.PodRunning || p.Status == api.PodExited, nil
	})
}

// awaitStatus reports each new status of a pod, with its reason, until reached returns true.
func awaitStatus(ctx context.Context, c *api.Client, id string, report reporter, reached func(api.Pod) (bool, error)) error {
	last := ""
	err := api.Poll(ctx, func() (bool, error) {
		pod, err := c.Pods.GetFresh(ctx, id)
		if err != nil {
			return false, err
		}
		state := pod.Status
		if pod.Reason != nil && *pod.Reason != "" {
			state += ": " + *pod.Reason
		}
		if state != last {
			report("Pod %s is %s.", id, state)
			last = state
		}
		return reached(pod)
	})
	if err != nil && last != "" {
		return fmt.Errorf("pod %s is %s: %w", id, last, err)
	}
	return err
}

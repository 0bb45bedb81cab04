package resources

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

// Pod is gpucloud_pod: a container on a GPU or CPU machine. See pod_plan.go for its fixed
// attributes.
var Pod = newCollectionKind(kit.Kind[pod]{
	Name:     "pod",
	Schema:   podSchema,
	Only:     podOneVersion,
	Moved:    movedPod,
	Validate: validatePod,
	Plan:     planPod,
	Volatile: []string{"status", "data_center_id", "cost", "ssh", "runtime", "gpu.vcpu_count", "gpu.memory", "global_networking.ip", "global_networking.internal_dns"},
	Loss: func(m *pod) string {
		return fmt.Sprintf("The apply deletes pod %s (%s). %s", m.ID.ValueString(), m.Name.ValueString(), m.loss())
	},
	Create: func(ctx context.Context, c *api.Client, config, plan *pod) error {
		plan.setWriteOnlyEnv(&config.writeOnlyEnv, nil, envDigests{}, nil)
		want := plan.expand()
		unlocked := want
		if plan.DesiredState.ValueString() == api.PodExited { // a locked pod couldn't be stopped
			unlocked.Locked = nil
		}
		got, err := c.Pods.Create(ctx, unlocked)
		if err != nil {
			return err
		}
		plan.ID = types.StringValue(got.ID)
		plan.Private.EnvWO.recordAnswer(c, &plan.writeOnlyEnv, got.Container.Env)
		desired, locked := plan.DesiredState, plan.Locked
		got, failure := finishPod(ctx, c, plan, got, want)
		plan.recordApplied(c, got)
		if failure != nil { // an error would taint the pod, which Terraform then replaces
			plan.DesiredState, plan.Locked = desired, locked
			return &diagnostics.Warning{Err: failure}
		}
		return createWaitError(plan.awaitPod(ctx, c, true))
	},
	Read: func(ctx context.Context, c *api.Client, state *pod) error {
		got, err := c.Pods.Get(ctx, state.ID.ValueString())
		if err != nil {
			return err
		}
		state.Private.Named = state.references()
		if got.Container != nil {
			state.Private.EnvWO.compare(c, &state.writeOnlyEnv, got.Container.Env)
		}
		state.flatten(got)
		state.readAccess(got)
		return state.readTemplateCopy(ctx, c, got)
	},
	Update: func(ctx context.Context, c *api.Client, config, state, plan *pod) error {
		if id := state.lostVolume(ctx, c, plan); id != "" {
			return &diagnostics.AttributeError{Attribute: "mounts.network", Err: fmt.Errorf("the network volume %s does not exist any more, and the pod runs without it. Name one that exists, which replaces the pod, or remove the mount", id)}
		}
		have, err := c.Pods.Get(ctx, state.ID.ValueString())
		if err != nil {
			return err
		}
		if have.Container != nil {
			plan.setWriteOnlyEnv(&config.writeOnlyEnv, &state.writeOnlyEnv, state.Private.EnvWO, have.Container.Env)
		}
		want, err := plan.change(ctx, c, state, have)
		if err != nil {
			return err
		}
		got, err := applyPod(ctx, c, state, plan, have, want)
		if err != nil {
			return err
		}
		plan.Private.Imported, plan.Private.Carried, plan.Private.Named = false, nil, nil
		plan.Private.EnvWO.recordAnswer(c, &plan.writeOnlyEnv, got.Container.Env)
		plan.recordApplied(c, got)
		return plan.awaitPod(ctx, c, false)
	},
}, func(c *api.Client) api.Collection[api.Pod] { return c.Pods }, (*pod).expand, (*pod).flatten)

// finishPod does the steps that a create can't: it stops the pod, then locks it. Even with an
// error, the pod exists; the error names the step that remains.
func finishPod(ctx context.Context, c *api.Client, plan *pod, created, want api.Pod) (got api.Pod, err error) {
	got = created
	if plan.DesiredState.ValueString() == api.PodExited {
		if got, err = c.Pods.SetActive(ctx, created.ID, false); err != nil {
			return created, fmt.Errorf("pod %s was created, and could not be stopped: it runs. The next apply stops it: %w", created.ID, err)
		}
	}
	if plan.Locked.ValueBool() && !deref(got.Locked) {
		have := got
		have.Container, have.Mounts, have.GlobalNetworking, want.GlobalNetworking = want.Container, want.Mounts, nil, nil
		locked, err := c.Pods.Update(ctx, have, want)
		if err != nil {
			return got, fmt.Errorf("pod %s was created, and could not be locked. The next apply locks it: %w", created.ID, err)
		}
		got = locked
	}
	return got, nil
}

// applyPod changes, starts and stops a pod. It stops an unlocked pod before the update, which
// may lock it, and a locked pod after the update, which may unlock it.
func applyPod(ctx context.Context, c *api.Client, state, plan *pod, have, want api.Pod) (got api.Pod, err error) {
	reach := func() error {
		if plan.DesiredState.IsNull() {
			return nil
		}
		got, err = c.Pods.SetActive(ctx, have.ID, plan.DesiredState.ValueString() == api.PodRunning)
		return err
	}
	stopsFirst := plan.DesiredState.ValueString() == api.PodExited && !state.Locked.ValueBool()
	if stopsFirst {
		if err := reach(); err != nil {
			return got, err
		}
	}
	if got, err = c.Pods.Update(ctx, have, want); err != nil || stopsFirst {
		return got, err
	}
	return got, reach()
}

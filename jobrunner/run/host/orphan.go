package host

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Orphans returns the containers that pods of a deployment left, here and in the cluster.
func (e *Executor) Orphans(ctx context.Context, deployment string) (all []run.Orphan) {
	if deployment == "" {
		return nil
	}
	if e.cluster != nil {
		var err error
		if all, err = e.cluster.Orphans(ctx, deployment); err != nil {
			e.log.WarnContext(ctx, "the Pods of an earlier run can't be listed: pods start again, and their old Pods are removed then", "error", err)
		}
	}
	for _, engine := range e.engines.all {
		if engine.state() == nil {
			all = append(all, engine.orphans(ctx, deploymentLabel+"="+deployment)...)
		}
	}
	return all
}

// prepareForPod makes the pod's network, and removes an orphan of the same pod. There may
// be one if the engine didn't answer when the deployment started.
func (e *containerEngine) prepareForPod(ctx context.Context, s run.Spec) error {
	if s.Pod.IP == "" { // a cluster's network already exists
		if err := e.makeNetwork(ctx, s.Pod.Network); err != nil {
			return err
		}
	}
	if s.Deployment() != "" {
		for _, orphan := range e.orphans(ctx, podLabel+"="+s.ID) {
			orphan.Remove()
		}
	}
	return nil
}

// orphans returns the containers with a label, newest first.
func (e *containerEngine) orphans(ctx context.Context, label string) (all []run.Orphan) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	names, err := e.cli(ctx, "ps", "--all", "--filter", "label="+label, "--format", "{{.Names}}")
	if err != nil {
		return nil
	}
	for name := range strings.FieldsSeq(names) {
		text, err := e.cli(ctx, "inspect", "--format", fmt.Sprintf("{{index .Config.Labels %q}} {{index .Config.Labels %q}} {{.State.Status}}", podLabel, podRunLabel), name)
		words := strings.Fields(text)
		if err != nil || len(words) != 3 {
			continue
		}
		generation, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil || words[2] == "created" || words[2] == "configured" {
			generation = -1
		}
		all = append(all, run.Orphan{
			Pod: words[0], Run: generation,
			Adopt: func(log run.Output, mark string) run.Process {
				c := newContainer(e, name, log)
				c.policy = detached{log, mark}
				go c.supervise()
				return c
			},
			Remove: func() { newContainer(e, name, io.Discard).remove() },
		})
	}
	return all
}

package kubernetes

import (
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

// view is a summary of a Pod's status.
type view struct {
	waits   string // why it isn't scheduled, for people
	failure string // why it can't start; the cluster would retry forever
	started bool
	ended   bool
	exit    run.Exit
}

// startFailures are the reasons of a waiting or terminated container that failed to start.
var startFailures = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
	"StartError", "ContainerCannotRun",
}

// look summarizes a Pod's status.
func look(pod *core.Pod) (v view) {
	if pod == nil {
		return v
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != containerName {
			continue
		}
		switch s := c.State; {
		case s.Terminated != nil && slices.Contains(startFailures, s.Terminated.Reason):
			v.failure = fmt.Sprintf("its container can't be started: %s: %s", s.Terminated.Reason, s.Terminated.Message)
			return v
		case s.Terminated != nil:
			return view{started: true, ended: true, exit: exitOf(*s.Terminated)}
		case s.Running != nil:
			v.started = true
		case s.Waiting != nil && slices.Contains(startFailures, s.Waiting.Reason):
			v.failure = fmt.Sprintf("its container can't be started: %s: %s", s.Waiting.Reason, s.Waiting.Message)
		}
	}
	switch pod.Status.Phase {
	case core.PodFailed, core.PodSucceeded: // evicted or preempted, or its node is gone
		return view{started: true, ended: true, exit: run.Exit{Text: fmt.Sprintf("the cluster ended it: %s: %s", pod.Status.Reason, pod.Status.Message)}}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == core.PodScheduled && c.Status == core.ConditionFalse {
			v.waits = c.Message
		}
	}
	return v
}

func exitOf(s core.ContainerStateTerminated) run.Exit {
	return run.Exit{Text: procgroup.StatusText(int(s.ExitCode), s.Reason == "OOMKilled"), OK: s.ExitCode == 0}
}

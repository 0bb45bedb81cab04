package kubernetes

import (
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

// view is what a Pod's status means.
type view struct {
	waits   string // what holds it up, for people
	failure string // why it does not start; the cluster would try for ever
	started bool
	ended   bool
	exit    string // how it ended
	ok      bool   // it ended well
}

// startFailures are the reasons of a container, one that waits or has ended, for which its
// start failed.
var startFailures = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
	"StartError", "ContainerCannotRun",
}

// look reads a Pod's status.
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
			return view{started: true, ended: true, exit: exitText(*s.Terminated), ok: s.Terminated.ExitCode == 0}
		case s.Running != nil:
			v.started = true
		case s.Waiting != nil && slices.Contains(startFailures, s.Waiting.Reason):
			v.failure = fmt.Sprintf("its container can't be started: %s: %s", s.Waiting.Reason, s.Waiting.Message)
		}
	}
	switch pod.Status.Phase {
	case core.PodFailed, core.PodSucceeded: // evicted, preempted, or its node is gone
		return view{started: true, ended: true, exit: fmt.Sprintf("the cluster ended it: %s: %s", pod.Status.Reason, pod.Status.Message)}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == core.PodScheduled && c.Status == core.ConditionFalse {
			v.waits = c.Message
		}
	}
	return v
}

func exitText(s core.ContainerStateTerminated) string {
	return procgroup.StatusText(int(s.ExitCode), s.Reason == "OOMKilled")
}

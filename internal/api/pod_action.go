package api

import (
	"context"
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// Pods is the collection of pods with their actions.
type Pods struct {
	Collection[Pod]
	rest *restCollection[Pod]
	act  func(action PodAction) (path string, body any) // path is relative to the pod
}

// PodAction is an action on a pod.
type PodAction string

// The actions of both versions.
const (
	StartPod   PodAction = "start"
	StopPod    PodAction = "stop"
	RestartPod PodAction = "restart"
)

// The statuses that callers distinguish.
const (
	PodRunning    = "RUNNING"
	PodExited     = "EXITED"
	PodError      = "ERROR"
	PodTerminated = "TERMINATED"
)

// Active reports whether a pod runs or is starting, that is, hasn't ended.
func (s PodState) Active() bool { return s.Status != PodExited && s.Status != PodError }

// Act sends an action once.
func (p *Pods) Act(ctx context.Context, id string, action PodAction) error {
	c, err := p.rest.callByID(http.MethodPost, id)
	if err != nil {
		return err
	}
	path, body := p.act(action)
	c.URL, c.Body = c.URL+path, body
	var response *httpclient.Response
	c.Succeeded = func(r *httpclient.Response) { response = r }
	defer p.rest.cache.beginWrite()()
	if err := p.rest.Do(ctx, c, nil); err != nil {
		return err
	}
	return p.rest.checkSubject(id, response)
}

// SetActive starts or stops a pod, unless it is already in that state, and returns its new state.
// If the action fails, it reads the pod: the answer may be lost, the API may not know a new
// pod yet, or the status may have changed meanwhile.
func (p *Pods) SetActive(ctx context.Context, id string, active bool) (Pod, error) {
	action := StopPod
	if active {
		action = StartPod
	}
	var failure error
	for try := 1; ; try++ {
		got, err := p.GetFresh(ctx, id)
		if err != nil || got.Active() == active {
			return got, err
		}
		if failure != nil && try > httpclient.MaxTries {
			return got, failure
		}
		failure = p.Act(ctx, id, action)
		if failure == nil {
			return p.GetFresh(ctx, id)
		}
		if status := statusOf(failure); status >= 400 && status < 500 && status != http.StatusNotFound && status != http.StatusConflict {
			return got, failure
		}
		if wait, ok := httpclient.Backoff(try, failure); !ok || httpclient.Sleep(ctx, wait) != nil {
			return got, failure
		}
	}
}

package pod

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// event is what happens to a pod.
type event int

const (
	// What its user asks for.
	start event = iota
	stop
	restart
	reset
	replace // an update changed what its container is made of

	// What the deployment finds.
	waits    // it can't start yet, or not any more
	placed   // it has its GPUs, and its container starts
	up       // its container runs
	exited   // its container ended well
	failed   // its container ended badly
	restored // it did not survive the end of the deployment, and starts anew
)

// transitions are all ways from one state to another, as the package's documentation
// draws them. What a state does not have is refused where a user asked for it, and
// changes nothing where the deployment found it.
var transitions = map[event]map[store.PodStatus]store.PodStatus{
	start:   {store.PodExited: store.PodProvisioning, store.PodError: store.PodProvisioning},
	stop:    {store.PodProvisioning: store.PodExited, store.PodStarting: store.PodExited, store.PodRunning: store.PodExited},
	restart: {store.PodRunning: store.PodStarting},
	reset: {
		store.PodProvisioning: store.PodProvisioning, store.PodStarting: store.PodStarting, store.PodRunning: store.PodStarting,
		store.PodExited: store.PodExited, store.PodError: store.PodExited,
	},
	replace: {store.PodProvisioning: store.PodProvisioning, store.PodStarting: store.PodStarting, store.PodRunning: store.PodStarting},

	waits:    {store.PodProvisioning: store.PodProvisioning, store.PodStarting: store.PodProvisioning},
	placed:   {store.PodProvisioning: store.PodStarting, store.PodStarting: store.PodStarting},
	up:       {store.PodProvisioning: store.PodRunning, store.PodStarting: store.PodRunning, store.PodRunning: store.PodRunning},
	exited:   {store.PodStarting: store.PodExited, store.PodRunning: store.PodExited},
	failed:   {store.PodStarting: store.PodError, store.PodRunning: store.PodError},
	restored: {store.PodProvisioning: store.PodProvisioning, store.PodStarting: store.PodProvisioning, store.PodRunning: store.PodProvisioning},
}

// on makes an event count, and tells whether the state has it.
func on(p *store.Pod, e event) bool {
	next, ok := transitions[e][p.Status]
	if ok {
		p.Status = next
	}
	return ok
}

// Action is what API v2 can ask a pod to do, and Reset what API v1 can in addition.
type Action string

// The actions.
const (
	Start     Action = "start"
	Stop      Action = "stop"
	Restart   Action = "restart"
	Terminate Action = "terminate"
	Reset     Action = "reset"
)

// actionEvents are the events of actions, but for terminate, which deletes the pod.
var actionEvents = map[Action]event{Start: start, Stop: stop, Restart: restart, Reset: reset}

// words are what a pod's last change is called.
var words = map[Action]string{Start: "Started by User", Stop: "Stopped by User", Restart: "Restarted by User", Reset: "Reset by User"}

// Actions are those of API v2 that a pod allows now; the member of a cluster allows none.
func Actions(p store.Pod) (allowed []Action) {
	if p.Cluster != nil {
		return nil
	}
	for _, a := range []Action{Start, Stop, Restart} {
		if _, ok := transitions[actionEvents[a]][p.Status]; ok && (a != Stop || !p.Locked) {
			allowed = append(allowed, a)
		}
	}
	if p.Status != store.PodTerminated {
		allowed = append(allowed, Terminate)
	}
	return allowed
}

// Do carries an action out on the record of a pod: what runs follows it. It is for
// UpdatePod. The error says which actions the pod allows.
func Do(p *store.Pod, a Action, now time.Time) error {
	if p.Locked && (a == Stop || a == Reset) {
		return httpanswer.Refuse(http.StatusConflict, "pod %q is locked, and can't be stopped or reset: unlock it first", p.ID)
	}
	from := p.Status
	if !on(p, actionEvents[a]) {
		return httpanswer.Refuse(http.StatusConflict, "pod %q is %s and can't %s: it allows %s", p.ID, from, a, list(Actions(*p)))
	}
	if a == Reset {
		p.WipeVolume = p.Volume.Size > 0
	}
	p.Run++
	change(p, words[a], now)
	return nil
}

// Create gives a new pod its first state, on a machine, which is a deployment.
func Create(p *store.Pod, machine string, now time.Time) {
	p.PodState = store.PodState{Status: store.PodProvisioning, Run: 1, Machine: machine}
	change(p, "Rented by User", now)
}

// Replace makes a change of what the container is made of count: one that runs is
// replaced, unless it is locked, and its volume stays. It is for UpdatePod.
func Replace(p *store.Pod, locked bool, now time.Time) error {
	if locked && p.Status.Active() {
		return httpanswer.Refuse(http.StatusConflict, "pod %q is locked, and the change would replace its container: unlock it first", p.ID)
	}
	if on(p, replace) {
		p.Run++
		change(p, "Updated by User", now)
	}
	return nil
}

// change notes the last event of a pod's life, and that nothing is known yet of what
// comes of it.
func change(p *store.Pod, what string, now time.Time) {
	p.Changed, p.ChangedAt, p.Reason = what, now.UTC().Truncate(time.Millisecond), ""
	if p.Status != store.PodRunning {
		p.OpenPorts, p.NetworkIP = nil, ""
	}
	if p.Status != store.PodRunning && p.Status != store.PodStarting {
		p.Devices = nil
	}
}

func list(actions []Action) string {
	var words string
	for i, a := range actions {
		switch {
		case i > 0 && i == len(actions)-1:
			words += " and "
		case i > 0:
			words += ", "
		}
		words += string(a)
	}
	return words
}

// CheckMember refuses a call on a member of a cluster, which is the cluster's alone.
func CheckMember(p store.Pod) error {
	if p.Cluster == nil {
		return nil
	}
	return httpanswer.Refuse(http.StatusConflict, "pod %q belongs to the cluster %q, and changes with it alone: %s", p.ID, p.Cluster.ID, fmt.Sprintf("/v2/clusters/%s", p.Cluster.ID))
}

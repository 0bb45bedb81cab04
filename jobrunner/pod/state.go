package pod

import (
	"net/http"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

type event int

const (
	// Requests of the user.
	start event = iota
	stop
	restart
	reset
	replace // an update changed the pod's container

	// Observations of the deployment.
	startDelayed     // the pod can't start yet
	computeAssigned  // it has its GPUs or vCPUs; its container starts
	containerStarted // its container runs
	containerExited  // its container exited successfully
	containerFailed  // its container failed
	restartQueued    // it ended, and is started again
)

// transitions lists all transitions; the package's documentation has them as a table. An event that isn't
// listed for a state is rejected if a user requested it, and otherwise ignored.
var transitions = map[event]map[store.PodStatus]store.PodStatus{
	start:   {store.PodExited: store.PodProvisioning, store.PodError: store.PodProvisioning},
	stop:    {store.PodProvisioning: store.PodExited, store.PodStarting: store.PodExited, store.PodRunning: store.PodExited},
	restart: {store.PodRunning: store.PodStarting},
	reset: {
		store.PodProvisioning: store.PodProvisioning, store.PodStarting: store.PodStarting, store.PodRunning: store.PodStarting,
		store.PodExited: store.PodExited, store.PodError: store.PodExited,
	},
	replace: {store.PodProvisioning: store.PodProvisioning, store.PodStarting: store.PodStarting, store.PodRunning: store.PodStarting},

	startDelayed:     {store.PodProvisioning: store.PodProvisioning, store.PodStarting: store.PodProvisioning},
	computeAssigned:  {store.PodProvisioning: store.PodStarting, store.PodStarting: store.PodStarting},
	containerStarted: {store.PodProvisioning: store.PodRunning, store.PodStarting: store.PodRunning, store.PodRunning: store.PodRunning},
	containerExited:  {store.PodStarting: store.PodExited, store.PodRunning: store.PodExited},
	containerFailed:  {store.PodStarting: store.PodError, store.PodRunning: store.PodError},
	restartQueued:    {store.PodProvisioning: store.PodProvisioning, store.PodStarting: store.PodProvisioning, store.PodRunning: store.PodProvisioning},
}

// apply applies an event, and reports whether the state allows it.
func apply(p *store.Pod, e event) bool {
	next, ok := transitions[e][p.Status]
	if ok {
		p.Status = next
	}
	return ok
}

// Action is an action on a pod. API v2 has all but Reset, which only API v1 has.
type Action string

const (
	Start     Action = "start"
	Stop      Action = "stop"
	Restart   Action = "restart"
	Terminate Action = "terminate"
	Reset     Action = "reset"
)

// actionEvents has the event of each action except Terminate, which deletes the pod.
var actionEvents = map[Action]event{Start: start, Stop: stop, Restart: restart, Reset: reset}

// lastChange describes each action in the record's latest change.
var lastChange = map[Action]string{Start: "Started by User", Stop: "Stopped by User", Restart: "Restarted by User", Reset: "Reset by User"}

// Actions returns the actions of API v2 that a pod allows now. A cluster's member allows none.
func Actions(p store.Pod) (allowed []Action) {
	if p.Cluster != nil {
		return nil
	}
	for _, a := range []Action{Start, Stop, Restart} {
		if _, ok := transitions[actionEvents[a]][p.Status]; ok && (a != Stop || !p.Locked) {
			allowed = append(allowed, a)
		}
	}
	return append(allowed, Terminate)
}

// Do applies an action to the record of a pod, which its runner then reconciles. Call it in UpdatePod.
// The error says what the pod allows, or that it is locked.
func Do(p *store.Pod, a Action, now time.Time) error {
	if p.Locked && (a == Stop || a == Reset) {
		return httpanswer.Refuse(http.StatusConflict, "pod %q is locked, and can't be stopped or reset: unlock it first", p.ID)
	}
	from := p.Status
	if !apply(p, actionEvents[a]) {
		return httpanswer.Refuse(http.StatusConflict, "pod %q is %s and can't %s: it allows %s", p.ID, from, a, enumerate(Actions(*p)))
	}
	if a == Reset {
		p.WipeVolume = p.Volume.Size > 0
	}
	p.Run++
	recordChange(p, lastChange[a], now)
	return nil
}

// Init gives a new pod its first state. folderID is the id of the data folder of the node that runs it.
func Init(p *store.Pod, folderID string, now time.Time) {
	p.PodState = store.PodState{Status: store.PodProvisioning, Run: 1, FolderID: folderID}
	recordChange(p, "Rented by User", now)
}

// Replace records an update of the pod's container, which its runner then replaces. It rejects the update of an
// active pod that is locked. Call it in UpdatePod.
func Replace(p *store.Pod, locked bool, now time.Time) error {
	if locked && p.Status.Active() {
		return httpanswer.Refuse(http.StatusConflict, "pod %q is locked, and the change would replace its container: unlock it first", p.ID)
	}
	if apply(p, replace) {
		p.Run++
		recordChange(p, "Updated by User", now)
	}
	return nil
}

// recordChange records the latest event in a pod's life, and clears outdated members.
func recordChange(p *store.Pod, what string, now time.Time) {
	p.Changed, p.ChangedAt, p.Reason = what, now.UTC().Truncate(time.Millisecond), ""
	if p.Status != store.PodRunning {
		p.OpenPorts, p.NetworkIP = nil, ""
	}
	if p.Status != store.PodRunning && p.Status != store.PodStarting {
		p.Devices = nil
	}
}

// enumerate returns a text such as "stop, restart and terminate".
func enumerate(actions []Action) (text string) {
	for i, a := range actions {
		switch {
		case i == 0:
		case i == len(actions)-1:
			text += " and "
		default:
			text += ", "
		}
		text += string(a)
	}
	return text
}

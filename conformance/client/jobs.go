package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// States of a job.
const (
	inQueue    = "IN_QUEUE"
	inProgress = "IN_PROGRESS"
	completed  = "COMPLETED"
	cancelled  = "CANCELLED"
	failed     = "FAILED"
	timedOut   = "TIMED_OUT"
	gone       = "" // answered 404
)

// Sequences of states that reads of a job show; the last state stays.
var (
	completes = []string{inProgress, completed}
	cancels   = []string{inProgress, cancelled}
	expires   = []string{inProgress, gone}
)

// job is a job that the client submitted.
type job struct {
	id    string
	input json.RawMessage
	left  []string // states still to be shown
}

// nextState returns the state for this read.
func (j *job) nextState() string {
	now := j.left[0]
	if len(j.left) > 1 {
		j.left = j.left[1:]
	}
	return now
}

// parseJobPath parses a path of the job API. The first segments of the
// management API are no endpoint's.
func parseJobPath(path string) (name, id string, ok bool) {
	rest, under := strings.CutPrefix(path, "/v2/")
	endpoint, rest, more := strings.Cut(rest, "/")
	if !under || !more || endpoint == "" || reserved[endpoint] {
		return "", "", false
	}
	name, id, _ = strings.Cut(rest, "/")
	return name, id, true
}

var reserved = map[string]bool{
	"pods": true, "serverless": true, "templates": true, "network-volumes": true, "registries": true, "catalog": true, "billing": true,
	"clusters": true, "account": true, "openapi.json": true,
}

// createsAt tells whether a POST to a path creates an object or a job.
func createsAt(path string) bool {
	if k, id, ok := kindAt(path); ok {
		return id == "" && k.name != ""
	}
	name, _, ok := parseJobPath(path)
	return ok && (name == "run" || name == "runsync" || name == "openai")
}

// jobMethods are the operations of the job API.
var jobMethods = map[string]string{
	"run": http.MethodPost, "runsync": http.MethodPost, "status": http.MethodGet, "stream": http.MethodGet,
	"cancel": http.MethodPost, "retry": http.MethodPost, "purge-queue": http.MethodPost, "health": http.MethodGet, "requests": http.MethodGet,
}

// jobAPI answers requests of the job API.
func (d *deployment) jobAPI(name, id string, x *exchange) *reply {
	method, known := jobMethods[name]
	switch {
	case !known:
		return d.refusal(x, http.StatusNotFound, "the job API has no operation "+name)
	case method != x.request.Method:
		return d.refusal(x, http.StatusMethodNotAllowed, name+" is a "+method)
	}
	ok := func(body any) *reply { return &reply{status: http.StatusOK, body: body} }
	switch name {
	case "run", "runsync":
		return d.submit(name, x)
	case "purge-queue":
		return ok(object{"removed": 0, "status": "completed"})
	case "health":
		return ok(object{
			"jobs":    object{"completed": 0, "failed": 0, "inProgress": 0, "inQueue": 0, "retried": 0},
			"workers": object{"idle": 1, "running": 0},
		})
	case "requests":
		list := []object{}
		for _, j := range d.jobs {
			list = append(list, object{"id": j.id, "status": j.left[0]})
		}
		return ok(object{"requests": list})
	}
	j := d.jobs[id]
	if j == nil {
		return d.refusal(x, http.StatusNotFound, "there is no job "+id)
	}
	switch name {
	case "cancel":
		j.left = []string{cancelled}
		return ok(object{"id": id, "status": cancelled})
	case "retry":
		if now := j.left[0]; now != failed && now != timedOut {
			return d.refusal(x, http.StatusBadRequest, "only a job that FAILED or TIMED_OUT can be retried")
		}
		j.left = d.states
		return ok(object{"id": id, "status": inQueue})
	}
	state := j.nextState()
	if state == gone {
		return d.refusal(x, http.StatusNotFound, "there is no job "+id+": its time to live is over, or its result expired")
	}
	if name == "stream" {
		if state != completed {
			return ok([]object{})
		}
		return ok([]object{{"output": j.input}})
	}
	return ok(j.asJSON(state))
}

// asJSON returns the job as the API shows it.
func (j *job) asJSON(state string) object {
	o := object{"id": j.id, "status": state}
	switch state {
	case completed:
		o["output"], o["delayTime"], o["executionTime"] = j.input, 10, 20
	case cancelled:
		o["delayTime"], o["executionTime"] = 10, 20
	case inProgress:
		o["delayTime"] = 10
	}
	return o
}

func (d *deployment) submit(name string, x *exchange) *reply {
	var body struct {
		Input   json.RawMessage `json:"input"`
		Webhook string          `json:"webhook"`
	}
	if err := json.Unmarshal(x.body, &body); err != nil || len(body.Input) == 0 || body.Input[0] != '{' {
		return d.refusal(x, http.StatusBadRequest, "a submission is a JSON object whose input is an object")
	}
	d.made++
	j := &job{id: fmt.Sprintf("job-%d", d.made), input: body.Input, left: d.states}
	d.jobs[j.id] = j
	r := &reply{status: http.StatusOK, body: object{"id": j.id, "status": inQueue}}
	if name == "runsync" {
		r.body = j.asJSON(j.nextState())
	}
	if body.Webhook != "" {
		r.call, r.tell = body.Webhook, j.asJSON(completed)
	}
	return r
}

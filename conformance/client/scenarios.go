package client

import (
	"net/http"
	"strconv"
)

// scenario is the setting of one run of a client's command.
type scenario struct {
	id          string
	clause      string // that it is for; "" where those of all scenarios are judged
	description string // for people: what happens in it, and what the command is to do
	v1          bool   // the client is told to use version 1
	script      func() script
	course      []string // of its jobs; nil: they complete
	rules       []rule
}

// rule judges a clause by the requests and the output of a scenario.
type rule struct {
	clause string
	judge  func(p *scenarioRun) outcome
}

// commonRules apply in every scenario.
var commonRules = []rule{
	{"CLI-01", judgeBearerToken},
	{"CLI-08", judgeRepeatedRefusals},
	{"CLI-11", judgeSecretOutput},
}

// controlScenario is the scenario without faults: it tells a client's own failures
// from those that a script causes.
const controlScenario = "works"

var scenarios = []scenario{
	{id: controlScenario, description: "Nothing fails. A job that names a webhook has it called.", rules: []rule{{"CLI-03", judgeWebhookReceiver}}},
	{
		id: "rate-limit", clause: "CLI-02", description: "The first request is answered 429 three times.",
		script: rateLimited(3, 0), rules: []rule{{"CLI-02", judgeBackoff}},
	},
	{
		id: "retry-after", clause: "CLI-02", description: "The first request is answered 429 once, with Retry-After: 1.",
		script: rateLimited(1, 1), rules: []rule{{"CLI-02", judgeRetryAfter}},
	},
	{
		id: "create-error", clause: "CLI-07", description: "The first POST that makes something is answered 500, and made nothing.",
		script: failCreation(false), rules: []rule{{"CLI-07", judgeRepeatedCreation}},
	},
	{
		id: "create-lost", clause: "CLI-07", description: "The first POST that makes something makes it, and the connection drops.",
		script: failCreation(true), rules: []rule{{"CLI-07", judgeRepeatedCreation}},
	},
	{id: "bad-request", clause: "CLI-08", description: "Every request is answered 400.", script: refuse(http.StatusBadRequest, "the request is malformed")},
	{id: "forbidden", clause: "CLI-08", description: "Every request is answered 403.", script: refuse(http.StatusForbidden, "the key has no access to this")},
	{
		id: "job-expired", clause: "CLI-09", description: "A job is gone while the client waits for it: 404.",
		course: expires, rules: []rule{{"CLI-09", judgeExpiredJob}},
	},
	{
		id: "job-cancelled", clause: "CLI-10", description: "A job is CANCELLED while the client waits for it.",
		course: cancels, rules: []rule{{"CLI-10", judgeCancelledJob}},
	},
	{
		id: "shrink", clause: "CLI-04", rules: []rule{{"CLI-04", judgeShrink}},
		description: "Nothing fails. The command asks its client to make a network volume smaller: one that it made, or {volume_id}, which has 100 GB.",
	},
	{
		id: "name-taken", clause: "CLI-05", description: "The name of each template and registry auth that the client makes is taken.",
		script: refuseTakenNames, rules: []rule{{"CLI-05", judgeNameConflictMessage}},
	},
	{
		id: "retired", clause: "CLI-06", description: "Nothing fails. The client is told to use version 1.", v1: true,
		rules: []rule{{"CLI-06", judgeRetirementWarning}},
	},
	{id: "echo", clause: "CLI-11", description: "Every request is answered 401, with the key in the answer.", script: echoKey},
}

// rateLimited answers the first request 429, so many times; after is the Retry-After
// in seconds, 0 for none.
func rateLimited(times, after int) func() script {
	return func() script {
		var first *exchange
		return func(d *deployment, x *exchange, before []*exchange) *reply {
			if first == nil {
				first = x
			}
			if !x.sameAs(first) || len(before) >= times {
				return nil
			}
			r := d.refusal(x, http.StatusTooManyRequests, "the rate limit is exceeded")
			if after > 0 {
				r.header["Retry-After"] = strconv.Itoa(after)
			}
			return r
		}
	}
}

// failCreation fails the first creation, after the object was created (made) or
// instead of it.
func failCreation(made bool) func() script {
	return func() script {
		done := false
		return func(d *deployment, x *exchange, _ []*exchange) *reply {
			if done || !x.isCreation() {
				return nil
			}
			done = true
			if made {
				answer, _ := d.route(x).body.(object)
				if _, _, ok := kindAt(x.path()); ok {
					x.createdID = answer.text("id")
				}
				return &reply{dropConnection: true}
			}
			return d.refusal(x, http.StatusInternalServerError, "internal error")
		}
	}
}

func refuse(status int, detail string) func() script {
	return func() script {
		return func(d *deployment, x *exchange, _ []*exchange) *reply { return d.refusal(x, status, detail) }
	}
}

func refuseTakenNames() script {
	return func(d *deployment, x *exchange, _ []*exchange) *reply {
		k, id, ok := kindAt(x.path())
		if !ok || id != "" || !k.unique || x.request.Method != http.MethodPost {
			return nil
		}
		return d.nameTakenReply(k, x, nameIn(x.body))
	}
}

func echoKey() script {
	return func(d *deployment, x *exchange, _ []*exchange) *reply {
		r := d.refusal(x, http.StatusUnauthorized, "the key "+d.key+" was revoked (Authorization: Bearer "+d.key+")")
		r.header["X-Request-Id"] = "request-of-" + d.key
		return r
	}
}

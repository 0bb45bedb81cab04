package client

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
)

// scenario is the setting of one run of a client's command.
type scenario struct {
	id          string
	clause      string                    // that it is for; "" where those of all scenarios are judged
	description string                    // for people: what happens in it, and what the command is to do
	v1          bool                      // the client is told to use version 1
	faults      func() []*wirefault.Fault // nil: none
	rules       []rule
}

// rule judges a clause by the requests and the output of a scenario.
type rule struct {
	clause string
	judge  func(p *scenarioRun) suite.Outcome
}

// commonRules apply in every scenario.
var commonRules = []rule{
	{"CLI-01", judgeBearerToken},
	{"CLI-08", judgeRepeatedRefusals},
	{"CLI-11", judgeSecretOutput},
}

// controlScenario is the scenario without faults: it tells a client's own failures
// from those that the faults cause.
const controlScenario = "works"

// States of a job.
const (
	inProgress = "IN_PROGRESS"
	cancelled  = "CANCELLED"
)

// jobReads are the paths at which a client waits for a job.
const jobReads = `^/v2/[^/]+/(status|stream)/`

var scenarios = []scenario{
	{id: controlScenario, description: "Nothing fails. A job that names a webhook has it called.", rules: []rule{{"CLI-03", judgeWebhookReceiver}}},
	{
		id: "rate-limit", clause: "CLI-02", description: "The first request is answered 429 three times.",
		faults: one(func() *wirefault.Fault { return rateLimited(3, "") }), rules: []rule{{"CLI-02", judgeBackoff}},
	},
	{
		id: "retry-after", clause: "CLI-02", description: "The first request is answered 429 once, with Retry-After: 1.",
		faults: one(func() *wirefault.Fault { return rateLimited(1, "1") }), rules: []rule{{"CLI-02", judgeRetryAfter}},
	},
	{
		id: "create-error", clause: "CLI-07", description: "The first POST that makes something is answered 500, and made nothing.",
		faults: one(func() *wirefault.Fault {
			return firstCreation(refusal(http.StatusInternalServerError, "internal error"))
		}), rules: []rule{{"CLI-07", judgeRepeatedCreation}},
	},
	{
		id: "create-lost", clause: "CLI-07", description: "The first POST that makes something makes it, and the connection drops.",
		faults: one(func() *wirefault.Fault { return firstCreation(&wirefault.Fault{Drop: "after"}) }), rules: []rule{{"CLI-07", judgeRepeatedCreation}},
	},
	{
		id: "bad-request", clause: "CLI-08", description: "Every request is answered 400.",
		faults: one(func() *wirefault.Fault { return refusal(http.StatusBadRequest, "the request is malformed") }),
	},
	{
		id: "forbidden", clause: "CLI-08", description: "Every request is answered 403.",
		faults: one(func() *wirefault.Fault { return refusal(http.StatusForbidden, "the key has no access to this") }),
	},
	{
		id: "job-expired", clause: "CLI-09", description: "A job is gone while the client waits for it: 404.", rules: []rule{{"CLI-09", judgeExpiredJob}},
		faults: func() []*wirefault.Fault {
			return endingJobs(&wirefault.Fault{Request: wirefault.Edit{Path: [2]string{`$`, "-expired"}}})
		},
	},
	{
		id: "job-cancelled", clause: "CLI-10", description: "A job is CANCELLED while the client waits for it.", rules: []rule{{"CLI-10", judgeCancelledJob}},
		faults: func() []*wirefault.Fault {
			return endingJobs(&wirefault.Fault{Status: http.StatusOK, Answer: wirefault.Edit{Set: map[string]any{"status": cancelled}, Delete: []string{"output"}}})
		},
	},
	{
		id: "shrink", clause: "CLI-04", rules: []rule{{"CLI-04", judgeShrink}},
		description: "Nothing fails. The command asks its client to make a network volume smaller: one that it made, or {volume_id}, which has 100 GB.",
	},
	{
		id: "name-taken", clause: "CLI-05", description: "The name of each template and registry auth that the client makes is taken.", rules: []rule{{"CLI-05", judgeNameConflictMessage}},
		// Each is created twice, and the client gets the second answer.
		faults: one(func() *wirefault.Fault {
			return &wirefault.Fault{Method: http.MethodPost, Path: uniqueNames, Again: &wirefault.Edit{}}
		}),
	},
	{
		id: "retired", clause: "CLI-06", description: "Nothing fails. The client is told to use version 1.", v1: true,
		rules: []rule{{"CLI-06", judgeRetirementWarning}},
	},
	{id: "echo", clause: "CLI-11", description: "Every request is answered 401, with the key in the answer.", faults: one(echoedKey)},
}

func one(fault func() *wirefault.Fault) func() []*wirefault.Fault {
	return func() []*wirefault.Fault { return []*wirefault.Fault{fault()} }
}

// refusal answers requests in the deployment's place. The form is the deployment's own, which
// differs by API: it refuses the request for want of a key, and the fault changes its words.
func refusal(status int, detail string) *wirefault.Fault {
	return &wirefault.Fault{
		Request: wirefault.Edit{Header: map[string]string{"Authorization": ""}},
		Answer: wirefault.Edit{Status: status, Header: map[string]string{"Www-Authenticate": ""}, Raw: [][2]string{
			{`"status":401`, fmt.Sprintf(`"status":%d`, status)}, {`"Unauthorized"`, strconv.Quote(http.StatusText(status))},
			{`"(detail|message|error)":"[^"]*"`, `"$1":` + strconv.Quote(detail)},
		}},
	}
}

// rateLimited answers the first request 429, so many times; after is the Retry-After
// in seconds, "" for none.
func rateLimited(times int, after string) *wirefault.Fault {
	f := refusal(http.StatusTooManyRequests, "the rate limit is exceeded")
	f.First, f.Times, f.Answer.Header["Retry-After"] = true, times, after
	return f
}

// firstCreation restricts a fault to the first creation.
func firstCreation(f *wirefault.Fault) *wirefault.Fault {
	f.Method, f.Path, f.First, f.Times = http.MethodPost, creation, true, 1
	return f
}

// endingJobs shows every job as running once, and then as the fault says.
func endingJobs(ends *wirefault.Fault) []*wirefault.Fault {
	running := wirefault.Edit{Set: map[string]any{"status": inProgress}, Delete: []string{"output", "executionTime"}}
	ends.Path, ends.Skip = jobReads, 1
	return []*wirefault.Fault{
		{Method: http.MethodPost, Path: "/runsync$", Status: http.StatusOK, Answer: running},
		{Path: jobReads, Times: 1, Status: http.StatusOK, Answer: running}, ends,
	}
}

// echoedKey has a refusal contain the key that was sent.
func echoedKey() *wirefault.Fault {
	f := refusal(http.StatusUnauthorized, "")
	f.Answer.Raw = nil
	f.Answer.Header["X-Request-Id"] = "request-of-$SENT"
	f.Answer.Affix = map[string][2]string{}
	for _, member := range []string{"detail", "message", "error"} {
		f.Answer.Affix[member] = [2]string{"the key $SENT was revoked (Authorization: Bearer $SENT): ", ""}
	}
	return f
}

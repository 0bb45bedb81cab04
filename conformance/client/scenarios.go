package client

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
)

// scenario is the setting of one run of a client's command.
type scenario struct {
	id          string
	clause      string                             // the clause that the scenario is for
	judge       func(p *scenarioRun) suite.Outcome // judges that clause; nil if a common rule does
	description string                             // what happens, and what the command should do
	v1          bool                               // the environment selects version 1
	faults      string                             // JSON of package wirefault, separated by commas
}

// rule judges a clause by the requests and the output of a scenario.
type rule struct {
	clause string
	judge  func(p *scenarioRun) suite.Outcome
}

// commonRules judge every scenario.
var commonRules = []rule{{"CLI-01", judgeBearerToken}, {"CLI-08", judgeRepeatedRefusals}, {"CLI-11", judgeSecretOutput}}

// rules returns the rules that judge the scenario.
func (s scenario) rules() []rule {
	if s.judge == nil {
		return commonRules
	}
	return append(slices.Clip(commonRules), rule{s.clause, s.judge})
}

// controlScenario is the scenario without faults. It shows whether a client's failures are
// its own.
const controlScenario = "works"

// scenarios has all scenarios. In faults, $CREATION, $UNIQUE and $JOB are patterns of
// paths.
var scenarios = []scenario{
	{id: controlScenario, clause: "CLI-03", judge: judgeWebhookReceiver, description: "Nothing fails. A job that names a webhook has it called."},
	{id: "rate-limit", clause: "CLI-02", judge: judgeBackoff, description: "The first request is answered 429 three times.",
		faults: `{"first": true, "times": 3, "refuse": {"status": 429, "detail": "the rate limit is exceeded"}}`},
	{id: "retry-after", clause: "CLI-02", judge: judgeRetryAfter, description: "The first request is answered 429 once, with Retry-After: 1.",
		faults: `{"first": true, "times": 1, "refuse": {"status": 429, "detail": "the rate limit is exceeded"}, "answer": {"header": {"Retry-After": "1"}}}`},
	{id: "create-error", clause: "CLI-07", judge: judgeRepeatedCreation, description: "The first POST that creates an object is answered 500, and creates nothing.",
		faults: `{"method": "POST", "path": "$CREATION", "first": true, "times": 1, "refuse": {"status": 500, "detail": "internal error"}}`},
	{id: "create-lost", clause: "CLI-07", judge: judgeRepeatedCreation, description: "The first POST that creates an object creates it, and the connection drops.",
		faults: `{"method": "POST", "path": "$CREATION", "first": true, "times": 1, "drop": "after"}`},
	{id: "bad-request", clause: "CLI-08", description: "Every request is answered 400.", faults: `{"refuse": {"status": 400, "detail": "the request is malformed"}}`},
	{id: "forbidden", clause: "CLI-08", description: "Every request is answered 403.", faults: `{"refuse": {"status": 403, "detail": "the key has no access to this"}}`},
	{id: "job-expired", clause: "CLI-09", judge: judgeExpiredJob, description: "A job expires while the client waits for it: 404.",
		faults: runningOnce + `{"path": "$JOB", "skip": 1, "request": {"path": ["$", "-expired"]}}`},
	{id: "job-cancelled", clause: "CLI-10", judge: judgeCancelledJob, description: "A job is CANCELLED while the client waits for it.",
		faults: runningOnce + `{"path": "$JOB", "skip": 1, "status": 200, "answer": {"set": {"status": "CANCELLED"}, "delete": ["output"]}}`},
	{id: "shrink", clause: "CLI-04", judge: judgeShrink,
		description: "Nothing fails. The command tells its client to shrink a network volume: one that it created, or {volume_id}, which has 100 GB."},
	{id: "name-taken", clause: "CLI-05", judge: judgeNameConflictMessage, description: "The name of each template and registry auth that the client creates is taken.",
		faults: `{"method": "POST", "path": "$UNIQUE", "again": {}}`},
	{id: "retired", clause: "CLI-06", judge: judgeRetirementWarning, description: "Nothing fails. The environment selects version 1.", v1: true},
	{id: "echo", clause: "CLI-11", description: "Every request is answered 401, with the key in the answer.",
		faults: `{"refuse": {"status": 401, "detail": "the key $SENT was revoked (Authorization: Bearer $SENT)"}, "answer": {"header": {"X-Request-Id": "request-of-$SENT"}}}`},
}

// runningOnce makes each job appear as running once.
const runningOnce = `{"method": "POST", "path": "/runsync$", "status": 200, "answer": {"set": {"status": "IN_PROGRESS"}, "delete": ["output", "executionTime"]}},
	{"path": "$JOB", "times": 1, "status": 200, "answer": {"set": {"status": "IN_PROGRESS"}, "delete": ["output", "executionTime"]}},`

// newFaults returns the faults of the scenario. They have state, so each run needs its own.
func (s scenario) newFaults() (list []*wirefault.Fault) {
	text := strings.NewReplacer("$CREATION", creation, "$UNIQUE", uniqueNames, "$JOB", jobReads).Replace(s.faults)
	if err := json.Unmarshal([]byte("["+text+"]"), &list); err != nil {
		panic(err) // a test parses all faults
	}
	return list
}

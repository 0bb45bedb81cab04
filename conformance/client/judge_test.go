package client

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestJudgeWaits(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	for _, c := range []struct {
		waits []time.Duration
		want  report.Verdict
	}{
		{nil, report.Fail},
		{[]time.Duration{1 * ms}, report.Fail},
		{[]time.Duration{1 * ms, 2 * ms, 4 * ms}, report.Fail}, // grow, but are too short to count
		{[]time.Duration{1 * ms, 1 * ms, 90 * ms}, report.Fail},
		{[]time.Duration{500 * ms, 500 * ms, 500 * ms}, report.Fail},
		{[]time.Duration{1000 * ms, 1004 * ms, 1100 * ms}, report.Fail},
		{[]time.Duration{500 * ms}, report.Inconclusive},
		{[]time.Duration{500 * ms, 500 * ms}, report.Inconclusive}, // jitter may hide the growth
		{[]time.Duration{900 * ms, 300 * ms, 1200 * ms}, report.Inconclusive},
		{[]time.Duration{500 * ms, 1000 * ms}, report.Pass},
		{[]time.Duration{300 * ms, 800 * ms, 1100 * ms}, report.Pass},
	} {
		got := judgeWaits(c.waits)
		must.Hold(t, got.Verdict == c.want && (got.Verdict == report.Pass || got.Reason != ""), c.waits, "get", got.Verdict, got.Reason, "not", c.want)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Command: []string{"true"}, Select: []string{"works", "wroks"}}, `"wroks" is neither`},
		{Options{Command: []string{"true"}, Select: []string{"JOB-01"}}, `"JOB-01" is neither`},
		{Options{Command: []string{"true"}, APIVersion: "v3"}, `invalid API version "v3"`},
	} {
		_, err := Judge(t.Context(), c.o)
		must.Hold(t, err != nil && strings.Contains(err.Error(), c.want), c.o, "return the error", err, "instead of", c.want)
	}
}

// A secret is found anywhere in an output, even across writes and in parts that aren't kept.
func TestSecretIsFoundInOutput(t *testing.T) {
	t.Parallel()
	discarded := strings.Repeat("x", 3*keptBytes)
	for _, c := range []struct {
		name  string
		parts []string
		found bool
	}{
		{"none", []string{"secre", "cy", "ret"}, false},
		{"whole", []string{"the secret!"}, true},
		{"in parts", []string{"the s", "ec", "ret"}, true},
		{"between parts that are not kept", []string{discarded + "sec", "ret" + discarded}, true},
		{"nothing", nil, false},
	} {
		k := outputCapture{secrets: []string{"secret"}}
		for _, p := range c.parts {
			n, err := k.Write([]byte(p))
			must.Hold(t, n == len(p) && err == nil, c.name, "writes", n, "bytes of", len(p), err)
		}
		must.Equal(t, k.foundSecret, c.found, c.name, "found")
		must.Hold(t, len(k.text()) <= 2*keptBytes+10, c.name, len(k.text()), "bytes are kept")
	}
}

// newExchange is an exchange with an answer.
func newExchange(method, path string, status int, answer string) *exchange {
	return &exchange{path: path, Exchange: wire.Exchange{
		Request: wire.Request{Method: method, URL: path, Header: http.Header{"Authorization": {"Bearer key-of-the-test"}}}, Status: status, Body: []byte(answer),
	}}
}

// Two volumes with one name aren't replacements of each other.
func TestEqualVolumeNames(t *testing.T) {
	const path = "/v2/network-volumes"
	list := []*exchange{newExchange("POST", path, 201, `{"id":"a","name":"n","size":20}`), newExchange("POST", path, 201, `{"id":"b","name":"n","size":10}`), newExchange("DELETE", path+"/a", 204, ""), newExchange("DELETE", path+"/b", 204, "")}
	must.Hold(t, judgeShrink(&scenarioRun{exchanges: list[:3]}).Verdict == report.Fail && judgeShrink(&scenarioRun{exchanges: list}).Verdict == report.Skip, "b replaces a only if it remains")
}

// A killed command passes no clause of its scenario and fails those about exits. Common clauses judge its requests.
func TestKilledCommand(t *testing.T) {
	t.Parallel()
	const path = "/v2/endpoint-1/status/job-1"
	for _, c := range []struct {
		scenario, clause string
		x                *exchange
		want             report.Verdict
	}{
		{"job-expired", "CLI-09", newExchange("GET", path, 404, ""), report.Warn},
		{"job-cancelled", "CLI-10", newExchange("GET", path, 200, `{"status":"CANCELLED"}`), report.Warn},
		{"create-error", "CLI-07", newExchange("POST", "/v2/templates", 500, ""), report.Inconclusive},
		{"job-expired", "CLI-01", newExchange("GET", path, 404, ""), report.Pass},
	} {
		i := slices.IndexFunc(Scenarios, func(s Scenario) bool { return s.ID == c.scenario })
		run := &scenarioRun{scenario: Scenarios[i], key: "key-of-the-test", exchanges: []*exchange{c.x}, result: commandResult{code: -1, timedOut: true}}
		clause, _ := clauses.Find(c.clause)
		got := new(judge).result(clause, []*scenarioRun{run})
		must.Hold(t, got.Verdict == c.want, c.clause, "in", c.scenario, "gets", got.Verdict, got.Reason, "not", c.want)
	}
}

// A key in the path of a request isn't shown.
func TestKeyInPathIsNotShown(t *testing.T) {
	t.Parallel()
	run := &scenarioRun{key: "key-of-the-test", scenario: Scenarios[0], result: commandResult{code: 1}}
	for range 2 {
		run.exchanges = append(run.exchanges, newExchange("POST", "/v2/"+run.key, 404, ""))
	}
	j := new(judge)
	j.secrets.Add("GPUCLOUD_API_KEY", run.key)
	clause, _ := clauses.Find("CLI-08")
	text := fmt.Sprintf("%+v %s", j.result(clause, []*scenarioRun{run}).Failure, j.failedWithoutFault(run))
	must.Hold(t, strings.Contains(text, "/v2/$GPUCLOUD_API_KEY") && !strings.Contains(text, run.key), text)
}

// A client that polls an object after it was refused once repeats no refused read.
func TestPollAfterARefusal(t *testing.T) {
	refused, found := newExchange("GET", "/v2/pods/x", 404, ""), newExchange("GET", "/v2/pods/x", 200, "")
	must.Equal(t, judgeRepeatedRefusals(&scenarioRun{exchanges: []*exchange{refused, found, found, found, found}}).Verdict, report.Pass)
}

// A word in the output that may be about something else is inconclusive.
func TestAmbiguousWordsAreInconclusive(t *testing.T) {
	t.Parallel()
	refused := func(method, path, body string) *exchange {
		x := newExchange(method, path, 400, map[bool]string{true: "the name is taken by another template", false: "the image is missing"}[strings.Contains(body, "name")])
		x.Request.Body, x.Sent = []byte(body), suite.RetirementOfV1.Add(time.Hour)
		return x
	}
	filler := strings.Repeat(" and so on", 40)
	for _, c := range []struct {
		rule   func(*scenarioRun) suite.Outcome
		x      *exchange
		output string
		want   report.Verdict
	}{
		{judgeNameConflictMessage, refused("POST", "/v2/templates", `{"name":"mine"}`), "it failed", report.Fail},
		{judgeNameConflictMessage, refused("POST", "/v2/templates", `{"name":"mine"}`), "no existing configuration was found", report.Inconclusive},
		{judgeNameConflictMessage, refused("POST", "/v2/templates", `{"name":"mine"}`), "the name: mine" + filler + "no existing configuration", report.Inconclusive},
		{judgeNameConflictMessage, refused("POST", "/v2/templates", `{"name":"Mine"}`), "there is already a Mine", report.Pass},
		{judgeNameConflictMessage, refused("POST", "/v2/templates", `{"name":"mine"}`), "exist" + filler + "Its name is taken", report.Pass},
		{judgeNameConflictMessage, refused("POST", "/v2/templates", `{}`), "the image is missing", report.Skip},
		{judgeRetirementWarning, refused("GET", "/v1/templates", ""), "fine", report.Fail},
		{judgeRetirementWarning, refused("GET", "/v1/templates", ""), "DeprecationWarning: utcnow() is deprecated", report.Inconclusive},
		{judgeRetirementWarning, refused("GET", "/v1/templates", ""), "Warning: API v1 is deprecated", report.Pass},
	} {
		run := &scenarioRun{exchanges: []*exchange{c.x}, result: commandResult{code: 1, output: c.output}}
		got := c.rule(run)
		must.Hold(t, got.Verdict == c.want, c.output, "gets", got.Verdict, got.Reason, "not", c.want)
	}
}

// A creation may be repeated after a successful DELETE of the object that the first request created.
func TestRepeatAfterDelete(t *testing.T) {
	t.Parallel()
	answered := func(method, path string, status int) *exchange { return newExchange(method, path, status, "") }
	const path = "/v2/registries"
	post, list := answered("POST", path, 0), answered("GET", path, 200)
	post.servedStatus, post.served = 201, []byte(`{"id":"made1"}`)
	repeated, deleted := answered("POST", path, 201), answered("DELETE", path+"/made1", 204)
	for _, c := range []struct {
		name      string
		following []*exchange
		want      report.Verdict
	}{
		{"nothing between", []*exchange{repeated}, report.Fail},
		{"a list", []*exchange{list, repeated}, report.Fail},
		{"a DELETE", []*exchange{list, deleted, repeated}, report.Pass},
		{"a DELETE, and no list", []*exchange{deleted, repeated}, report.Pass},
		{"a DELETE that was refused", []*exchange{list, answered("DELETE", path+"/made1", 403), repeated}, report.Fail},
		{"a DELETE of another object", []*exchange{list, answered("DELETE", path+"/made2", 204), repeated}, report.Fail},
		{"a DELETE of another kind", []*exchange{list, answered("DELETE", "/v2/templates/made1", 204), repeated}, report.Fail},
		{"a DELETE afterwards", []*exchange{list, repeated, deleted}, report.Fail},
		{"no repetition", []*exchange{list, deleted}, report.Pass},
	} {
		got := judgeRepeatedCreation(&scenarioRun{exchanges: append([]*exchange{post}, c.following...)})
		must.Equal(t, got.Verdict, c.want, c.name, got.Reason)
	}
	for _, path := range []string{"/v2/account/secrets", "/v2/endpoint-1/batch", "/v2/endpoint-1/runsync"} {
		other := answered("POST", path, 0)
		other.servedStatus = 201
		got := judgeRepeatedCreation(&scenarioRun{exchanges: []*exchange{other, other}})
		must.Equal(t, got.Verdict, report.Fail, path, got.Reason)
	}
	post.servedStatus = 400
	got := judgeRepeatedCreation(&scenarioRun{exchanges: []*exchange{post, list, repeated}})
	must.Equal(t, got.Verdict, report.Pass, "a creation that was refused", got.Reason)
}

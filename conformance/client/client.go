// Package client judges clients of the management API and of the job API. It runs the
// client's command once for each scenario, against a jobrunner behind a proxy that injects faults, and
// judges the clauses about clients by the requests and the output. A clause about a
// situation that did not occur is skipped.
package client

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
)

// Area is the area of the clauses about clients.
const Area = "CLI"

// Defaults of the options, as in the flags of cmd/conformance.
const (
	defaultVersion = "v2"
	defaultTimeout = time.Minute
)

type Options struct {
	// Command is the client with its arguments. The placeholders {scenario}, {base_url}, {queue_url},
	// {endpoint_id}, {volume_id}, {api_version}, {api_key} and {dir} are replaced.
	Command []string
	// Jobrunner is the jobrunner's path. If it is empty, jobrunner is looked up beside this program, then on PATH.
	Jobrunner string
	Select    []string      // scenarios or clauses; if empty, all scenarios
	Timeout   time.Duration // limit of the command in one scenario; 0 means one minute
	// Parallel is how many scenarios run at a time. Zero is the number of CPUs, or one with SharedDir.
	Parallel int
	// SharedDir runs all scenarios in the current directory, with the user's home.
	// Otherwise each scenario has a copy of the directory and its own home.
	SharedDir bool
	// KeepDirs doesn't remove the directories of the scenarios.
	KeepDirs bool
	// APIVersion is the version of the management API in the client's environment, v1 or
	// v2. The default is v2. The scenario about the retirement of v1 always uses v1.
	APIVersion string
	// Strict judges a SHOULD as a MUST.
	Strict   bool
	Version  string                                 // of the suite, for the report
	Progress func(scenario string, done, total int) // called at the end of each scenario
}

// Judge judges a client. It returns an error if an option is invalid or a scenario can't be run,
// for example because the command can't be started. Everything else is in the report.
func Judge(ctx context.Context, o Options) (*report.Report, error) {
	j := &judge{Options: o, started: time.Now()}
	if err := j.prepare(); err != nil {
		return nil, err
	}
	runs, err := j.runAll(ctx)
	var removeErr error
	if !j.KeepDirs {
		removeErr = removeAll(j.root)
	}
	if err != nil {
		return nil, errors.Join(err, removeErr)
	}
	j.report(runs)
	if removeErr != nil {
		j.output.Notes = append(j.output.Notes, "the directories of the scenarios can't be removed: "+removeErr.Error())
	}
	j.output.Exit = conformance.ExitCode(j.output)
	if ctx.Err() != nil {
		j.output.Exit = conformance.ExitInterrupted
	}
	return j.output, nil
}

type judge struct {
	Options
	started   time.Time
	scenarios []Scenario
	clauses   []clauses.Clause
	userDir   string
	root      string // of all workspaces; "" with SharedDir
	secrets   wire.Secrets
	output    *report.Report
}

// prepare checks the options, selects the scenarios and creates the directory for them.
func (j *judge) prepare() error {
	j.APIVersion, j.Timeout = cmp.Or(j.APIVersion, defaultVersion), cmp.Or(j.Timeout, defaultTimeout)
	if j.Parallel == 0 && j.SharedDir {
		j.Parallel = 1 // scenarios share Terraform's state and its lock
	}
	j.Parallel = cmp.Or(j.Parallel, runtime.NumCPU())
	switch {
	case len(j.Command) == 0:
		return errors.New("the client's command is missing: conformance client -- command …")
	case j.APIVersion != "v1" && j.APIVersion != "v2":
		return fmt.Errorf("invalid API version %q: expected v1 or v2", j.APIVersion)
	case j.Timeout < 0:
		return fmt.Errorf("invalid timeout %s: expected more than 0, for example 1m", j.Timeout)
	case j.Parallel < 0:
		return fmt.Errorf("invalid number of parallel scenarios %d: expected 1 or more", j.Parallel)
	}
	if _, err := exec.LookPath(j.Command[0]); err != nil && !strings.Contains(j.Command[0], "{") {
		return startError(err)
	}
	if err := j.selectScenarios(); err != nil {
		return err
	}
	return j.createRoot()
}

// createRoot creates the parent directory of all workspaces, unless the scenarios share the current
// directory. Its name is short, since the paths of sockets, which clients may create, have at most about 100 bytes.
func (j *judge) createRoot() (err error) {
	if j.userDir, err = os.Getwd(); err != nil || j.SharedDir {
		return err
	}
	j.root, err = os.MkdirTemp("", "conf-")
	if err == nil {
		j.root, err = filepath.EvalSymlinks(j.root)
	}
	return err
}

// selectScenarios selects scenarios and clauses: for the name of a scenario all clauses that it
// judges, and for a clause all scenarios that judge it.
func (j *judge) selectScenarios() error {
	selects := func(name string) bool {
		return len(j.Select) == 0 || slices.ContainsFunc(j.Select, func(s string) bool { return strings.EqualFold(s, name) })
	}
	var scenarioNames []string
	known, judged := map[string]bool{}, map[string]bool{}
	for _, s := range Scenarios {
		scenarioNames = append(scenarioNames, s.ID)
		known[s.ID] = true
		selected := false
		for _, r := range s.rules() {
			known[strings.ToLower(r.clause)] = true
			if selects(s.ID) || selects(r.clause) {
				selected, judged[r.clause] = true, true
			}
		}
		if selected {
			j.scenarios = append(j.scenarios, s)
		}
	}
	for _, name := range j.Select {
		if !known[strings.ToLower(name)] {
			return fmt.Errorf("%q is neither a scenario (%s) nor a clause about clients", name, strings.Join(scenarioNames, ", "))
		}
	}
	j.clauses = slices.DeleteFunc(clauses.All(), func(c clauses.Clause) bool { return !judged[c.ID] })
	return nil
}

// runAll runs the command once for each scenario. If a scenario returns an error, the others are cancelled.
func (j *judge) runAll(ctx context.Context) ([]*scenarioRun, error) {
	group, runCtx := errgroup.WithContext(ctx)
	group.SetLimit(j.Parallel)
	runs := make([]*scenarioRun, len(j.scenarios))
	var mu sync.Mutex
	done := 0
	for i, s := range j.scenarios {
		runs[i] = &scenarioRun{scenario: s, interrupted: true} // replaced when it has run
		group.Go(func() error {
			if err := runCtx.Err(); err != nil {
				return err
			}
			run, err := j.runScenario(runCtx, s)
			if err != nil {
				return err
			}
			run.interrupted = runCtx.Err() != nil
			runs[i] = run
			mu.Lock()
			defer mu.Unlock()
			if done++; j.Progress != nil {
				j.Progress(s.ID, done, len(j.scenarios))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return nil, err
	}
	return runs, nil
}

func (j *judge) runScenario(ctx context.Context, s Scenario) (run *scenarioRun, err error) {
	w := &workspace{dir: j.userDir}
	if j.root != "" {
		if w, err = newWorkspace(filepath.Join(j.root, s.ID), j.userDir); err != nil {
			return nil, err
		}
		if !j.KeepDirs {
			defer func() { _ = removeAll(w.root) }() // Judge retries and reports an error
		}
	}
	f, err := startFront(ctx, j.Jobrunner, s.newFaults())
	if err != nil {
		return nil, err
	}
	j.secrets.Add("GPUCLOUD_API_KEY", f.key)
	c := j.command(s, f, w)
	commandCtx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	run = &scenarioRun{scenario: s, key: f.key, volume: f.volume, notes: w.notes}
	run.result, err = c.run(commandCtx)
	var stopErr error
	run.exchanges, run.calls, stopErr = f.close(ctx)
	return run, errors.Join(err, stopErr)
}

func (j *judge) command(s Scenario, f *front, w *workspace) command {
	version := j.APIVersion
	if s.v1 {
		version = "v1"
	}
	placeholders := strings.NewReplacer("{scenario}", s.ID, "{base_url}", f.url, "{queue_url}", f.url, "{endpoint_id}", f.endpoint,
		"{volume_id}", f.volume, "{api_version}", version, "{api_key}", f.key, "{dir}", w.dir)
	c := command{dir: w.dir, secrets: []string{f.key, base64.StdEncoding.EncodeToString([]byte(f.key))}, env: w.environment(map[string]string{
		"GPUCLOUD_BASE_URL": f.url, "GPUCLOUD_QUEUE_URL": f.url, "GPUCLOUD_API_KEY": f.key, "GPUCLOUD_API_VERSION": version,
		"GPUCLOUD_ENDPOINT_ID": f.endpoint, "CONFORMANCE_SCENARIO": s.ID, "CONFORMANCE_VOLUME_ID": f.volume,
	})}
	for _, arg := range j.Command {
		c.args = append(c.args, placeholders.Replace(arg))
	}
	c.args[0] = w.programPath(c.args[0], j.userDir)
	return c
}

// Scenario is the setting of one run of a client's command.
type Scenario struct {
	ID          string
	clause      string                               // the clause that the scenario is for
	judge       func(run *scenarioRun) suite.Outcome // judges that clause; nil if a common rule does
	Description string                               // what happens, and what the command should do
	v1          bool                                 // the environment selects version 1
	faults      string                               // JSON of package wirefault, separated by commas
}

func (s Scenario) Clauses() (list []string) {
	for _, r := range s.rules() {
		list = append(list, r.clause)
	}
	return list
}

// rule judges a clause by the requests and the output of a scenario.
type rule struct {
	clause string
	judge  func(run *scenarioRun) suite.Outcome
}

// commonRules judge every scenario.
var commonRules = []rule{{"CLI-01", judgeBearerToken}, {"CLI-08", judgeRepeatedRefusals}, {"CLI-11", judgeKeySecrecy}}

func (s Scenario) rules() []rule {
	if s.judge == nil {
		return commonRules
	}
	return append(slices.Clip(commonRules), rule{s.clause, s.judge})
}

// controlScenario is the scenario without faults. It shows whether a client's failures are its own.
const controlScenario = "works"

// Scenarios lists all scenarios in their order. In faults, $CREATION, $UNIQUE and $JOB are patterns of paths.
var Scenarios = []Scenario{
	{ID: controlScenario, clause: "CLI-03", judge: judgeWebhookReceiver, Description: "Nothing fails. If a job names a webhook, the webhook is called."},
	{ID: "rate-limit", clause: "CLI-02", judge: judgeBackoff, Description: "The first request is answered 429 three times.",
		faults: `{"first": true, "times": 3, "refuse": {"status": 429, "detail": "the rate limit is exceeded"}}`},
	{ID: "retry-after", clause: "CLI-02", judge: judgeRetryAfter, Description: "The first request is answered 429 once, with Retry-After: 1.",
		faults: `{"first": true, "times": 1, "refuse": {"status": 429, "detail": "the rate limit is exceeded"}, "answer": {"header": {"Retry-After": "1"}}}`},
	{ID: "create-error", clause: "CLI-07", judge: judgeRepeatedCreation, Description: "The first POST that creates an object is answered 500, and creates nothing.",
		faults: `{"method": "POST", "path": "$CREATION", "first": true, "times": 1, "refuse": {"status": 500, "detail": "internal error"}}`},
	{ID: "create-lost", clause: "CLI-07", judge: judgeRepeatedCreation, Description: "The first POST that creates an object creates it, and the connection drops.",
		faults: `{"method": "POST", "path": "$CREATION", "first": true, "times": 1, "drop": "after"}`},
	{ID: "bad-request", clause: "CLI-08", Description: "Every request is answered 400.", faults: `{"refuse": {"status": 400, "detail": "the request is malformed"}}`},
	{ID: "forbidden", clause: "CLI-08", Description: "Every request is answered 403.", faults: `{"refuse": {"status": 403, "detail": "the key has no access to this"}}`},
	{ID: "job-expired", clause: "CLI-09", judge: judgeExpiredJob, Description: "A job expires while the client waits for it: 404.",
		faults: runningOnce + `{"path": "$JOB", "skip": 1, "request": {"path": ["$", "-expired"]}}`},
	{ID: "job-cancelled", clause: "CLI-10", judge: judgeCancelledJob, Description: "A job is CANCELLED while the client waits for it.",
		faults: runningOnce + `{"path": "$JOB", "skip": 1, "status": 200, "answer": {"set": {"status": "CANCELLED"}, "delete": ["output"]}}`},
	{ID: "shrink", clause: "CLI-04", judge: judgeShrink,
		Description: "Nothing fails. The command tries to shrink a network volume: one that it created, or {volume_id}, which has 100 GB."},
	{ID: "name-taken", clause: "CLI-05", judge: judgeNameConflictMessage, Description: "The name of each template and registry auth that the client creates is taken.",
		faults: `{"method": "POST", "path": "$UNIQUE", "again": {}}`},
	{ID: "retired", clause: "CLI-06", judge: judgeRetirementWarning, Description: "Nothing fails. The environment selects version 1.", v1: true},
	{ID: "echo", clause: "CLI-11", Description: "Every request is answered 401, with the key in the answer.",
		faults: `{"refuse": {"status": 401, "detail": "the key $SENT was revoked (Authorization: Bearer $SENT)"}, "answer": {"header": {"X-Request-Id": "request-of-$SENT"}}}`},
}

// runningOnce makes each job appear as running once.
const runningOnce = `{"method": "POST", "path": "/runsync$", "status": 200, "answer": {"set": {"status": "IN_PROGRESS"}, "delete": ["output", "executionTime"]}},
	{"path": "$JOB", "times": 1, "status": 200, "answer": {"set": {"status": "IN_PROGRESS"}, "delete": ["output", "executionTime"]}},`

// newFaults returns the faults of the scenario. They have state, so each run needs its own.
func (s Scenario) newFaults() (list []*wirefault.Fault) {
	text := strings.NewReplacer("$CREATION", creation, "$UNIQUE", uniqueNames, "$JOB", jobReads).Replace(s.faults)
	if err := json.Unmarshal([]byte("["+text+"]"), &list); err != nil {
		panic(err) // a test parses all faults
	}
	return list
}

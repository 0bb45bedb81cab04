// Package client judges a client of the management API and of the job API: its
// command is run once for each scenario, against a deployment that is scripted to
// fail, and what it sends and prints is held against the clauses about clients.
// A clause for whose judgement the client gave no occasion is skipped, and
// never passes.
package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Area is the area of the clauses about clients.
const Area = "CLI"

// Options say what to judge, and how.
type Options struct {
	// Command is the client, and its arguments, in which the placeholders
	// {scenario}, {base_url}, {queue_url}, {endpoint_id}, {volume_id},
	// {api_version}, {api_key} and {dir} are filled in.
	Command []string
	Select  []string      // scenarios or clauses; none: all
	Timeout time.Duration // of a scenario; 0: a minute
	// Parallel is how many scenarios run at a time; 0: as many as there are CPUs,
	// or one where they share a directory.
	Parallel int
	// SharedDir runs all scenarios in the current directory, with the user's own
	// home. Otherwise each has a copy of that directory and a home to itself.
	SharedDir bool
	// KeepDirs keeps the directories of the scenarios.
	KeepDirs bool
	// APIVersion is the version of the management API that the client is told to
	// use, v1 or v2; "" is v2. The scenario on the retirement is always of v1.
	APIVersion string
	// Strict judges a SHOULD as a MUST.
	Strict   bool
	Version  string                                 // of the suite, for the report
	Progress func(scenario string, done, total int) // of each scenario that is over
}

// Scenario is a scenario for people.
type Scenario struct {
	ID      string
	Words   string   // what happens in it
	Clauses []string // that it can judge
}

// Scenarios are all scenarios, in the order in which they start.
func Scenarios() (list []Scenario) {
	for _, s := range scenarios {
		one := Scenario{ID: s.id, Words: s.words}
		for _, r := range s.allRules() {
			one.Clauses = append(one.Clauses, r.clause)
		}
		slices.Sort(one.Clauses)
		list = append(list, one)
	}
	return list
}

// allRules returns the rules of a scenario.
func (s scenario) allRules() []rule { return slices.Concat(commonRules, s.rules) }

// Judge judges a client. The error is about the options, or a command that can't
// be started; whatever the client does is in the report.
func Judge(ctx context.Context, o Options) (*report.Report, error) {
	j := &judge{Options: o, started: time.Now()}
	if err := j.open(); err != nil {
		return nil, err
	}
	plays, err := j.playAll(ctx)
	left := j.closeDirs()
	if err != nil {
		return nil, errors.Join(err, left)
	}
	j.report(plays)
	if left != nil {
		j.out.Notes = append(j.out.Notes, "the directories of the scenarios can't be removed: "+left.Error())
	}
	j.out.Exit = j.exitCode(ctx)
	return j.out, nil
}

type judge struct {
	Options
	started time.Time
	chosen  []scenario
	clauses []clauses.Clause
	userDir string
	layout  *layout // nil with SharedDir
	root    string  // of all workspaces
	key     string
	secrets wire.Secrets
	out     *report.Report

	mu   sync.Mutex
	done int
}

// open checks the options and fills in their defaults.
func (j *judge) open() error {
	if len(j.Command) == 0 {
		return errors.New("the client's command is missing: conformance client -- command …")
	}
	if _, err := exec.LookPath(j.Command[0]); err != nil && !strings.Contains(j.Command[0], "{") {
		return startError{err}
	}
	switch j.APIVersion {
	case "":
		j.APIVersion = "v2"
	case "v1", "v2":
	default:
		return fmt.Errorf("invalid API version %q: expected v1 or v2", j.APIVersion)
	}
	switch {
	case j.Timeout < 0:
		return fmt.Errorf("invalid timeout %s: expected more than 0, for example 1m", j.Timeout)
	case j.Parallel < 0:
		return fmt.Errorf("invalid number of parallel scenarios %d: expected 1 or more", j.Parallel)
	}
	if j.Timeout == 0 {
		j.Timeout = time.Minute
	}
	if j.Parallel == 0 {
		j.Parallel = runtime.NumCPU()
		if j.SharedDir {
			j.Parallel = 1 // one state, one lock
		}
	}
	j.key = "key-" + rand.Text()
	j.secrets.Add("GPUCLOUD_API_KEY", j.key)
	if err := j.choose(); err != nil {
		return err
	}
	return j.openDirs()
}

// openDirs reads the user's directory and makes the one that holds those of all
// scenarios. Its name is short: sockets are made below it, and their paths have
// about a hundred bytes.
func (j *judge) openDirs() (err error) {
	if j.userDir, err = os.Getwd(); err != nil || j.SharedDir {
		return err
	}
	if j.layout, err = newLayout(j.userDir); err != nil {
		return err
	}
	j.root, err = os.MkdirTemp("", "conf-")
	if err == nil {
		j.root, err = filepath.EvalSymlinks(j.root)
	}
	return err
}

// choose selects scenarios and clauses: a scenario with all clauses that it judges, or
// a clause with all scenarios that judge it.
func (j *judge) choose() error {
	known, wanted := map[string]bool{}, map[string]bool{}
	for _, s := range scenarios {
		plays := false
		for _, r := range s.allRules() {
			if len(j.Select) == 0 || j.isSelected(s.id) || j.isSelected(r.clause) {
				plays, wanted[r.clause] = true, true
			}
			known[s.id], known[strings.ToLower(r.clause)] = true, true
		}
		if plays {
			j.chosen = append(j.chosen, s)
		}
	}
	for _, name := range j.Select {
		if !known[strings.ToLower(name)] {
			return fmt.Errorf("%q is neither a scenario (%s) nor a clause about clients", name, strings.Join(scenarioNames(), ", "))
		}
	}
	for _, c := range clauses.All() {
		if c.Area() == Area && wanted[c.ID] {
			j.clauses = append(j.clauses, c)
		}
	}
	return nil
}

func (j *judge) isSelected(name string) bool {
	return slices.ContainsFunc(j.Select, func(s string) bool { return strings.EqualFold(s, name) })
}

func scenarioNames() (list []string) {
	for _, s := range scenarios {
		list = append(list, s.id)
	}
	return list
}

// closeDirs removes the directory that openDirs created.
func (j *judge) closeDirs() error {
	if j.root == "" || j.KeepDirs {
		return nil
	}
	return removeAll(j.root)
}

// playAll runs the command once for each scenario. The first that can't be
// started ends the others.
func (j *judge) playAll(ctx context.Context) ([]*play, error) {
	starting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	plays := make([]*play, len(j.chosen))
	free := make(chan struct{}, j.Parallel)
	var group sync.WaitGroup
	for i, s := range j.chosen {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			plays[i] = &play{scenario: s, interrupted: true}
			if starting.Err() != nil {
				return
			}
			p, err := j.playScenario(starting, s)
			if err != nil {
				stop(err)
				return
			}
			plays[i] = p
			p.interrupted = starting.Err() != nil
			j.reportStart(s)
		})
	}
	group.Wait()
	if ctx.Err() == nil && starting.Err() != nil {
		return nil, context.Cause(starting)
	}
	return plays, nil
}

func (j *judge) reportStart(s scenario) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done++
	if j.Progress != nil {
		j.Progress(s.id, j.done, len(j.chosen))
	}
}

// playScenario runs the command in one scenario.
func (j *judge) playScenario(ctx context.Context, s scenario) (p *play, err error) {
	w := &workspace{dir: j.userDir}
	if j.layout != nil {
		if w, err = j.layout.newWorkspace(filepath.Join(j.root, s.id)); err != nil {
			return nil, err
		}
		if !j.KeepDirs {
			defer func() { _ = w.remove() }() // Judge removes what is left, and tells
		}
	}
	var does script
	if s.script != nil {
		does = s.script()
	}
	d, err := startDeployment(j.key, does, s.course)
	if err != nil {
		return nil, err
	}
	version := j.APIVersion
	if s.v1 {
		version = "v1"
	}
	fill := strings.NewReplacer("{scenario}", s.id, "{base_url}", d.url, "{queue_url}", d.url, "{endpoint_id}", endpointID,
		"{volume_id}", volumeID, "{api_version}", version, "{api_key}", j.key, "{dir}", w.dir)
	c := command{dir: w.dir, secrets: []string{j.key, base64.StdEncoding.EncodeToString([]byte(j.key))}, env: w.environment(map[string]string{
		"GPUCLOUD_BASE_URL": d.url, "GPUCLOUD_QUEUE_URL": d.url, "GPUCLOUD_API_KEY": j.key, "GPUCLOUD_API_VERSION": version,
		"GPUCLOUD_ENDPOINT_ID": endpointID, "CONFORMANCE_SCENARIO": s.id, "CONFORMANCE_VOLUME_ID": volumeID,
	})}
	for _, arg := range j.Command {
		c.args = append(c.args, fill.Replace(arg))
	}
	c.args[0] = w.programPath(c.args[0], j.userDir)
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	ended, err := c.run(ctx)
	d.close()
	return &play{scenario: s, key: j.key, exchanges: d.recording.all(), ending: ended, calls: d.webhookCalls(), unserved: d.unservedRequests()}, err
}

// report fills the report with a result for each clause.
func (j *judge) report(plays []*play) {
	j.out = &report.Report{
		Schema: report.Schema, Version: j.Version, Started: j.started, Dialect: "described", Target: report.Target{Local: true},
		Notes: []string{"judged: " + j.secrets.Redact(shellLine(j.Command))},
	}
	if j.layout != nil {
		j.out.Notes = append(j.out.Notes, j.layout.notes...)
	}
	if j.root != "" && j.KeepDirs {
		j.out.Notes = append(j.out.Notes, "the directories of the scenarios are in "+j.root)
	}
	if !slices.ContainsFunc(plays, func(p *play) bool { return p.scenario.id == controlScenario }) {
		j.out.Notes = append(j.out.Notes, "the scenario "+controlScenario+" was not chosen: whether the client works where nothing fails is not known")
	}
	interrupted := false
	var silent []string // scenarios without a request
	for _, p := range plays {
		interrupted = interrupted || p.interrupted
		if len(p.exchanges) == 0 && !p.interrupted {
			silent = append(silent, p.scenario.id)
		}
		j.out.Requests += int64(len(p.exchanges))
		for _, x := range p.exchanges {
			if _, _, ok := parseJobPath(x.path()); ok && x.isCreation() && x.succeeded() {
				j.out.Jobs++
			}
		}
	}
	if j.out.Requests == 0 && !interrupted {
		j.out.Preflight = "no request came: the client has to take the deployment's address from GPUCLOUD_BASE_URL or {base_url}"
		if len(plays) > 0 {
			j.out.Preflight += "; " + j.describeEnding(plays[0])
		}
	} else {
		if len(silent) > 0 {
			j.out.Notes = append(j.out.Notes, "no request came in "+strings.Join(silent, ", "))
		}
		for _, p := range plays {
			if text := j.failedWithoutFault(p); text != "" {
				j.out.Failed = append(j.out.Failed, text)
			}
		}
	}
	for _, c := range j.clauses {
		j.out.Results = append(j.out.Results, j.result(c, plays))
	}
	j.blockWithoutKey()
	j.out.Duration = report.Duration(time.Since(j.started))
	j.out.TargetTime = j.out.Duration
	j.out.Count()
}

// failedWithoutFault says how a client failed in the scenario without faults, "" where
// it did not: other results of a client that fails there mean little.
func (j *judge) failedWithoutFault(p *play) string {
	how := ""
	switch succeeded := slices.ContainsFunc(p.exchanges, (*exchange).succeeded); {
	case p.scenario.id != controlScenario || p.interrupted:
		return ""
	case len(p.exchanges) == 0:
		how = "it sent no request"
	case p.ending.timeout || p.ending.code != 0:
		how = "it failed"
	case !succeeded:
		how = "none of its requests succeeded"
	default:
		return ""
	}
	text := "in the scenario " + controlScenario + ", in which nothing is scripted to fail, " + how + ": " + j.describeEnding(p)
	if len(p.unserved) > 0 {
		text += "\nThe scripted deployment does not serve what it asked for: " + strings.Join(p.unserved, ", ")
	}
	return text + "\nrepeat: " + j.repeatCommand(p.scenario.id, "--keep-dirs ")
}

// result returns the worst result that the scenarios have for a clause.
func (j *judge) result(c clauses.Clause, plays []*play) report.Result {
	worst := outcome{verdict: report.Skip, reason: "no scenario judges it"}
	for _, p := range plays {
		for _, r := range p.scenario.allRules() {
			if r.clause != c.ID {
				continue
			}
			o := r.judge(p)
			if p.interrupted {
				o = inconclusive("the run was interrupted before the end of the scenario %s", p.scenario.id)
			}
			own := slices.ContainsFunc(p.scenario.rules, func(one rule) bool { return one.clause == r.clause })
			if own && p.ending.timeout && o.verdict == report.Pass {
				o = inconclusive("in the scenario %s, %s", p.scenario.id, p.describeEnd())
			}
			// Of two without a verdict, the scenario for that clause has the reason.
			better := slices.Index(verdictOrder, o.verdict) < slices.Index(verdictOrder, worst.verdict)
			if worst.play == nil || better || o.verdict == worst.verdict && p.scenario.clause == c.ID && worst.play.scenario.clause != c.ID {
				worst, worst.play = o, p
			}
		}
	}
	res := report.Result{
		Clause: c.ID, Area: c.Area(), Level: string(c.Level), Source: c.Source, Statement: c.Statement, Link: c.Link(),
		Verdict: worst.verdict, Reason: j.secrets.Redact(worst.reason),
	}
	if worst.play != nil {
		res.Case = worst.play.scenario.id
	}
	switch worst.verdict {
	case report.Skip:
		res.Code = report.SkipFeature
	case report.Fail:
		if c.Level != suite.Must && !j.Strict {
			res.Verdict = report.Warn
		}
		res.Failure = j.failure(c, worst)
		res.Trace = j.trace(worst.play)
	case report.Inconclusive:
		res.Trace = j.trace(worst.play)
	}
	return res
}

func (j *judge) failure(c clauses.Clause, o outcome) *report.Failure {
	f := *o.failure
	f.Steps = fmt.Sprintf("the scenario %s: %s", o.play.scenario.id, o.play.scenario.words)
	f.Statement = fmt.Sprintf("%s (%s)", c.Statement, c.Source)
	f.Actual = j.secrets.Redact(f.Actual)
	f.Curl = j.repeatCommand(o.play.scenario.id, "")
	return &f
}

// repeatCommand returns the command that repeats a scenario.
func (j *judge) repeatCommand(scenario, options string) string {
	if j.SharedDir {
		options = "--shared-dir "
	}
	return "conformance client " + options + "--select " + scenario + " -- " + j.secrets.Redact(shellLine(j.Command))
}

// blockWithoutKey marks clauses without an occasion as blocked by CLI-01 where no
// request had the key.
func (j *judge) blockWithoutKey() {
	first := slices.IndexFunc(j.out.Results, func(r report.Result) bool { return r.Clause == "CLI-01" })
	if first < 0 || j.out.Results[first].Verdict != report.Fail {
		return
	}
	for i := range j.out.Results {
		if r := &j.out.Results[i]; r.Verdict == report.Skip {
			r.Verdict, r.Code, r.By = report.Blocked, "", "CLI-01"
		}
	}
}

// exitCode returns the exit code of the program, as for a run.
func (j *judge) exitCode(ctx context.Context) int {
	n := j.out.Counts
	switch {
	case ctx.Err() != nil:
		return conformance.ExitInterrupted
	case j.out.Preflight != "":
		return conformance.ExitInconclusive
	case n[report.Fail] > 0 || len(j.out.Failed) > 0:
		return conformance.ExitFailed
	case n[report.Inconclusive] > 0 || j.out.Judged() == 0:
		return conformance.ExitInconclusive
	}
	return conformance.ExitConformant
}

// shellLine quotes a command for a shell.
func shellLine(args []string) string {
	var quoted []string
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`&|;<>()*?[]#~!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		quoted = append(quoted, a)
	}
	return strings.Join(quoted, " ")
}

// maxTrace bounds the bytes of a body in a report.
const maxTrace = 4096

// describeEnding says how a command ended, with the end of its output.
func (j *judge) describeEnding(p *play) string {
	text := p.describeEnd()
	if lines := lastLines(j.secrets.Redact(p.ending.output)); lines != "" {
		return text + "; its last output:\n" + lines
	}
	return text + " and printed nothing"
}

func (j *judge) trace(p *play) (list []report.Exchange) {
	cut := func(b []byte) string {
		return j.secrets.Cut(b, maxTrace)
	}
	header := func(h map[string][]string) map[string][]string {
		out := maps.Clone(h)
		for name, values := range out {
			shown := make([]string, len(values))
			for i, v := range values {
				shown[i] = j.secrets.Redact(v)
			}
			out[name] = shown
		}
		return out
	}
	for _, x := range p.exchanges {
		e := report.Exchange{
			At: report.Duration(x.came.Sub(p.exchanges[0].came)), Took: report.Duration(x.answered.Sub(x.came)), Started: x.came,
			Method: x.request.Method, URL: j.secrets.Redact(x.request.URL.String()), Sent: header(x.request.Header),
			Body: cut(x.body), BodySize: len(x.body), Status: x.status, Header: header(x.header), Answer: cut(x.answer), Size: len(x.answer),
		}
		if x.status == 0 {
			e.Failed = "the connection was dropped, as the scenario has it"
		}
		list = append(list, e)
	}
	return list
}

// Package client judges a client of the management API and of the job API: its
// command is run once for each scenario, against a deployment that is scripted to
// fail, and what it sends and prints is held against the clauses about clients.
// A clause that the client gave no occasion to judge is skipped, and never
// passed.
package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Area is the area of the clauses about clients.
const Area = "CLI"

// Options say what to judge, and how.
type Options struct {
	// Command is the client, and its arguments, in which the placeholders
	// {scenario}, {base_url}, {queue_url}, {endpoint_id}, {volume_id} and
	// {api_version} are filled in.
	Command []string
	Select  []string      // scenarios or clauses; none: all
	Timeout time.Duration // of a scenario; 0: a minute
	// Parallel is how many scenarios run at a time; 0: as many as there are CPUs.
	Parallel int
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
		for _, r := range s.all() {
			one.Clauses = append(one.Clauses, r.clause)
		}
		slices.Sort(one.Clauses)
		list = append(list, one)
	}
	return list
}

// all are the rules of a scenario.
func (s scenario) all() []rule { return slices.Concat(everywhere, s.rules) }

// Judge judges a client. The error is about the options, or a command that can't
// be started; whatever the client does is in the report.
func Judge(ctx context.Context, o Options) (*report.Report, error) {
	j := &judge{Options: o, started: time.Now()}
	if err := j.open(); err != nil {
		return nil, err
	}
	plays, err := j.playAll(ctx)
	if err != nil {
		return nil, err
	}
	j.report(plays)
	j.out.Exit = j.exit(ctx)
	return j.out, nil
}

type judge struct {
	Options
	started time.Time
	chosen  []scenario
	clauses []clauses.Clause
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
	if _, err := exec.LookPath(j.Command[0]); err != nil {
		return fmt.Errorf("the client's command can't be run: %w", err)
	}
	switch j.APIVersion {
	case "":
		j.APIVersion = "v2"
	case "v1", "v2":
	default:
		return fmt.Errorf("%q is no version of the management API: v1 or v2", j.APIVersion)
	}
	if j.Timeout == 0 {
		j.Timeout = time.Minute
	}
	if j.Parallel == 0 {
		j.Parallel = runtime.NumCPU()
	}
	j.key = "key-" + rand.Text()
	j.secrets.Add("GPUCLOUD_API_KEY", j.key)
	return j.choose()
}

// choose finds the scenarios and clauses that are asked for: a scenario with all
// that it judges, or a clause with all scenarios that judge it.
func (j *judge) choose() error {
	known, wanted := map[string]bool{}, map[string]bool{}
	for _, s := range scenarios {
		plays := false
		for _, r := range s.all() {
			if len(j.Select) == 0 || j.asks(s.id) || j.asks(r.clause) {
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
			return fmt.Errorf("%q is neither a scenario (%s) nor a clause about clients", name, strings.Join(names(), ", "))
		}
	}
	for _, c := range clauses.All() {
		if c.Area() == Area && wanted[c.ID] {
			j.clauses = append(j.clauses, c)
		}
	}
	return nil
}

func (j *judge) asks(name string) bool {
	return slices.ContainsFunc(j.Select, func(s string) bool { return strings.EqualFold(s, name) })
}

func names() (list []string) {
	for _, s := range scenarios {
		list = append(list, s.id)
	}
	return list
}

// playAll runs the command once for each scenario.
func (j *judge) playAll(ctx context.Context) ([]*play, error) {
	plays, errs := make([]*play, len(j.chosen)), make([]error, len(j.chosen))
	free := make(chan struct{}, j.Parallel)
	var group sync.WaitGroup
	for i, s := range j.chosen {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			if ctx.Err() != nil {
				plays[i] = &play{scenario: s}
				return
			}
			plays[i], errs[i] = j.play(ctx, s)
			j.tell(s)
		})
	}
	group.Wait()
	return plays, errors.Join(errs...)
}

func (j *judge) tell(s scenario) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done++
	if j.Progress != nil {
		j.Progress(s.id, j.done, len(j.chosen))
	}
}

// play runs the command in one scenario.
func (j *judge) play(ctx context.Context, s scenario) (*play, error) {
	var does script
	if s.script != nil {
		does = s.script()
	}
	d, err := deploy(j.key, does, s.course)
	if err != nil {
		return nil, err
	}
	version := j.APIVersion
	if s.v1 {
		version = "v1"
	}
	fill := strings.NewReplacer("{scenario}", s.id, "{base_url}", d.url, "{queue_url}", d.url, "{endpoint_id}", endpointID,
		"{volume_id}", volumeID, "{api_version}", version)
	c := command{secrets: []string{j.key, base64.StdEncoding.EncodeToString([]byte(j.key))}, env: environment(map[string]string{
		"GPUCLOUD_BASE_URL": d.url, "GPUCLOUD_QUEUE_URL": d.url, "GPUCLOUD_API_KEY": j.key, "GPUCLOUD_API_VERSION": version,
		"GPUCLOUD_ENDPOINT_ID": endpointID, "CONFORMANCE_SCENARIO": s.id, "CONFORMANCE_VOLUME_ID": volumeID,
	})}
	for _, arg := range j.Command {
		c.args = append(c.args, fill.Replace(arg))
	}
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	ended, err := c.run(ctx)
	d.close()
	return &play{scenario: s, key: j.key, exchanges: d.tape.all(), ending: ended, calls: d.hooked()}, err
}

// report fills the report with a result for each clause.
func (j *judge) report(plays []*play) {
	j.out = &report.Report{
		Schema: report.Schema, Version: j.Version, Started: j.started, Dialect: "described", Target: report.Target{Local: true},
		Notes: []string{"judged: " + j.secrets.Redact(shellLine(j.Command))},
	}
	for _, p := range plays {
		j.out.Requests += int64(len(p.exchanges))
		for _, x := range p.exchanges {
			if _, _, ok := operation(x.path()); ok && x.makes() && x.success() {
				j.out.Jobs++
			}
		}
		if p.scenario.id == "works" && p.ending.code != 0 && len(p.exchanges) > 0 {
			j.out.Notes = append(j.out.Notes, "though nothing failed in the scenario works, "+p.ended()+": "+j.lastWords(p))
		}
	}
	if j.out.Requests == 0 {
		j.out.Preflight = "no request came: the client has to take the deployment's address from GPUCLOUD_BASE_URL or {base_url}"
		if len(plays) > 0 {
			j.out.Preflight += "; " + plays[0].ended() + ": " + j.lastWords(plays[0])
		}
	}
	for _, c := range j.clauses {
		j.out.Results = append(j.out.Results, j.result(c, plays))
	}
	j.block()
	j.out.Took = report.Duration(time.Since(j.started))
	j.out.Passed = j.out.Took
	j.out.Count()
}

// result is the worst that the scenarios say of a clause.
func (j *judge) result(c clauses.Clause, plays []*play) report.Result {
	worst := outcome{verdict: report.Skip, reason: "no scenario judges it"}
	for _, p := range plays {
		for _, r := range p.scenario.all() {
			if r.clause != c.ID {
				continue
			}
			o := r.judge(p)
			own := slices.ContainsFunc(p.scenario.rules, func(one rule) bool { return one.clause == r.clause })
			if own && p.ending.timeout && o.verdict == report.Pass {
				o = unclear("in the scenario %s, %s", p.scenario.id, p.ended())
			}
			// Of two that say nothing, the scenario that is for the clause tells why.
			better := slices.Index(order, o.verdict) < slices.Index(order, worst.verdict)
			if worst.play == nil || better || o.verdict == worst.verdict && p.scenario.clause == c.ID && worst.play.scenario.clause != c.ID {
				worst, worst.play = o, p
			}
		}
	}
	res := report.Result{
		Clause: c.ID, Area: c.Area(), Level: string(c.Level), Source: c.Source, Statement: c.Statement,
		Verdict: worst.verdict, Reason: j.secrets.Redact(worst.reason),
	}
	if worst.play != nil {
		res.Case = worst.play.scenario.id
	}
	switch worst.verdict {
	case report.Skip:
		res.Code = report.SkipFeature
	case report.Fail:
		if c.Level != clauses.Must && !j.Strict {
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
	f.Did = fmt.Sprintf("the scenario %s: %s", o.play.scenario.id, o.play.scenario.words)
	f.Says = fmt.Sprintf("%s (%s)", c.Statement, c.Source)
	f.Came = j.secrets.Redact(f.Came)
	f.Curl = "conformance client --select " + o.play.scenario.id + " -- " + j.secrets.Redact(shellLine(j.Command))
	return &f
}

// block says of clauses that had no occasion, because no request came as far,
// that they stand on the key.
func (j *judge) block() {
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

// exit is the code by which the program ends, as that of a run.
func (j *judge) exit(ctx context.Context) int {
	n := j.out.Counts
	switch {
	case ctx.Err() != nil:
		return conformance.ExitInterrupted
	case j.out.Preflight != "":
		return conformance.ExitInconclusive
	case n[report.Fail] > 0:
		return conformance.ExitFailed
	case n[report.Inconclusive] > 0:
		return conformance.ExitInconclusive
	}
	return conformance.ExitConformant
}

// shellLine is a command to be pasted into a shell.
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

// What of a run is shown.
const (
	maxTrace = 4096
	maxWords = 400
)

// lastWords is the end of what the command printed.
func (j *judge) lastWords(p *play) string {
	text := strings.Join(strings.Fields(j.secrets.Redact(p.ending.output)), " ")
	switch {
	case text == "":
		return "without a word"
	case len(text) > maxWords:
		return "… " + strings.ToValidUTF8(text[len(text)-maxWords:], "")
	}
	return text
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

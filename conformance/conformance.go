// Package conformance judges a deployment of the management API (versions 1 and 2) and of
// the job API by HTTP requests. It shares no code with the deployments that it judges.
//
// A clause is one checkable statement of the service description, with an id such as
// JOB-17. A case is the function that judges a clause; some clauses have several cases. A
// kind is a kind of management object, such as template or pod. A mutant is a jobrunner
// with one fault, which the suite must detect. A variant is a deployment that differs from
// the jobrunner where the contract leaves a choice, which the suite must not fail.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Target is a deployment to judge.
type Target = env.Target

// Permission lists the actions that cases may perform on a target besides reading.
type Permission = suite.Permission

type Options struct {
	Target Target
	Select []string // patterns of clauses, see `conformance run --help`; if empty, all clauses
	// Allow is ignored if the target is local, since there everything is allowed.
	Allow suite.Permission
	// MaxWait is how long a case may wait if the clock can't be advanced. Zero is five minutes.
	MaxWait time.Duration
	// MaxRequests and MaxSeconds bound the requests and the seconds of worker time at a
	// target that isn't local. 0 means unlimited. Cases that exceed the bounds are skipped.
	MaxRequests int
	MaxSeconds  float64
	Parallel    int    // cases that run concurrently; 0 is eight
	Seed        uint64 // decides the order of the cases and their random values; 0 is a new seed
	// Reruns is how often a failed case is run again. If it then passes, a MUST is INCONCLUSIVE.
	Reruns int
	Known  Known
	// Ledger is the file that lists the objects created at a target that is not local.
	Ledger  string
	Pace    *env.Pace // nil: no rate limit
	Version string    // of the suite, for the report
	// Implementation names what is judged in the report, unless it is nil.
	Implementation *report.Implementation
	// Defer, if not nil, receives the cases that would wait for longer than MaxWait; their
	// objects stay at the target. Cases that it holds from an earlier run resume.
	Defer *DeferredCases
	// Progress is called at the start and at the end of each case.
	Progress func(Progress)
}

type Progress struct {
	Done, Total int
	Running     []string       // ids of the running cases
	Result      *report.Result // of the case that has ended; nil at the start of a case
}

// Exit codes of a run.
const (
	ExitConformant   = 0
	ExitFailed       = 1 // a MUST is violated, a client fails in the scenario without faults, or the list of known deviations is stale
	ExitUsage        = 2 // an option is invalid, or the client's command can't be started
	ExitInconclusive = 3 // the evidence doesn't suffice, nothing was judged, or the suite has an error
	ExitLeaked       = 4 // an object that the suite created was not deleted
	ExitInterrupted  = 130
)

// Judge judges a target. An error is about the options; faults of the target are in the report.
func Judge(ctx context.Context, o Options) (*report.Report, error) {
	chosen, err := o.clauses()
	if err != nil {
		return nil, err
	}
	switch o.Target.Key {
	case "":
		return nil, errors.New("the target's API key is missing: set GPUCLOUD_API_KEY")
	case o.Target.OtherKey, o.Target.UserKey:
		return nil, errors.New("GPUCLOUD_OTHER_API_KEY and GPUCLOUD_USER_API_KEY must not be the key of GPUCLOUD_API_KEY")
	}
	r := &run{Options: o, started: time.Now()}
	r.setDefaults()
	r.report = &report.Report{
		Schema: report.Schema, Version: o.Version, Implementation: o.Implementation, Documents: clauses.Documents, Started: r.started, Seed: r.Seed, Dialect: "described",
		Target: report.Target{
			BaseURL: r.Target.V2(), BaseURLV1: r.Target.V1(), QueueURL: r.Target.Queue(), Endpoint: r.Target.Endpoint, Local: r.Target.Local,
		},
	}
	if r.Target.Live {
		r.report.Dialect = "live"
		for i := range chosen {
			chosen[i].Level = cmp.Or(chosen[i].Live.Level, chosen[i].Level)
		}
	}
	if err := r.setUp(ctx); err != nil {
		return nil, err
	}
	r.judge(ctx, chosen)
	r.finish(ctx)
	return r.report, nil
}

func (o *Options) clauses() ([]clauses.Clause, error) {
	if t := &o.Target; !t.HasV2() && !t.HasV1() && (t.Queue() == "" || t.Endpoint == "") {
		return nil, errors.New("nothing to judge: give --base-url for the management API, --queue-url and --endpoint-id for the job API, or --local")
	}
	return Clauses(o.Select)
}

type run struct {
	Options
	env        *env.Env
	started    time.Time
	targetTime time.Time // at the start, by the target's clock
	report     *report.Report
	watch      *exchangeWatch
	clockFault error         // why the target's clock can't be advanced
	workers    chan struct{} // has a slot for each worker of Target.Endpoint

	mu      sync.Mutex
	done    int
	running []string
}

const defaultMaxWait = 5 * time.Minute

func (r *run) setDefaults() {
	r.Parallel, r.MaxWait = cmp.Or(r.Parallel, 8), cmp.Or(r.MaxWait, defaultMaxWait)
	r.Seed = cmp.Or(r.Seed, rand.Uint64()>>11+1) // exact as a number in JSON
	if r.Target.Local {
		r.Allow, r.MaxRequests, r.MaxSeconds = ^suite.Permission(0), 0, 0
	}
	if r.Target.Advance != nil && hasManagementAPI(&r.Target) && r.Allow&suite.Create != 0 {
		r.Target.Endpoint = "" // the clock can't wait for workers that cases share
	}
}

func (r *run) setUp(ctx context.Context) error {
	clock := env.NewClock(r.Parallel)
	if r.Target.Advance != nil {
		ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
		defer cancel()
		r.clockFault = clock.Control(ctx, &r.Target)
	}
	r.env = env.New(&r.Target, clock)
	r.env.Pace, r.env.Seed, r.env.MaxRequests = r.Pace, r.Seed, r.MaxRequests
	ledger, err := env.OpenLedger(r.Ledger)
	if err != nil {
		return err
	}
	r.env.Ledger, ledger.Deployment = ledger, cmp.Or(r.Target.BaseURL, r.Target.QueueURL, r.Target.BaseURLV1)
	// The objects may belong to a run that hasn't ended, or to another deployment.
	if n := ledger.Drop(func(o env.Object) bool { return !r.Defer.hasJournal(o.Case) }); n > 0 {
		r.report.Notes = []string{fmt.Sprintf("%s lists %s of earlier runs. If those runs have ended, delete the objects with: conformance sweep --ledger %[1]s", r.Ledger, report.Count(n, "object"))}
	}
	r.targetTime = clock.Now()
	return nil
}

// judge fills the report with a result for each clause.
func (r *run) judge(ctx context.Context, chosen []clauses.Clause) {
	failure, notes := preflight(ctx, r.env, r.Allow&suite.Queue != 0)
	if failure == "" && r.clockFault != nil {
		failure = "the target's clock can't be advanced (a jobrunner must be started with --clock=admin): " + r.env.Secrets.Redact(r.clockFault.Error())
	}
	r.report.Preflight, r.report.Notes = failure, append(r.report.Notes, notes...)
	r.workers = make(chan struct{}, max(1, r.Target.Workers))
	cases := casesOf(chosen)
	attempts := map[string]suite.Attempt{}
	toRun, skipped := r.chooseCases(cases, failure)
	for id, o := range skipped {
		attempts[id] = suite.Attempt{Outcome: o}
	}
	watching := slices.DeleteFunc(slices.Clone(toRun), func(c *suite.Case) bool { return c.Watch == nil })
	r.watch = &exchangeWatch{target: &r.Target, secrets: r.env.Secrets, cases: watching, jobs: map[string]jobSighting{}, faults: map[string]watchFault{}}
	r.env.OnExchange = r.watch.observe
	maps.Copy(attempts, r.runAll(ctx, toRun, len(toRun)))
	repeats := r.rerunFailed(ctx, attempts)
	for _, c := range chosen {
		r.report.Results = append(r.report.Results, r.resultOf(c, cases, attempts))
	}
	r.settleVerdicts(repeats)
}

// runAll runs cases concurrently, in an order that the seed decides. Progress reports total as the number of cases.
func (r *run) runAll(ctx context.Context, list []*suite.Case, total int) map[string]suite.Attempt {
	list = slices.Clone(list)
	random := rand.New(rand.NewPCG(r.Seed, r.Seed))
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	// Cases that load the target run last, since they would delay the timed effects of others.
	loadsTarget := func(c *suite.Case) bool { return c.Allow&suite.Load != 0 }
	attempts := map[string]suite.Attempt{}
	r.runParallel(ctx, slices.DeleteFunc(slices.Clone(list), loadsTarget), total, attempts)
	r.runParallel(ctx, slices.DeleteFunc(list, func(c *suite.Case) bool { return !loadsTarget(c) }), total, attempts)
	return attempts
}

func (r *run) runParallel(ctx context.Context, list []*suite.Case, total int, attempts map[string]suite.Attempt) {
	var mu sync.Mutex
	var group sync.WaitGroup
	r.env.Clock.Announce(len(list))
	for _, c := range list {
		group.Go(func() {
			a := r.tryCase(ctx, c, total)
			mu.Lock()
			defer mu.Unlock()
			attempts[c.ID] = a
		})
	}
	group.Wait()
}

// sharesWorkers reports whether a case takes a slot of workers, so that it doesn't wait for the jobs of other cases. If the
// clock is advanced, none does, because the clock waits for all cases to begin.
func (r *run) sharesWorkers(c *suite.Case) bool {
	usesShared := c.Needs&(creatableNeeds&^suite.SecondEndpoint) == 0 && c.Needs.Has(suite.AnyEndpoint) && r.Target.Endpoint != ""
	return usesShared && c.Allow&suite.Queue != 0 && !r.Target.Local && r.Target.Advance == nil
}

func (r *run) tryCase(ctx context.Context, c *suite.Case, total int) suite.Attempt {
	if r.sharesWorkers(c) {
		r.workers <- struct{}{}
		defer func() { <-r.workers }()
	}
	r.reportProgress(func() { r.running = append(r.running, c.ID) }, total, nil)
	clause, _ := clauses.Find(c.Clause())
	journal := r.journalFor(c)
	a := suite.Try(ctx, r.env, c, clause.Level == suite.Unspec, journal)
	r.reportProgress(func() {
		r.done++
		r.keepJournal(journal, a)
		r.running = slices.DeleteFunc(r.running, func(id string) bool { return id == c.ID })
	}, total, &report.Result{Clause: clause.ID, Case: c.ID, Verdict: a.Verdict, Reason: a.Reason})
	return a
}

func (r *run) reportProgress(change func(), total int, result *report.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	if r.Progress != nil {
		r.Progress(Progress{Done: r.done, Total: total, Running: slices.Clone(r.running), Result: result})
	}
}

func (r *run) finish(ctx context.Context) {
	left := r.env.Ledger.Remaining("")
	isDeferred := func(o env.Object) bool { return r.Defer.hasJournal(o.Case) }
	if r.report.Preflight == "" {
		left = r.env.CleanUp(context.WithoutCancel(ctx), isDeferred)
	}
	for _, o := range slices.DeleteFunc(left, isDeferred) {
		r.report.Leaked = append(r.report.Leaked, fmt.Sprintf("%s %s, created by %s: %s %s", o.Kind, cmp.Or(o.ID, o.Name), o.Case, o.Method, o.URL))
	}
	used := r.usage()
	if r.report.Reruns != nil {
		used = used.Minus(*r.report.Reruns)
	}
	r.report.Duration, r.report.TargetTime, r.report.Requests, r.report.Jobs = used.Duration, used.TargetTime, used.Requests, used.Jobs
	_ = r.env.Close() // an error of closing doesn't change the report
	r.report.SetCounts()
	r.report.Exit = ExitCode(r.report)
	if ctx.Err() != nil {
		r.report.Exit = ExitInterrupted
	}
}

func ExitCode(r *report.Report) int {
	switch {
	case r.Preflight != "":
		return ExitInconclusive
	case r.Counts[report.Fail] > 0 || r.Counts[report.Unexpected] > 0 || len(r.Stale) > 0 || len(r.OtherFailures) > 0:
		return ExitFailed
	case len(r.Leaked) > 0:
		return ExitLeaked
	case r.Counts[report.Inconclusive] > 0 || r.Counts[report.Error] > 0 || r.Judged() == 0:
		return ExitInconclusive
	}
	return ExitConformant
}

// DeferredCases holds the journals from which deferred cases resume. They contain answers of the target, but no key.
type DeferredCases struct {
	Journals map[string]*suite.Journal `json:"journals"`
}

// Due returns the time at which the last of the cases can resume.
func (d *DeferredCases) Due() (last time.Time) {
	for _, j := range d.Journals {
		if j.Due.After(last) {
			last = j.Due
		}
	}
	return last
}

// Select returns the clauses of the cases, for Options.Select.
func (d *DeferredCases) Select() (clauses []string) {
	for _, c := range Cases() {
		if d.hasJournal(c.ID) {
			clauses = append(clauses, c.AllClauses()...)
		}
	}
	return clauses
}

func (d *DeferredCases) hasJournal(id string) bool { return d != nil && d.Journals[id] != nil }

// deferrable reports whether a case can be deferred. A case that waits for webhook calls
// can't, and neither can a case with short waits: it judges states that end before a resume.
func (r *run) deferrable(c *suite.Case) bool {
	return r.Defer != nil && r.Target.Advance == nil && c.Needs&suite.Webhooks == 0 && c.WaitTime > max(r.MaxWait, defaultMaxWait)
}

// journalFor returns a deferred case's journal, a new one if the case may be deferred now, or nil.
func (r *run) journalFor(c *suite.Case) *suite.Journal {
	if !r.deferrable(c) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.Defer.Journals[c.ID]; j != nil {
		j.MaxWait = r.MaxWait
		return j
	}
	return &suite.Journal{Case: c.ID, MaxWait: r.MaxWait}
}

// keepJournal stores the journal of a deferred case and drops the journal of a finished one.
func (r *run) keepJournal(j *suite.Journal, a suite.Attempt) {
	switch {
	case j == nil:
	case a.Code == report.SkipDeferred:
		if r.Defer.Journals == nil {
			r.Defer.Journals = map[string]*suite.Journal{}
		}
		r.Defer.Journals[j.Case] = j
	default:
		delete(r.Defer.Journals, j.Case)
	}
}

// Merge merges the results of a resumed run into the report of the run before.
func Merge(before, after *report.Report) {
	for i := range before.Results {
		at := slices.IndexFunc(after.Results, func(x report.Result) bool { return x.Clause == before.Results[i].Clause })
		if at >= 0 {
			before.Results[i] = after.Results[at]
		}
	}
	before.Requests, before.Jobs = before.Requests+after.Requests, before.Jobs+after.Jobs
	before.Reruns = before.Reruns.Add(after.Reruns)
	before.Leaked, before.Preflight = after.Leaked, after.Preflight
	before.Notes, before.Stale = union(before.Notes, after.Notes), union(before.Stale, after.Stale)
	before.Duration += after.Duration
	before.TargetTime = report.Duration(after.Started.Sub(before.Started)) + after.Duration
	before.SetCounts()
	before.Exit = ExitCode(before)
	if after.Exit == ExitInterrupted {
		before.Exit = ExitInterrupted
	}
}

// union appends to list those elements of more that list lacks.
func union(list, more []string) []string {
	return append(list, slices.DeleteFunc(more, func(x string) bool { return slices.Contains(list, x) })...)
}

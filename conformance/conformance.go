// Package conformance judges a deployment of the management API, versions 1 and
// 2, and of the job API, clause by clause. It knows the service description and
// speaks HTTP; it shares nothing with what it judges.
package conformance

import (
	"context"
	"fmt"
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

// Allow is what may be done to a target beyond reading.
type Allow = suite.Allow

// Options say what to judge of a target, and how.
type Options struct {
	Target Target
	Select []string // clauses, see `conformance run --help`; none: all
	// Allow is what may be done to a target that is not local.
	Allow suite.Allow
	// MaxWait is how long a case may wait where the clock can't be advanced.
	// Zero: five minutes.
	MaxWait time.Duration
	// MaxRequests and MaxSeconds bound the requests and the seconds of workers at a target
	// that is not local; zero: no bound. Cases that do not fit are skipped.
	MaxRequests int
	MaxSeconds  float64
	Parallel    int    // cases that run at a time; 0: eight
	Seed        uint64 // of the order in which they start and of the values that they send; 0: a new one
	// Reruns is how often a failed case is run again, for diagnosis alone: its
	// verdict stays a failure, or becomes INCONCLUSIVE where it passes then.
	Reruns int
	Known  Known
	// Ledger is the file that lists the objects created at a target that is not local.
	Ledger  string
	Pace    *env.Pace // nil: none
	Version string    // of the suite, for the report
	// Implementation is what is judged, for the report; nil: it is not named.
	Implementation *report.Implementation
	// Defer, where it is not nil, receives the cases that would wait for more than
	// MaxWait; their objects stay at the target. Cases that it already has, from an
	// earlier run, resume. See State.
	Defer *State
	// Progress is called with what runs and what remains.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	Done, Total int
	Running     []string       // cases
	Result      *report.Result // of the case that is over now; nil at its start
}

// Exit codes of a run.
const (
	ExitConformant   = 0
	ExitFailed       = 1 // a MUST is not kept, a client fails although nothing is scripted to fail, or the list of known deviations is stale
	ExitUsage        = 2 // an option is invalid, or the client's command can't be started
	ExitInconclusive = 3 // can't be told, nothing was judged, or an error of the suite
	ExitLeaked       = 4 // something that the suite made is left
	ExitInterrupted  = 130
)

// Judge judges a target. The error is about the options; whatever the target does
// is in the report.
func Judge(ctx context.Context, o Options) (*report.Report, error) {
	chosen, err := selectClauses(o.Select)
	if err != nil {
		return nil, err
	}
	if o.Target.Key == "" {
		return nil, fmt.Errorf("the target's API key is missing: set GPUCLOUD_API_KEY")
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
			chosen[i] = chosen[i].InLiveDialect()
		}
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	r.judge(ctx, chosen)
	r.finish(ctx)
	return r.report, nil
}

// run is the state of a run.
type run struct {
	Options
	env     *env.Env
	began   time.Time // by the target's clock
	started time.Time
	report  *report.Report
	watch   *exchangeWatch
	// clockFault is why advancing the target's clock failed.
	clockFault error

	mu      sync.Mutex
	done    int
	running []string

	reruns *rerunUsage // nil: no failed case was run again
}

func (r *run) setDefaults() {
	if r.Parallel == 0 {
		r.Parallel = 8
	}
	if r.Seed == 0 {
		r.Seed = rand.Uint64()>>11 + 1 // exact as a number in JSON
	}
	if r.MaxWait == 0 {
		r.MaxWait = 5 * time.Minute
	}
	if r.Target.Local {
		r.Allow, r.MaxRequests, r.MaxSeconds = ^suite.Allow(0), 0, 0
	}
}

// open sets up what the cases share.
func (r *run) open(ctx context.Context) error {
	var clock env.Clock = env.NewReal(r.Parallel)
	if r.Target.Advance != nil {
		ctx, cancel := context.WithTimeout(ctx, preflightTime)
		defer cancel()
		shared, err := env.NewShared(ctx, r.Parallel, &r.Target)
		if err == nil {
			clock = shared
		}
		r.clockFault = err
	}
	r.env = env.New(&r.Target, clock)
	r.env.Pace, r.env.Seed, r.env.MaxRequests = r.Pace, r.Seed, r.MaxRequests
	ledger, err := env.OpenLedger(r.Ledger)
	if err != nil {
		return err
	}
	r.env.Ledger = ledger
	r.began = clock.Now()
	return nil
}

// judge fills the report with a result for each clause.
func (r *run) judge(ctx context.Context, chosen []clauses.Clause) {
	refused, notes := preflight(ctx, r.env)
	if refused == "" && r.clockFault != nil {
		refused = "the target's clock can't be advanced, for which a jobrunner is started with --clock=admin: " + r.env.Secrets.Redact(r.clockFault.Error())
	}
	r.report.Preflight, r.report.Notes = refused, notes
	some := casesOf(chosen)
	attempts := map[string]suite.Attempt{}
	toRun, skipped := r.chooseCases(some, refused)
	for id, o := range skipped {
		attempts[id] = suite.Attempt{Outcome: o}
	}
	r.watch = newWatch(r.env.Target, toRun)
	r.watch.hide = r.env.Secrets
	r.env.OnExchange = r.watch.observe
	for id, a := range r.runAll(ctx, toRun, len(toRun)) {
		attempts[id] = a
	}
	repeats := r.rerunFailed(ctx, attempts)
	for _, c := range chosen {
		r.report.Results = append(r.report.Results, r.resultOf(c, some, attempts))
	}
	r.settleVerdicts(repeats)
}

// runAll runs cases side by side, in an order that the seed decides. total is the number
// of cases that Progress reports.
func (r *run) runAll(ctx context.Context, list []*suite.Case, total int) map[string]suite.Attempt {
	list = slices.Clone(list)
	random := rand.New(rand.NewPCG(r.Seed, r.Seed))
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	// Those that load the target come after the others, whose times they would
	// make late.
	loads := func(one *suite.Case) bool { return one.Allow&suite.Load != 0 }
	attempts := map[string]suite.Attempt{}
	r.runParallel(ctx, slices.DeleteFunc(slices.Clone(list), loads), total, attempts)
	r.runParallel(ctx, slices.DeleteFunc(list, func(one *suite.Case) bool { return !loads(one) }), total, attempts)
	return attempts
}

func (r *run) runParallel(ctx context.Context, list []*suite.Case, total int, attempts map[string]suite.Attempt) {
	var mu sync.Mutex
	var group sync.WaitGroup
	r.env.Clock.Expect(len(list))
	for _, one := range list {
		group.Go(func() {
			a := r.tryCase(ctx, one, total)
			mu.Lock()
			defer mu.Unlock()
			attempts[one.ID] = a
		})
	}
	group.Wait()
}

func (r *run) tryCase(ctx context.Context, one *suite.Case, total int) suite.Attempt {
	r.reportProgress(func() { r.running = append(r.running, one.ID) }, total, nil)
	c, _ := clauses.Find(one.AllClauses()[0])
	journal := r.journalFor(one)
	a := suite.Try(ctx, r.env, one, c.Level == suite.Unspec, journal)
	r.reportProgress(func() {
		r.done++
		r.keepJournal(journal, a)
		r.running = slices.DeleteFunc(r.running, func(id string) bool { return id == one.ID })
		r.report.Leaked = append(r.report.Leaked, a.Leaks...)
	}, total, &report.Result{Clause: c.ID, Case: one.ID, Verdict: a.Verdict, Reason: a.Reason})
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

// finish deletes remaining objects and fills in the sums.
func (r *run) finish(ctx context.Context) {
	down, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer done()
	r.report.Leaked = nil
	left := r.env.Ledger.Remaining("")
	deferred := func(m env.Object) bool { return r.Defer.hasJournal(m.Case) }
	if r.report.Preflight == "" {
		left = r.env.CleanUp(down, deferred)
	}
	for _, m := range slices.DeleteFunc(left, deferred) {
		r.report.Leaked = append(r.report.Leaked, fmt.Sprintf("%s %s, made by %s: %s %s", m.Kind, m.ID, m.Case, m.Method, m.URL))
	}
	r.fillUsage()
	_ = r.env.Close() // the report is what counts now
	r.report.Count()
	r.report.Exit = ExitCode(r.report)
	if ctx.Err() != nil {
		r.report.Exit = ExitInterrupted
	}
}

// ExitCode returns the exit code of the program.
func ExitCode(r *report.Report) int {
	count := func(some ...report.Verdict) (n int) {
		for _, v := range some {
			n += r.Counts[v]
		}
		return n
	}
	switch {
	case r.Preflight != "":
		return ExitInconclusive
	case count(report.Fail, report.Unexpected) > 0 || len(r.Stale) > 0 || len(r.Failed) > 0:
		return ExitFailed
	case len(r.Leaked) > 0:
		return ExitLeaked
	case count(report.Inconclusive, report.Error) > 0 || r.Judged() == 0:
		return ExitInconclusive
	}
	return ExitConformant
}

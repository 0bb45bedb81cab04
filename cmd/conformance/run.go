package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

type run struct {
	target  `embed:""`
	reports `embed:"" json:"-"`

	Select  []string `short:"s" placeholder:"PATTERN" help:"Clauses to judge: an id, a glob (JOB-*), an area (JOB) or a level (MUST); ! before it takes them away."`
	Profile string   `default:"read" enum:"read,jobs,full" help:"What may be done: read only, small jobs too, or everything (read, jobs, full)."`
	Allow   []string `enum:"create,queue,load,spend" placeholder:"WHAT" help:"Further things that may be done: create, queue, load, spend."`
	Dialect string   `default:"described" enum:"described,live" help:"What the job API should speak: the description, or what the public SDKs read (described, live)."`
	Version []string `name:"api-version" placeholder:"v1|v2" enum:"v1,v2" help:"Versions of the management API to judge. Default: both."`

	DryRun       bool          `help:"Print what would run and what it costs, and run nothing."`
	MaxRequests  int           `default:"400" help:"Refuse a plan of more requests at a deployment that is not local."`
	MaxSeconds   float64       `default:"1800" help:"Refuse a plan that keeps workers busy for more seconds."`
	MaxWait      time.Duration `default:"5m" help:"Leave out cases that wait longer, where the clock can't be advanced."`
	Parallel     int           `default:"8" help:"Cases that run at a time."`
	Seed         uint64        `help:"Order in which cases start and the values that they send, as the report of an earlier run says it."`
	Reruns       int           `default:"2" help:"Run failed cases so often again, for diagnosis."`
	KnownFailing string        `type:"existingfile" placeholder:"FILE" help:"Known deviations: lines of clause, last day, reason. One that is kept, or whose day is over, fails the run."`
	Ledger       string        `default:"conformance-ledger.jsonl" placeholder:"FILE" help:"List of what the run makes at a deployment that is not local, for sweep."`
	Defer        string        `placeholder:"FILE" help:"Put cases that wait for longer than --max-wait off: their beginnings are kept in the file, and conformance resume goes on with them."`
}

// Help is printed below the flags' own.
func (*run) Help() string {
	return "Clauses that were not judged are named at the end with the reason, and not counted as kept. " +
		"Exit codes: 0 conformant as far as it was judged; 1 a MUST is not kept, or the list of known deviations is stale; 2 an option is invalid; " +
		"3 inconclusive, or nothing was judged; 4 something that the run made is left; 130 interrupted."
}

// target is the deployment.
type target struct {
	BaseURL    string `env:"GPUCLOUD_BASE_URL" placeholder:"URL" help:"Version 2 of the management API, without /v2."`
	BaseURLV1  string `name:"base-url-v1" env:"GPUCLOUD_BASE_URL_V1" placeholder:"URL" help:"Version 1, without /v1. Default: the base URL."`
	QueueURL   string `env:"GPUCLOUD_QUEUE_URL" placeholder:"URL" help:"The job API, without /v2. Default: the base URL."`
	EndpointID string `env:"GPUCLOUD_ENDPOINT_ID" placeholder:"ID" help:"Endpoint whose workers run builtin/conformance."`
	Image      string `placeholder:"IMAGE" help:"Image with the same handler, for endpoints that the suite makes. Default: builtin/conformance."`
	Body       string `name:"endpoint-body" type:"existingfile" placeholder:"FILE" help:"JSON object with further members of every body that makes an endpoint, such as gpu. Version 1 gets those that are not nested, version 2 those that are no names of version 1."`
	HookURL    string `placeholder:"URL" help:"Address at which the deployment reaches --hook-listen."`
	HookListen string `placeholder:"HOST:PORT" help:"Address to listen on for calls of the deployment."`
	Advance    bool   `help:"Advance the clock of the deployment instead of waiting: it is a jobrunner with --clock=admin, which nobody else uses."`

	Local     bool   `help:"Judge the jobrunner: start it, advance its clock, and end it."`
	Jobrunner string `type:"existingfile" placeholder:"FILE" help:"The jobrunner for --local. Default: beside this program, or on PATH."`
}

// resolve is the deployment, and what ends it where it was started here.
func (t *target) resolve(ctx context.Context) (env.Target, func() error, error) {
	body, err := t.endpointBody()
	if err != nil {
		return env.Target{}, nil, err
	}
	if t.Local {
		d, err := local.Start(ctx, local.Config{Binary: t.Jobrunner})
		if err != nil {
			return env.Target{}, nil, err
		}
		target := d.Target
		target.Unserved, target.EndpointBody = conformance.Unserved(), body
		return target, d.Stop, nil
	}
	for flag, address := range map[string]string{"--base-url": t.BaseURL, "--base-url-v1": t.BaseURLV1, "--queue-url": t.QueueURL} {
		u, err := url.Parse(address)
		if address != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return env.Target{}, nil, fmt.Errorf("%s is no http or https URL, such as https://api.example.com", flag)
		}
	}
	out := env.Target{
		BaseURL: t.BaseURL, BaseURLV1: t.BaseURLV1, QueueURL: t.QueueURL, Endpoint: t.EndpointID, Image: t.Image,
		HookURL: t.HookURL, HookListen: t.HookListen, EndpointBody: body,
		Key: os.Getenv("GPUCLOUD_API_KEY"), OtherKey: os.Getenv("GPUCLOUD_OTHER_API_KEY"), UserKey: os.Getenv("GPUCLOUD_USER_API_KEY"),
	}
	if t.Advance {
		if t.BaseURL == "" {
			return out, nil, errors.New("--advance needs --base-url, where the jobrunner has its clock")
		}
		out.Advance = local.Advance(out.V2(), out.Key)
	}
	return out, func() error { return nil }, nil
}

// endpointBody reads --endpoint-body.
func (t *target) endpointBody() (body map[string]json.RawMessage, err error) {
	if t.Body == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.Body)
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		return nil, fmt.Errorf("--endpoint-body %s: %w", t.Body, err)
	}
	return body, nil
}

func (r *run) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := r.check(); err != nil {
		return err
	}
	o, err := r.options()
	if err != nil {
		return err
	}
	if o.Target, stop, err = r.resolveTarget(ctx); err != nil {
		return err
	}
	defer stop()
	o.Pace = pace(&o.Target)
	later := deferred{Schema: deferredSchema, Run: *r}
	if r.Defer != "" {
		o.Defer = &later.State
	}
	plan, err := conformance.Plan(o)
	if err != nil {
		return err
	}
	fmt.Fprint(os.Stderr, plan)
	if r.DryRun {
		return nil
	}
	if !o.Target.Local && (plan.Requests > r.MaxRequests && r.MaxRequests > 0 || plan.Seconds > r.MaxSeconds) {
		return fmt.Errorf("the plan is above --max-requests %d or --max-seconds %g: raise them, or --select less", r.MaxRequests, r.MaxSeconds)
	}
	shown := newProgress(os.Stderr)
	o.Progress = shown.show
	result, err := conformance.Judge(ctx, o)
	shown.end()
	if err != nil {
		return err
	}
	later.Report = result
	if err := later.store(r.Defer); err != nil {
		return err
	}
	return r.reportProgress(result)
}

// tell reports, and ends the program with the report's code.
func (r *run) reportProgress(result *report.Report) error {
	out := r.terminal()
	report.Terminal(out, result, colours(out))
	if err := r.write(result); err != nil {
		return err
	}
	if result.Exit != 0 {
		return exitError(result.Exit)
	}
	return nil
}

// resolveTarget resolves the target; stop ends it.
func (r *run) resolveTarget(ctx context.Context) (t env.Target, stop func(), err error) {
	t, end, err := r.resolve(ctx)
	if err != nil {
		return t, nil, err
	}
	t.Live = r.Dialect == "live"
	if t.Live && t.Local {
		t.QueueURL = t.BaseURL + "/live"
	}
	if len(r.Version) > 0 {
		t.NoV1, t.NoV2 = !contains(r.Version, "v1"), !contains(r.Version, "v2")
	}
	return t, func() {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "conformance: ending the jobrunner:", err)
		}
	}, nil
}

// pace is that of a deployment that others use: the management API's public
// limit is 60 a minute.
func pace(t *env.Target) *env.Pace {
	if t.OnThisMachine() {
		return nil
	}
	return env.NewPace(45, 10)
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// profiles are what each of them allows.
var profiles = map[string]suite.Allow{
	"read": 0,
	"jobs": suite.Create | suite.Queue,
	"full": suite.Create | suite.Queue | suite.Load | suite.Spend,
}

func (r *run) options() (o conformance.Options, err error) {
	o = conformance.Options{
		Select: split(r.Select), Allow: profiles[r.Profile], MaxWait: r.MaxWait, Parallel: r.Parallel, Seed: r.Seed, Reruns: r.Reruns,
		Version: version,
	}
	for _, word := range r.Allow {
		for _, x := range suite.Allows {
			if x.Name == word {
				o.Allow |= x.Allow
			}
		}
	}
	if r.KnownFailing != "" {
		text, err := os.ReadFile(r.KnownFailing)
		if err != nil {
			return o, err
		}
		if o.Known, err = conformance.ParseKnown(string(text)); err != nil {
			return o, fmt.Errorf("--known-failing %s: %w", r.KnownFailing, err)
		}
	}
	if !r.Local {
		o.Ledger = r.Ledger
	}
	return o, nil
}

// split takes lists separated by commas apart.
func split(patterns []string) (out []string) {
	for _, p := range patterns {
		for one := range strings.SplitSeq(p, ",") {
			if one = strings.TrimSpace(one); one != "" {
				out = append(out, one)
			}
		}
	}
	return out
}

type sweep struct {
	Ledger string `default:"conformance-ledger.jsonl" type:"existingfile" placeholder:"FILE" help:"The ledger of the run."`
}

func (s *sweep) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	key := os.Getenv("GPUCLOUD_API_KEY")
	if key == "" {
		return errors.New("the API key is missing: set GPUCLOUD_API_KEY")
	}
	ledger, err := env.OpenLedger(s.Ledger)
	if err != nil {
		return err
	}
	e := env.New(&env.Target{Key: key}, env.NewReal(1))
	e.Ledger = ledger
	n := len(ledger.Remaining(""))
	err = e.DeleteCreated(ctx, "")
	fmt.Printf("%d of %d things taken down\n", n-len(ledger.Remaining("")), n)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitError(conformance.ExitLeaked)
	}
	return e.Close()
}

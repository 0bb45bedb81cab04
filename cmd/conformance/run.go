package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
)

type run struct {
	target      `embed:""`
	publication `embed:""`
	reports     `embed:"" json:"-"`

	Select  []string `short:"s" placeholder:"PATTERN" help:"Clauses to judge: an id, a glob (JOB-*), an area (JOB) or a level (MUST); a leading ! excludes."`
	Profile string   `default:"read" enum:"read,jobs,full" help:"Allowed operations. read: only reads; jobs: also own objects and small jobs; full: all."`
	Allow   []string `enum:"create,queue,load,spend" placeholder:"WHAT" help:"Additional allowed operations: create, queue, load, spend."`
	Dialect string   `default:"described" enum:"described,live" help:"Expected dialect of the job API. described: the service description's. live: the public SDKs'."`
	Version []string `name:"api-version" placeholder:"v1|v2" enum:"v1,v2" help:"Versions of the management API to judge. Default: the versions that the deployment serves."`

	DryRun       bool          `help:"Print the plan and its cost without running it."`
	MaxRequests  int           `default:"500" help:"Send at most this number of requests and skip the other cases. 0 means no limit. Ignored with --local."`
	MaxSeconds   float64       `default:"1800" help:"Use at most this number of seconds of worker time and skip the other cases. 0 means no limit. Ignored with --local."`
	MaxWait      time.Duration `default:"5m" help:"Skip cases that wait longer than this, if the clock can't be advanced."`
	Parallel     int           `default:"8" help:"Number of cases that run at once."`
	Seed         uint64        `help:"Seed for the order of the cases and the values that they send. The report of an earlier run shows its seed."`
	Reruns       int           `default:"2" help:"Number of times that a failed case is repeated. If all repetitions pass, the clause is inconclusive."`
	KnownFailing fileContent   `placeholder:"FILE" help:"Known deviations: lines of clause, last day, reason. An entry fails the run if its clause passes or its last day is over."`
	Ledger       string        `default:"conformance-ledger.jsonl" placeholder:"FILE" help:"List of the objects that the run creates at a deployment that is not local, for sweep."`
	Defer        string        `placeholder:"FILE" help:"Start cases that wait longer than both --max-wait and five minutes, and store their state in the file, for conformance resume."`
}

// target has the flags of the deployment.
type target struct {
	BaseURL    string      `env:"GPUCLOUD_BASE_URL" placeholder:"URL" help:"Version 2 of the management API, without /v2."`
	BaseURLV1  string      `name:"base-url-v1" env:"GPUCLOUD_BASE_URL_V1" placeholder:"URL" help:"Version 1, without /v1. Default: the base URL."`
	QueueURL   string      `env:"GPUCLOUD_QUEUE_URL" placeholder:"URL" help:"The job API, without /v2. Default: the base URL."`
	EndpointID string      `env:"GPUCLOUD_ENDPOINT_ID" placeholder:"ID" help:"Endpoint whose workers run builtin/conformance."`
	Image      string      `placeholder:"IMAGE" help:"Image with the same handler, for endpoints that the suite creates. Default: builtin/conformance."`
	Body       fileContent `name:"endpoint-body" placeholder:"FILE" help:"JSON object with members, such as gpu, to add to every body that creates an endpoint. A member that only one version of the API has is sent only to that version."`
	HookURL    string      `placeholder:"URL" help:"Address at which the deployment reaches --hook-listen."`
	HookListen string      `placeholder:"HOST:PORT" help:"Address to listen on for calls of the deployment."`
	Advance    bool        `help:"Advance the clock of the deployment instead of waiting. The deployment must be a jobrunner with --clock=admin, and have no other users."`

	Local     bool   `help:"Judge the jobrunner: start it, advance its clock, and stop it."`
	Jobrunner string `type:"existingfile" placeholder:"FILE" help:"The jobrunner for --local. Default: next to this program, or on PATH."`
}

// resolve returns the deployment, and a function that stops it if it was started here.
func (t *target) resolve(ctx context.Context) (_ env.Target, stop func(), err error) {
	var body map[string]json.RawMessage
	if t.Body != nil {
		if err := json.Unmarshal(t.Body, &body); err != nil {
			return env.Target{}, nil, fmt.Errorf("--endpoint-body: %w", err)
		}
	}
	if err := t.check(); err != nil {
		return env.Target{}, nil, err
	}
	if t.Local {
		d, err := local.Start(ctx, local.Config{Binary: t.Jobrunner})
		if err != nil {
			return env.Target{}, nil, err
		}
		target := d.Target
		target.EndpointBody = body
		return target, func() {
			if err := d.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "conformance: stopping the jobrunner:", err)
			}
		}, nil
	}
	remote := env.Target{
		BaseURL: t.BaseURL, BaseURLV1: t.BaseURLV1, QueueURL: t.QueueURL, Endpoint: t.EndpointID, Image: t.Image,
		HookURL: t.HookURL, HookListen: t.HookListen, EndpointBody: body,
		Key: os.Getenv("GPUCLOUD_API_KEY"), OtherKey: os.Getenv("GPUCLOUD_OTHER_API_KEY"), UserKey: os.Getenv("GPUCLOUD_USER_API_KEY"),
	}
	if t.Advance {
		if t.BaseURL == "" {
			return remote, nil, errors.New("--advance requires --base-url, the URL of the jobrunner's clock")
		}
		remote.Advance = local.Advance(remote.V2(), remote.Key)
	}
	return remote, func() {}, nil
}

func (t *target) check() error {
	for _, f := range [][2]string{{"--base-url", t.BaseURL}, {"--base-url-v1", t.BaseURLV1}, {"--queue-url", t.QueueURL}, {"--hook-url", t.HookURL}} {
		flag, address := f[0], f[1]
		u, err := url.Parse(address)
		switch {
		case address == "":
		case t.Local && address != os.Getenv("GPUCLOUD_"+strings.ToUpper(strings.ReplaceAll(flag[2:], "-", "_"))): // the variable may be set for other runs
			return fmt.Errorf("--local and %s can't be used together: --local starts a jobrunner of its own", flag)
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !isPort(cmp.Or(u.Port(), "80")):
			return fmt.Errorf("invalid %s: expected an http or https URL, such as https://api.example.com", flag)
		case flag != "--hook-url" && (path.Base(u.Path) == "v1" || path.Base(u.Path) == "v2"):
			return fmt.Errorf("invalid %s: remove /%s from its end", flag, path.Base(u.Path))
		}
	}
	if _, port, err := net.SplitHostPort(t.HookListen); t.HookListen != "" && (err != nil || !isPort(port)) {
		return fmt.Errorf("invalid --hook-listen %q: expected HOST:PORT, such as 0.0.0.0:8080", t.HookListen)
	}
	if t.HookURL != "" && t.HookListen == "" {
		return errors.New("--hook-url requires --hook-listen, the address behind it")
	}
	if url.PathEscape(t.EndpointID) != t.EndpointID {
		return fmt.Errorf("invalid --endpoint-id %q: expected the id of an endpoint, without its URL", t.EndpointID)
	}
	return nil
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// fileContent is the content of the file that a flag names.
type fileContent []byte

// Decode reads the file without a byte order mark.
func (c *fileContent) Decode(ctx *kong.DecodeContext) (err error) {
	var name string
	if err = ctx.Scan.PopValueInto("file", &name); err == nil {
		*c, err = flagfile.Read(kong.ExpandPath(name))
		*c = bytes.TrimPrefix(*c, []byte("\ufeff"))
	}
	return err
}

func (r *run) Run() error {
	ctx, stop := interruptible()
	defer stop()
	if err := errors.Join(r.checkReports(r.Defer, r.Ledger, r.Sign), r.checkPublication(&r.reports), checkDeferred(r.Defer)); err != nil {
		return err
	}
	o, stopTarget, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	defer stopTarget()
	deferred := deferredRun{Schema: deferredSchema, Run: *r}
	if r.Defer != "" {
		o.Defer = &deferred.State
	}
	plan, err := conformance.Plan(o)
	if err != nil {
		return err
	}
	fmt.Fprint(os.Stderr, plan)
	if r.DryRun {
		return nil
	}
	result, err := judge(ctx, o)
	if err != nil {
		return err
	}
	deferred.Report = result
	return r.finish(result, deferred.store(r.Defer))
}

// finish writes the reports. It returns storeErr and its own errors, or else the exit code.
func (r *run) finish(result *report.Report, storeErr error) error {
	out := r.messageFile()
	text := bufio.NewWriter(out)
	report.Terminal(text, result, cli.Colours(out))
	return cmp.Or(errors.Join(text.Flush(), storeErr, r.writeReports(result), r.signReports(&r.reports)), exit(result.Exit))
}

// prepare returns the options of the run, and a function that stops its target.
func (r *run) prepare(ctx context.Context) (o conformance.Options, stopTarget func(), err error) {
	if o, err = r.options(); err != nil {
		return o, nil, err
	}
	if o.Target, stopTarget, err = r.resolve(ctx); err != nil {
		if ctx.Err() != nil {
			err = exit(conformance.ExitInterrupted)
		}
		return o, nil, err
	}
	t := &o.Target
	t.Live = r.Dialect == "live"
	if t.Live && t.Local {
		t.QueueURL = t.BaseURL + "/live"
	}
	t.FindVersions = len(r.Version) == 0 && !t.Local
	if len(r.Version) > 0 {
		t.NoV1, t.NoV2 = !slices.Contains(r.Version, "v1"), !slices.Contains(r.Version, "v2")
	}
	switch {
	case t.Local: // without Pace, no request is repeated after a 429, which RAT-26 judges
	case t.OnThisMachine():
		o.Pace = env.NewPace(0, 0) // repeats a request after a 429
	default: // the public limit of the management API is 60 a minute
		o.Pace = env.NewPace(env.SharedInterval, time.Second/10)
	}
	return o, stopTarget, nil
}

// profiles has the allowed operations of each profile.
var profiles = map[string]suite.Permission{
	"read": 0,
	"jobs": suite.Create | suite.Queue,
	"full": suite.Create | suite.Queue | suite.Load | suite.Spend,
}

func (r *run) options() (o conformance.Options, err error) {
	o = conformance.Options{
		Select: r.Select, Allow: profiles[r.Profile], MaxWait: r.MaxWait, MaxRequests: r.MaxRequests, MaxSeconds: r.MaxSeconds, Parallel: r.Parallel, Seed: r.Seed, Reruns: r.Reruns,
		Version: version, Implementation: r.implementation(),
	}
	for _, f := range []struct {
		flag           string
		value, minimum float64
	}{{"parallel", float64(r.Parallel), 1}, {"reruns", float64(r.Reruns), 0}, {"max-requests", float64(r.MaxRequests), 0}, {"max-seconds", r.MaxSeconds, 0}} {
		if !(f.value >= f.minimum) { // NaN is invalid, too
			return o, fmt.Errorf("invalid --%s: expected at least %g, got %g", f.flag, f.minimum, f.value)
		}
	}
	if r.MaxWait <= 0 {
		return o, fmt.Errorf("invalid --max-wait: expected more than 0s, got %s", r.MaxWait)
	}
	if _, err := conformance.Clauses(r.Select); err != nil {
		return o, err
	}
	for _, word := range r.Allow {
		for _, x := range suite.Permissions {
			if x.Name == word {
				o.Allow |= x.Permission
			}
		}
	}
	if o.Known, err = conformance.ParseKnown(string(r.KnownFailing)); err != nil {
		return o, fmt.Errorf("--known-failing: %w", err)
	}
	if !r.Local {
		o.Ledger = r.Ledger
	}
	return o, nil
}

type sweep struct {
	Ledger  string `default:"conformance-ledger.jsonl" type:"existingfile" placeholder:"FILE" help:"Ledger of the run."`
	BaseURL string `name:"base-url" placeholder:"URL" help:"Delete only objects of this deployment. Needed if the ledger has objects of several, because GPUCLOUD_API_KEY is the key of one."`
}

func (s *sweep) Run() error {
	ctx, stop := interruptible()
	defer stop()
	key := os.Getenv("GPUCLOUD_API_KEY")
	if key == "" {
		return errors.New("the API key is missing: set GPUCLOUD_API_KEY")
	}
	ledger, err := env.OpenLedger(s.Ledger)
	if err != nil {
		return err
	}
	deployments := map[string]bool{}
	for _, o := range ledger.Remaining("") {
		deployments[o.Deployment] = true
	}
	// Another deployment must not get the key.
	if n := len(deployments); n > 1 && s.BaseURL == "" || n > 0 && s.BaseURL != "" && !deployments[s.BaseURL] {
		return fmt.Errorf("each deployment has its own key: choose one with --base-url. %s has objects of: %s", s.Ledger, strings.Join(slices.Sorted(maps.Keys(deployments)), ", "))
	}
	if s.BaseURL != "" {
		ledger.Drop(func(o env.Object) bool { return o.Deployment != s.BaseURL })
	}
	e := env.New(&env.Target{Key: key}, env.NewClock(1))
	e.Ledger, e.Pace = ledger, env.NewPace(0, 0) // repeats a request after a 429
	lastExchanges := map[string]*wire.Exchange{} // by method and URL
	total := len(ledger.Remaining(""))
	display := cli.NewProgress(os.Stderr)
	e.OnExchange = func(x *wire.Exchange) {
		lastExchanges[x.Request.Method+" "+x.Request.URL] = x
		display.Show("%d of %d objects deleted", total-len(ledger.Remaining("")), total)
	}
	left := e.CleanUp(ctx, func(env.Object) (keep bool) { return false })
	display.End()
	fmt.Printf("%d of %d objects deleted\n", total-len(left), total)
	for _, o := range left {
		request := o.Method + " " + o.URL
		text := fmt.Sprintf("not deleted: %s %s, created by %s: %s%s", o.Kind, cmp.Or(o.ID, o.Name), o.Case, request, answerText(lastExchanges[request], e.Secrets))
		fmt.Fprintln(os.Stderr, report.Printable(text))
	}
	if len(left) > 0 {
		return exit(conformance.ExitLeaked)
	}
	return e.Close()
}

// answerText describes the answer to a request of the cleanup, without secrets.
func answerText(x *wire.Exchange, secrets *wire.Secrets) string {
	switch {
	case x == nil:
		return ""
	case x.Status == 0:
		return " failed: " + secrets.Redact(fmt.Sprint(x.Err))
	}
	text := fmt.Sprintf(" returned %d", x.Status)
	if id := x.Header.Get("X-Request-Id"); id != "" {
		text += ", request id " + secrets.Redact(id)
	}
	if body := secrets.Redact(strings.Join(strings.Fields(string(x.Body)), " ")); body != "" {
		text += ": " + body[:min(len(body), 200)]
	}
	return strings.ToValidUTF8(text, "")
}

// judge judges a deployment and shows the progress.
func judge(ctx context.Context, o conformance.Options) (*report.Report, error) {
	display := cli.NewProgress(os.Stderr)
	defer display.End()
	o.Progress = func(p conformance.Progress) {
		slices.Sort(p.Running)
		display.Show("%d of %d cases, running %s", p.Done, p.Total, strings.Join(p.Running, " "))
	}
	return conformance.Judge(ctx, o)
}

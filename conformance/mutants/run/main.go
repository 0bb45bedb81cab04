// Command run is `make mutants` and `make variants`. It builds the jobrunner with its
// faults, runs the conformance suite against each mutant in its own process, and prints
// which clauses detected it. It fails if the clause of a mutant doesn't detect it, or if a
// MUST fails for a control.
//
// By default only a mutant's own clause judges it. With --full all clauses do, except clauses
// with cases that load the deployment with thousands of requests.
//
// With --variants the whole suite runs against each variant, and must not fail it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants/overlay"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

func main() {
	full := flag.Bool("full", false, "judge every mutant by all clauses that do not load the deployment, and count the clauses that detect it")
	only := flag.String("only", "*", "patterns of the mutants or variants to run, by id, separated by commas")
	parallel := flag.Int("parallel", 2, "mutants or variants that run at the same time")
	asVariants := flag.Bool("variants", false, "run variants, which the whole suite must not fail, instead of mutants")
	combine := flag.Int("combine", 1, "variants in one deployment: above 1, they are combined at random")
	count := flag.Int("count", 5, "number of random combinations")
	seed := flag.Uint64("seed", 0, "seed of the random combinations; 0: a random seed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := withFaultyJobrunner(ctx, func(binary string) error {
		if !*asVariants {
			return runMutants(ctx, binary, *full, *only, *parallel)
		}
		if *seed == 0 {
			*seed = rand.Uint64()>>32 + 1
		}
		if *combine > 1 {
			fmt.Printf("seed %d\n", *seed)
		}
		selected, err := makeGroups(*only, *combine, *count, rand.New(rand.NewPCG(*seed, *seed)).IntN)
		if err != nil {
			return err
		}
		return runVariants(ctx, binary, selected, *parallel)
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// withFaultyJobrunner builds the jobrunner with its faults, calls use with its path, and
// deletes it.
func withFaultyJobrunner(ctx context.Context, use func(binary string) error) error {
	dir, err := os.MkdirTemp("", "gpucloud-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "jobrunner")
	if err := overlay.Build(ctx, binary); err != nil {
		return err
	}
	return use(binary)
}

func runMutants(ctx context.Context, binary string, full bool, only string, parallel int) error {
	started := time.Now()
	var selected []mutants.Mutant
	for _, m := range mutants.All() {
		if ok, err := matchesAny(only, m.ID); err != nil {
			return err
		} else if ok {
			selected = append(selected, m)
		}
	}
	outcomes := make([]outcome, len(selected))
	judge := func(i int) {
		outcomes[i] = judgeMutant(ctx, binary, selected[i], full)
		fmt.Println(outcomes[i].line())
	}
	var running errgroup.Group
	running.SetLimit(parallel)
	for i := range selected {
		running.Go(func() error {
			judge(i)
			return nil
		})
	}
	_ = running.Wait() // the functions return no error
	for i, v := range outcomes {
		if !v.ok() && ctx.Err() == nil { // beside another deployment, cases of concurrent requests may miss a fault
			judge(i)
		}
	}
	return summarize(outcomes, full, time.Since(started))
}

// matchesAny reports whether an id matches one of the patterns, separated by commas.
func matchesAny(patterns, id string) (bool, error) {
	for pattern := range strings.SplitSeq(patterns, ",") {
		if ok, err := path.Match(pattern, id); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// faultVariable is the environment variable with a jobrunner's faults.
const faultVariable = "GPUCLOUD_FAULT"

// outcome is the result of the suite for a mutant.
type outcome struct {
	mutants.Mutant
	detectedBy []string // violated MUSTs and SHOULDs, the mutant's own clause first
	err        error
}

// ok reports whether the mutant's own clause detected it or, for a control, whether no clause
// did.
func (v outcome) ok() bool {
	if v.Clause == "" {
		return v.err == nil && len(v.detectedBy) == 0
	}
	return v.err == nil && slices.Contains(v.detectedBy, v.Clause)
}

func (v outcome) line() string {
	state := "detected"
	switch {
	case v.err != nil:
		state = "ERROR   "
	case v.Clause == "" && v.ok():
		state = "control "
	case !v.ok():
		state = "SURVIVED"
	}
	line := fmt.Sprintf("%s %-28s %-8s %-60s %s", state, v.ID, v.Clause, v.Description, strings.Join(v.detectedBy, " "))
	if v.err != nil {
		line += " " + v.err.Error()
	}
	return line
}

// mutantTimeout bounds the run of one mutant, since some mutants never answer.
const mutantTimeout = 10 * time.Minute

// judgeMutant runs the suite against a jobrunner with the mutant's fault.
func judgeMutant(ctx context.Context, binary string, m mutants.Mutant, full bool) (result outcome) {
	result.Mutant = m
	ctx, cancel := context.WithTimeout(ctx, mutantTimeout)
	defer cancel()
	d, err := local.Start(ctx, local.Config{Binary: binary, Env: []string{faultVariable + "=" + m.Fault}})
	if err != nil {
		result.err = err
		return result
	}
	defer func() { result.err = errors.Join(result.err, d.Stop()) }()
	// Its own clause runs first and by itself. A fault of limits would otherwise affect other clauses.
	var selections [][]string
	if m.Clause != "" {
		selections = append(selections, []string{m.Clause})
	}
	switch {
	case full:
		selections = append(selections, clausesWithoutLoad(m.Clause))
	case m.Clause == "":
		selections = append(selections, nil)
	}
	for _, selected := range selections {
		r, err := conformance.Judge(ctx, conformance.Options{Target: d.Target, Seed: 1, Select: selected})
		if err = errors.Join(err, ctx.Err()); err != nil {
			result.err = err
			return result
		}
		if r.Preflight != "" { // a mutant that can't be judged counts as detected
			result.detectedBy = []string{m.Clause}
			return result
		}
		for _, x := range r.Results {
			if x.Verdict == report.Fail || x.Verdict == report.Warn && (x.Clause == m.Clause || x.Level == "MUST") {
				result.detectedBy = append(result.detectedBy, x.Clause)
			}
		}
	}
	return result
}

// clausesWithoutLoad returns the clauses that can fail and whose cases don't load the
// deployment, except one.
func clausesWithoutLoad(except string) (ids []string) {
	excluded := map[string]bool{except: true}
	for _, c := range conformance.Cases() {
		for _, id := range c.AllClauses() {
			excluded[id] = excluded[id] || c.Allow&suite.Load != 0
		}
	}
	for _, c := range clauses.All() {
		if c.Level != suite.Unspec && c.Untestable == "" && !excluded[c.ID] {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// summarize prints how many mutants had the expected outcome. The error names the others.
func summarize(outcomes []outcome, full bool, took time.Duration) error {
	var undetected []string
	var counts []int
	for _, v := range outcomes {
		if !v.ok() {
			undetected = append(undetected, v.ID)
		}
		counts = append(counts, len(v.detectedBy))
	}
	if len(outcomes) == 0 {
		return errors.New("invalid --only: expected the id of a mutant, or a pattern that matches some")
	}
	slices.Sort(counts)
	fmt.Printf("\n%d of %d mutants had the expected outcome, in %.0f s", len(outcomes)-len(undetected), len(outcomes), took.Seconds())
	if full {
		fmt.Printf("; the median mutant is detected by %d clauses", counts[len(counts)/2])
	}
	fmt.Println()
	if len(undetected) > 0 {
		return fmt.Errorf("the suite did not detect mutants as expected: the suite is too weak, or the fault has no effect: %s", strings.Join(undetected, ", "))
	}
	return nil
}

// Command run is `make mutants` and `make variants`. It builds the jobrunner with its
// faults, runs the conformance suite against each mutant in its own process, and prints
// which clauses detected it. It fails if a mutant's own clause doesn't detect it, or if a
// MUST fails or warns for a control: a mutant whose difference violates no statement.
//
// A mutant is judged by its own clause, and a control by all clauses.
//
// With --variants the whole suite runs against each variant, and must not fail it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants/overlay"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

func main() {
	patterns := flag.String("only", "*", "patterns of the mutants or variants to run, by id, separated by commas")
	parallel := flag.Int("parallel", 2, "mutants or variants that run at the same time")
	asVariants := flag.Bool("variants", false, "run variants, which the whole suite must not fail, instead of mutants")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *asVariants, *patterns, *parallel)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run builds the jobrunner with its faults, and runs variants or mutants with it.
func run(ctx context.Context, asVariants bool, patterns string, parallel int) error {
	dir, err := os.MkdirTemp("", "gpucloud-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "jobrunner")
	if err := overlay.Build(ctx, binary); err != nil {
		return err
	}
	if asVariants {
		return runVariants(ctx, binary, patterns, parallel)
	}
	return runMutants(ctx, binary, patterns, parallel)
}

func runMutants(ctx context.Context, binary, patterns string, parallel int) error {
	started := time.Now()
	selected, err := choose(mutants.All(), patterns, func(m mutants.Mutant) string { return m.ID })
	if err != nil {
		return err
	}
	judge := func(m mutants.Mutant) outcome { return judgeMutant(ctx, binary, m) }
	outcomes := judgeAll(selected, parallel, judge)
	for i, v := range outcomes {
		if !v.ok() && ctx.Err() == nil { // again, alone: beside another deployment, cases with concurrent requests may miss a fault
			outcomes[i] = judgeAll(selected[i:i+1], 1, judge)[0]
		}
	}
	return summarize(outcomes, time.Since(started))
}

// judgeAll judges subjects concurrently, and prints the line of each outcome.
func judgeAll[S any, O interface{ line() string }](subjects []S, parallel int, judge func(S) O) []O {
	outcomes := make([]O, len(subjects))
	var running errgroup.Group
	running.SetLimit(parallel)
	for i, subject := range subjects {
		running.Go(func() error {
			outcomes[i] = judge(subject)
			fmt.Println(outcomes[i].line())
			return nil
		})
	}
	_ = running.Wait() // the functions return no error
	return outcomes
}

// choose returns the elements of a list whose ids match one of the patterns, separated by commas.
func choose[T any](list []T, patterns string, id func(T) string) (chosen []T, err error) {
	for _, x := range list {
		matches := slices.ContainsFunc(strings.Split(patterns, ","), func(pattern string) bool {
			ok, invalid := path.Match(pattern, id(x))
			if invalid != nil {
				err = fmt.Errorf("invalid --only: %w %q", invalid, pattern)
			}
			return ok
		})
		if matches {
			chosen = append(chosen, x)
		}
	}
	if len(chosen) == 0 && err == nil {
		err = errors.New("invalid --only: expected the id of a mutant or variant, or a pattern that matches some")
	}
	return chosen, err
}

// faultVariable is the environment variable with a jobrunner's faults.
const faultVariable = "GPUCLOUD_FAULT"

// outcome is the result of the suite for a mutant.
type outcome struct {
	mutants.Mutant
	detectedBy []string // the clauses that failed, and the MUSTs and the own clause that warned
	err        error
}

// ok reports whether the mutant's own clause detected it or, for a control, whether no clause did.
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
	case v.Clause == "":
		state = "FAILED  "
	case !v.ok():
		state = "SURVIVED"
	}
	line := fmt.Sprintf("%s %-28s %-8s %-60s %s", state, v.ID, v.Clause, v.Description, strings.Join(v.detectedBy, " "))
	if v.err != nil {
		line += " " + v.err.Error()
	}
	return line
}

// runTimeout bounds the run of one mutant or variant: some mutants never answer.
const runTimeout = 10 * time.Minute

func judgeFaulty(ctx context.Context, c local.Config, fault string, judge func(ctx context.Context, target conformance.Target) error) error {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	c.Env = []string{faultVariable + "=" + fault}
	d, err := local.Start(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(judge(ctx, d.Target), d.Stop())
}

// judgeMutant runs the suite against a jobrunner with the mutant's fault.
func judgeMutant(ctx context.Context, binary string, m mutants.Mutant) (result outcome) {
	result.Mutant = m
	var selected []string // nil, for a control, selects all clauses
	if m.Clause != "" {
		selected = []string{m.Clause}
	}
	// In memory, the requests that these clauses send at once would run one after the other.
	disk := m.Clause == "RAT-13" || m.Clause == "RAT-15"
	result.err = judgeFaulty(ctx, local.Config{Binary: binary, Disk: disk}, m.Fault, func(ctx context.Context, target conformance.Target) error {
		r, err := conformance.Judge(ctx, conformance.Options{Target: target, Seed: 1, Select: selected})
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if r.Preflight != "" { // a mutant that can't be judged counts as detected
			result.detectedBy = []string{m.Clause}
		}
		for _, x := range r.Results {
			if x.Verdict == report.Fail || x.Verdict == report.Warn && (x.Clause == m.Clause || x.Level == "MUST") {
				result.detectedBy = append(result.detectedBy, x.Clause)
			}
		}
		return nil
	})
	return result
}

// summarize prints how many mutants had the expected outcome. The error names the others.
func summarize(outcomes []outcome, took time.Duration) error {
	var undetected []string
	for _, v := range outcomes {
		if !v.ok() {
			undetected = append(undetected, v.ID)
		}
	}
	fmt.Printf("\n%d of %d mutants had the expected outcome, in %.0f s\n", len(outcomes)-len(undetected), len(outcomes), took.Seconds())
	if len(undetected) > 0 {
		return fmt.Errorf("mutants without the expected outcome: the suite is too weak, or the fault has no effect; for a control, the suite is too strict: %s", strings.Join(undetected, ", "))
	}
	return nil
}

// Command mutate is `make mutants`: it builds the jobrunner with its faults,
// runs the conformance suite against each mutant in a process of its own, and
// prints which clause noticed it. It fails where a mutant is not noticed by the
// clause that it was made for, or a control by any MUST.
//
// Without --full each mutant meets the clause that must notice it alone. With
// it, every clause that judges and whose cases do not load the deployment with
// requests by the thousand.
//
// With --variants it is `make variants`: the whole suite runs against each
// deployment that differs where the contract leaves a choice, and must find no
// fault with it.
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
	"sync"
	"syscall"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants/overlay"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

func main() {
	full := flag.Bool("full", false, "run every clause that does not load the deployment against every mutant, and say how many notice")
	only := flag.String("only", "*", "patterns of the mutants or variants to run, by id, separated by commas")
	parallel := flag.Int("parallel", 2, "mutants that run at a time")
	differ := flag.Bool("variants", false, "run variants, which the whole suite must find no fault with, in place of mutants")
	combine := flag.Int("combine", 1, "variants in one deployment")
	count := flag.Int("count", 5, "random combinations of variants")
	seed := flag.Uint64("seed", 0, "of the combinations; 0: a new one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := within(ctx, func(binary string) error {
		if !*differ {
			return run(ctx, binary, *full, *only, *parallel)
		}
		if *seed == 0 {
			*seed = rand.Uint64()>>32 + 1
		}
		if *combine > 1 {
			fmt.Printf("seed %d\n", *seed)
		}
		list, err := groups(*only, *combine, *count, rand.New(rand.NewPCG(*seed, *seed)).IntN)
		if err != nil {
			return err
		}
		return runVariants(ctx, binary, list, *parallel)
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// within builds the jobrunner with its faults for as long as do takes.
func within(ctx context.Context, do func(binary string) error) error {
	dir, err := os.MkdirTemp("", "gpucloud-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "jobrunner")
	if err := overlay.Build(ctx, binary); err != nil {
		return err
	}
	return do(binary)
}

func run(ctx context.Context, binary string, full bool, only string, parallel int) error {
	started := time.Now()
	var chosen []mutants.Mutant
	for _, m := range mutants.All() {
		if ok, err := matches(only, m.ID); err != nil {
			return err
		} else if ok {
			chosen = append(chosen, m)
		}
	}
	verdicts := make([]verdict, len(chosen))
	turns := make(chan struct{}, parallel)
	var group sync.WaitGroup
	for i, m := range chosen {
		group.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			verdicts[i] = judge(ctx, binary, m, full)
			fmt.Println(verdicts[i].line())
		})
	}
	group.Wait()
	return sum(verdicts, full, time.Since(started))
}

// matches tells whether one of the patterns, which commas separate, names an id.
func matches(patterns, id string) (bool, error) {
	for pattern := range strings.SplitSeq(patterns, ",") {
		if ok, err := path.Match(pattern, id); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// variable is where a jobrunner that was built for it finds its fault.
const variable = "GPUCLOUD_FAULT"

// verdict is the outcome of a mutant.
type verdict struct {
	mutants.Mutant
	noticed []string // MUSTs and SHOULDs that are not kept, the mutant's own first
	// unserved says that the jobrunner does not serve yet what the clause is about.
	unserved bool
	err      error
}

// ok tells whether the mutant was noticed by the clause that it was made for; a
// control, by none.
func (v verdict) ok() bool {
	switch {
	case v.unserved:
		return v.err == nil
	case v.Clause == "":
		return v.err == nil && len(v.noticed) == 0
	}
	return v.err == nil && slices.Contains(v.noticed, v.Clause)
}

func (v verdict) line() string {
	state := "noticed "
	switch {
	case v.err != nil:
		state = "ERROR   "
	case v.unserved:
		state = "unserved"
	case v.Clause == "" && v.ok():
		state = "control "
	case !v.ok():
		state = "SURVIVED"
	}
	line := fmt.Sprintf("%s %-28s %-8s %-60s %s", state, v.ID, v.Clause, v.Words, strings.Join(v.noticed, " "))
	if v.err != nil {
		line += " " + v.err.Error()
	}
	return line
}

// patience bounds the run of one mutant. Some faults make a deployment that
// never answers, which is noticed, too.
const patience = 90 * time.Second

func judge(ctx context.Context, binary string, m mutants.Mutant, full bool) verdict {
	v := verdict{Mutant: m}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, err := local.Start(ctx, local.Config{Binary: binary, Env: []string{variable + "=" + m.Fault}})
	if err != nil {
		v.err = err
		return v
	}
	defer func() { v.err = errors.Join(v.err, d.Stop()) }()
	target := d.Target
	target.Unserved = conformance.Unserved()
	// Its own clause comes alone first: with the others beside it, a fault of
	// limits is one of them all.
	var selections [][]string
	if m.Clause != "" {
		selections = append(selections, []string{m.Clause})
	}
	switch {
	case full:
		selections = append(selections, light(m.Clause))
	case m.Clause == "":
		selections = append(selections, nil)
	}
	for _, selected := range selections {
		r, err := conformance.Judge(ctx, conformance.Options{Target: target, Seed: 1, Select: selected})
		if err != nil {
			v.err = err
			return v
		}
		if r.Preflight != "" { // so broken that nothing is judged: that is noticed
			v.noticed = []string{m.Clause}
			return v
		}
		for _, x := range r.Results {
			v.unserved = v.unserved || x.Clause == m.Clause && x.Code == report.SkipUnserved
			if x.Verdict == report.Fail || x.Verdict == report.Warn && (x.Clause == m.Clause || x.Level == "MUST") {
				v.noticed = append(v.noticed, x.Clause)
			}
		}
	}
	slices.SortStableFunc(v.noticed, func(a, b string) int {
		switch m.Clause {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	return v
}

// light are the clauses that can fail and do not load the deployment, but one.
func light(but string) (ids []string) {
	loads := map[string]bool{but: true}
	for _, c := range conformance.Cases() {
		for _, id := range c.AllClauses() {
			loads[id] = loads[id] || c.Allow&suite.Load != 0
		}
	}
	for _, c := range clauses.All() {
		if c.Level != suite.Unspec && c.Untestable == "" && !loads[c.ID] {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func sum(verdicts []verdict, full bool, took time.Duration) error {
	var undetected []string
	var counts []int
	for _, v := range verdicts {
		if !v.ok() {
			undetected = append(undetected, v.ID)
		}
		counts = append(counts, len(v.noticed))
	}
	if len(verdicts) == 0 {
		return errors.New("no such mutant")
	}
	slices.Sort(counts)
	fmt.Printf("\n%d of %d mutants had the expected outcome, in %.0f s", len(verdicts)-len(undetected), len(verdicts), took.Seconds())
	if full {
		fmt.Printf("; %d clauses notice one, in the median", counts[len(counts)/2])
	}
	fmt.Println()
	if len(undetected) > 0 {
		return fmt.Errorf("the suite did not detect mutants as expected: the suite is too weak, or the fault has no effect: %s", strings.Join(undetected, ", "))
	}
	return nil
}

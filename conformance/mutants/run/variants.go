package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/variants"
)

// group is a list of variants that are combined in one deployment.
type group []variants.Variant

func (g group) id() string {
	var ids []string
	for _, v := range g {
		ids = append(ids, v.ID)
	}
	return strings.Join(ids, " + ")
}

// fault returns the value of GPUCLOUD_FAULT, with the differences of all variants.
func (g group) fault() string {
	var all []string
	for _, v := range g {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(v.Fault, "["), "]"))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// groupOutcome is the result of the suite for a group.
type groupOutcome struct {
	group
	unexpected []report.Result // failures, and warnings that aren't allowed
	judged     int
	err        error
}

func (c groupOutcome) ok() bool { return c.err == nil && len(c.unexpected) == 0 }

func (c groupOutcome) line() string {
	if c.ok() {
		line := fmt.Sprintf("passes   %s", c.id())
		if len(c.group) == 1 {
			line = fmt.Sprintf("passes   %-28s %-60s %s", c.id(), c.group[0].Description, strings.Join(c.group[0].MayWarn, " "))
		}
		return strings.TrimRight(line, " ")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "FAILED   %s", c.id())
	if c.err != nil {
		fmt.Fprintf(&b, ": %v", c.err)
	}
	for _, x := range c.unexpected {
		fmt.Fprintf(&b, "\n    %s", strings.ReplaceAll(report.Text(x), "\n", "\n    "))
	}
	return b.String()
}

// grantedLateness is how late a timed effect of a variant may come: as late as at remote
// deployments, whose clock the suite can't advance.
const grantedLateness = 5 * time.Second

// minJudged is how many clauses of the whole suite must judge a variant. With fewer, a run proves nothing.
const minJudged = 200

// judgeGroup judges a group with the selected clauses, or with the whole suite.
func judgeGroup(ctx context.Context, binary string, g group, selected ...string) (result groupOutcome) {
	result.group = g
	result.err = judgeFaulty(ctx, local.Config{Binary: binary}, g.fault(), func(ctx context.Context, target conformance.Target) error {
		target.Lateness = grantedLateness
		var mayWarn []string
		for _, v := range g {
			mayWarn = append(mayWarn, v.MayWarn...)
			if v.Exact {
				target.Lateness = 0
			}
			if v.EndpointBody != "" {
				if err := json.Unmarshal([]byte(v.EndpointBody), &target.EndpointBody); err != nil {
					return err
				}
			}
		}
		r, err := conformance.Judge(ctx, conformance.Options{Target: target, Seed: 1, Select: selected})
		switch {
		case err != nil:
			return err
		case r.Preflight != "":
			return errors.New(r.Preflight)
		}
		for _, x := range r.Results {
			switch {
			case x.Verdict == report.Pass || x.Verdict == report.Observed:
				result.judged++
			case x.Verdict == report.Skip, x.Verdict == report.Warn && slices.Contains(mayWarn, x.Clause):
			default:
				result.unexpected = append(result.unexpected, x)
			}
		}
		switch {
		case len(r.Leaked) > 0:
			return fmt.Errorf("the run did not delete objects: %s", strings.Join(r.Leaked, ", "))
		case selected == nil && result.judged < minJudged:
			return fmt.Errorf("only %d clauses were judged", result.judged)
		}
		return nil
	})
	return result
}

// runVariants runs the suite against each matching variant, and returns an error if one fails.
func runVariants(ctx context.Context, binary, patterns string, parallel int) error {
	started := time.Now()
	selected, err := choose(variants.All(), patterns, func(v variants.Variant) string { return v.ID })
	if err != nil {
		return err
	}
	var failed []string
	for _, c := range judgeAll(selected, parallel, func(v variants.Variant) groupOutcome { return judgeGroup(ctx, binary, group{v}) }) {
		if !c.ok() {
			failed = append(failed, c.id())
		}
	}
	fmt.Printf("\n%d of %d variants pass, in %.0f s\n", len(selected)-len(failed), len(selected), time.Since(started).Seconds())
	if len(failed) > 0 {
		return fmt.Errorf("the suite fails deployments although the contract leaves the choice: %s", strings.Join(failed, ", "))
	}
	return nil
}

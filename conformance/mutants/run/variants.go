package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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

// exact reports whether a variant is judged without lateness.
func (g group) exact() bool {
	return slices.ContainsFunc(g, func(v variants.Variant) bool { return v.Exact })
}

// fault returns the value of GPUCLOUD_FAULT, with the differences of all variants.
func (g group) fault() (string, error) {
	var all []json.RawMessage
	for _, v := range g {
		parts, err := splitFaults(v.Fault)
		if err != nil {
			return "", fmt.Errorf("variant %s: %w", v.ID, err)
		}
		all = append(all, parts...)
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// splitFaults decodes a fault or a list of faults.
func splitFaults(text string) (list []json.RawMessage, err error) {
	if !strings.HasPrefix(text, "[") {
		text = "[" + text + "]"
	}
	err = json.Unmarshal([]byte(text), &list)
	return list, err
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

const wholeRunTimeout = 10 * time.Minute // on a busy machine

// minJudged is how many clauses of the whole suite must judge a variant. If too few can,
// the run proves nothing.
const minJudged = 200

// judgeGroup judges a group with the selected clauses, or with the whole suite.
func judgeGroup(ctx context.Context, binary string, g group, selected ...string) (result groupOutcome) {
	result.group = g
	fault, err := g.fault()
	if err != nil {
		result.err = err
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, wholeRunTimeout)
	defer cancel()
	d, err := local.Start(ctx, local.Config{Binary: binary, Env: []string{faultVariable + "=" + fault}})
	if err != nil {
		result.err = err
		return result
	}
	defer func() { result.err = errors.Join(result.err, d.Stop()) }()
	target := d.Target
	if !g.exact() {
		target.Lateness = grantedLateness
	}
	for _, v := range g {
		if v.EndpointBody != "" {
			result.err = errors.Join(result.err, json.Unmarshal([]byte(v.EndpointBody), &target.EndpointBody))
		}
	}
	r, err := conformance.Judge(ctx, conformance.Options{Target: target, Seed: 1, Select: selected})
	if err = errors.Join(result.err, err); err != nil {
		result.err = err
		return result
	}
	if r.Preflight != "" {
		result.err = errors.New(r.Preflight)
		return result
	}
	var mayWarn []string
	for _, v := range g {
		mayWarn = append(mayWarn, v.MayWarn...)
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
	if len(r.Leaked) > 0 {
		result.err = fmt.Errorf("the run did not delete objects: %s", strings.Join(r.Leaked, ", "))
	}
	if selected == nil && result.judged < minJudged {
		result.err = errors.Join(result.err, fmt.Errorf("only %d clauses were judged", result.judged))
	}
	return result
}

// makeGroups returns a group for each variant that the patterns match. With a size above 1,
// it returns count groups of random variants.
func makeGroups(only string, size, count int, random func(n int) int) (list []group, err error) {
	var selected group
	for _, v := range variants.All() {
		if ok, err := matchesAny(only, v.ID); err != nil {
			return nil, err
		} else if ok {
			selected = append(selected, v)
		}
	}
	if size <= 1 {
		for _, v := range selected {
			list = append(list, group{v})
		}
		return list, nil
	}
	// Combinations are granted lateness, which exact variants must not use.
	selected = slices.DeleteFunc(selected, func(v variants.Variant) bool { return v.Exact })
	for range count {
		var combined group
		for len(combined) < min(size, len(selected)) {
			v := selected[random(len(selected))]
			if !slices.ContainsFunc(combined, func(x variants.Variant) bool { return x.ID == v.ID }) {
				combined = append(combined, v)
			}
		}
		list = append(list, combined)
	}
	return list, nil
}

// runVariants runs the suite against each group, and returns an error if it fails one.
func runVariants(ctx context.Context, binary string, list []group, parallel int) error {
	if len(list) == 0 {
		return errors.New("invalid --only: expected the id of a variant, or a pattern that matches some")
	}
	started := time.Now()
	var mu sync.Mutex
	var failed []string
	var running errgroup.Group
	running.SetLimit(parallel)
	for _, g := range list {
		running.Go(func() error {
			c := judgeGroup(ctx, binary, g)
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(c.line())
			if !c.ok() {
				failed = append(failed, g.id())
			}
			return nil
		})
	}
	_ = running.Wait() // the functions return no error
	fmt.Printf("\n%d of %d variants pass, in %.0f s\n", len(list)-len(failed), len(list), time.Since(started).Seconds())
	if len(failed) > 0 {
		return fmt.Errorf("the suite fails deployments although the contract leaves the choice: %s", strings.Join(failed, ", "))
	}
	return nil
}

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

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/variants"
)

// group are variants at once, in one deployment.
type group []variants.Variant

func (g group) id() string {
	var ids []string
	for _, v := range g {
		ids = append(ids, v.ID)
	}
	return strings.Join(ids, " + ")
}

// exact tells whether one of them is judged with no lateness.
func (g group) exact() bool {
	return slices.ContainsFunc(g, func(v variants.Variant) bool { return v.Exact })
}

// fault is the list of all that is different.
func (g group) fault() (string, error) {
	var all []json.RawMessage
	for _, v := range g {
		some, err := faults(v.Fault)
		if err != nil {
			return "", fmt.Errorf("variant %s: %w", v.ID, err)
		}
		all = append(all, some...)
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// faults are those of a text that is one of them, or a list.
func faults(text string) (list []json.RawMessage, err error) {
	if !strings.HasPrefix(text, "[") {
		text = "[" + text + "]"
	}
	err = json.Unmarshal([]byte(text), &list)
	return list, err
}

// complaints are what the suite says of a group that it should not say.
type complaints struct {
	group
	list   []report.Result
	judged int
	err    error
}

func (c complaints) ok() bool { return c.err == nil && len(c.list) == 0 }

func (c complaints) line() string {
	if c.ok() {
		line := fmt.Sprintf("passes   %s", c.id())
		if len(c.group) == 1 {
			line = fmt.Sprintf("passes   %-28s %-60s %s", c.id(), c.group[0].Words, strings.Join(c.group[0].Warns, " "))
		}
		return strings.TrimRight(line, " ")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "BLAMED   %s", c.id())
	if c.err != nil {
		fmt.Fprintf(&b, ": %v", c.err)
	}
	for _, x := range c.list {
		fmt.Fprintf(&b, "\n    %s", strings.ReplaceAll(report.Text(x), "\n", "\n    "))
	}
	return b.String()
}

// lateness is what the suite grants to deployments elsewhere, whose clock it
// can't advance: the variants are such.
const lateness = 5 * time.Second

// wholeRun bounds a run of the whole suite, on a machine that is busy with much
// else.
const wholeRun = 5 * time.Minute

// least is how many clauses of the whole suite a variant must be judged by: one
// that can't be judged proves nothing.
const least = 200

// tolerate runs the clauses that are selected, all for none, against a group of
// variants.
func tolerate(ctx context.Context, binary string, g group, selected ...string) complaints {
	c := complaints{group: g}
	fault, err := g.fault()
	if err != nil {
		c.err = err
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, wholeRun)
	defer cancel()
	d, err := local.Start(ctx, local.Config{Binary: binary, Env: []string{variable + "=" + fault}})
	if err != nil {
		c.err = err
		return c
	}
	defer func() { c.err = errors.Join(c.err, d.Stop()) }()
	target := d.Target
	target.Unserved = conformance.Unserved()
	if !g.exact() {
		target.Lateness = lateness
	}
	for _, v := range g {
		if v.Body != "" {
			c.err = errors.Join(c.err, json.Unmarshal([]byte(v.Body), &target.EndpointBody))
		}
	}
	r, err := conformance.Judge(ctx, conformance.Options{Target: target, Seed: 1, Select: selected})
	if err = errors.Join(c.err, err); err != nil {
		c.err = err
		return c
	}
	if r.Preflight != "" {
		c.err = errors.New(r.Preflight)
		return c
	}
	var warns []string
	for _, v := range g {
		warns = append(warns, v.Warns...)
	}
	for _, x := range r.Results {
		switch {
		case x.Verdict == report.Pass || x.Verdict == report.Observed:
			c.judged++
		case x.Verdict == report.Skip, x.Verdict == report.Warn && slices.Contains(warns, x.Clause):
		default:
			c.list = append(c.list, x)
		}
	}
	if len(r.Leaked) > 0 {
		c.err = fmt.Errorf("left behind: %s", strings.Join(r.Leaked, ", "))
	}
	if selected == nil && c.judged < least {
		c.err = errors.Join(c.err, fmt.Errorf("only %d clauses are judged", c.judged))
	}
	return c
}

// groups are the variants that the patterns name, each alone; or so many random
// ones of so many at a time.
func groups(only string, size, count int, random func(n int) int) (list []group, err error) {
	var chosen group
	for _, v := range variants.All() {
		if ok, err := matches(only, v.ID); err != nil {
			return nil, err
		} else if ok {
			chosen = append(chosen, v)
		}
	}
	if size <= 1 {
		for _, v := range chosen {
			list = append(list, group{v})
		}
		return list, nil
	}
	// The lateness that those at once are granted would hide an exact one's.
	chosen = slices.DeleteFunc(chosen, func(v variants.Variant) bool { return v.Exact })
	for range count {
		var one group
		for len(one) < min(size, len(chosen)) {
			v := chosen[random(len(chosen))]
			if !slices.ContainsFunc(one, func(x variants.Variant) bool { return x.ID == v.ID }) {
				one = append(one, v)
			}
		}
		list = append(list, one)
	}
	return list, nil
}

// runVariants runs the suite against each group, which must find no fault.
func runVariants(ctx context.Context, binary string, list []group, parallel int) error {
	if len(list) == 0 {
		return errors.New("no such variant")
	}
	started := time.Now()
	var mu sync.Mutex
	var blamed []string
	turns := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for _, g := range list {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			c := tolerate(ctx, binary, g)
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(c.line())
			if !c.ok() {
				blamed = append(blamed, g.id())
			}
		})
	}
	all.Wait()
	fmt.Printf("\n%d of %d variants pass, in %.0f s\n", len(list)-len(blamed), len(list), time.Since(started).Seconds())
	if len(blamed) > 0 {
		return fmt.Errorf("the suite fails what is merely different: %s", strings.Join(blamed, ", "))
	}
	return nil
}

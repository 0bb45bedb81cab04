package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/client"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

type list struct {
	Select []string `short:"s" placeholder:"PATTERN" help:"Clauses: an id, a glob (JOB-*), an area (JOB) or a level (MUST); ! before it takes them away."`
}

func (l *list) Run() error {
	all, err := conformance.Clauses(l.Select)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range all {
		fmt.Fprintf(out, "%s\t%s\t%s\n", c.ID, c.Level, c.Statement)
	}
	return out.Flush()
}

type explain struct {
	ID string `arg:"" help:"The clause."`
}

func (e *explain) Run() error {
	e.ID = strings.ToUpper(e.ID)
	all, err := conformance.Clauses([]string{e.ID})
	if err != nil {
		return err
	}
	for _, c := range all {
		fmt.Printf("%s  %s\n%s\n\nfrom    %s\n        %s\n", c.ID, c.Level, c.Statement, c.Source, c.Link())
		if c.Note != "" {
			fmt.Printf("note    %s\n", c.Note)
		}
		if c.Untestable != "" && c.Area() != client.Area {
			fmt.Printf("note    untestable: %s\n", c.Untestable)
		}
		for _, one := range conformance.Cases() {
			if !slices.Contains(one.AllClauses(), c.ID) {
				continue
			}
			requests, jobs, seconds := one.Cost()
			fmt.Printf("case    %s: up to %d requests, %d jobs, %g s of a worker", one.ID, requests, jobs, seconds)
			if one.WaitTime > 0 {
				fmt.Printf(", %s of waiting", one.WaitTime)
			}
			if one.Allow != 0 {
				fmt.Printf("; --allow %s", one.Allow)
			}
			fmt.Println()
			if one.Needs.Has(suite.LocalOnly) {
				fmt.Println("        only at a deployment that is there for tests")
			}
		}
		if c.Area() == client.Area {
			explainScenarios(c.ID)
			continue
		}
		for _, m := range conformance.Mutants(c.ID) {
			fmt.Printf("notices %s\n", m)
		}
		fmt.Printf("\nconformance run --select %s\n", c.ID)
	}
	return nil
}

// explainScenarios says in which scenarios a clause about clients is judged.
func explainScenarios(clause string) {
	for _, s := range client.Scenarios() {
		if slices.Contains(s.Clauses, clause) {
			fmt.Printf("in      %s: %s\n", s.ID, s.Words)
		}
	}
	fmt.Printf("\nconformance client --select %s -- command …\n", clause)
}

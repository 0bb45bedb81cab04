package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/client"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

type list struct {
	Select []string `short:"s" placeholder:"PATTERN" help:"Clauses: an id, a glob (JOB-*), an area (JOB) or a level (MUST); ! before it excludes them."`
	JSON   bool     `name:"json" help:"Print JSON, a line for each clause."`
}

// Help is printed below the help of the flags.
func (*list) Help() string {
	return "Examples:\n  conformance list\n  conformance list --select 'JOB,!SHOULD'\n  conformance list --json"
}

func (l *list) Run() error {
	selected, err := conformance.Clauses(l.Select)
	if err != nil {
		return err
	}
	if l.JSON {
		lines := json.NewEncoder(os.Stdout)
		for _, c := range selected {
			if err := lines.Encode(struct {
				ID         string `json:"id"`
				Level      string `json:"level"`
				Statement  string `json:"statement"`
				Source     string `json:"source"`
				Link       string `json:"link"`
				Untestable string `json:"untestable,omitempty"`
			}{c.ID, string(c.Level), c.Statement, c.Source, c.Link(), c.Untestable}); err != nil {
				return err
			}
		}
		return nil
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range selected {
		fmt.Fprintf(out, "%s\t%s\t%s\n", c.ID, c.Level, c.Statement)
	}
	return out.Flush()
}

type explain struct {
	ID string `arg:"" help:"The clause."`
}

// Help is printed below the help of the flags.
func (*explain) Help() string {
	return "Example:\n  conformance explain JOB-17"
}

func (e *explain) Run() error {
	selected, err := conformance.Clauses([]string{e.ID})
	if err != nil {
		return err
	}
	for _, c := range selected {
		fmt.Printf("%s  %s\n%s\n\nfrom    %s\n        %s\n", c.ID, c.Level, c.Statement, c.Source, c.Link())
		if c.Untestable != "" && c.Area() != client.Area {
			fmt.Printf("note    untestable: %s\n", c.Untestable)
		}
		for _, testCase := range conformance.Cases() {
			if !slices.Contains(testCase.AllClauses(), c.ID) {
				continue
			}
			requests, jobs, seconds := testCase.Cost()
			fmt.Printf("case    %s: up to %s, %s, %g s of a worker", testCase.ID, report.Count(requests, "request"), report.Count(jobs, "job"), seconds)
			if testCase.WaitTime > 0 {
				fmt.Printf(", %s of waiting", testCase.WaitTime)
			}
			if testCase.Allow != 0 {
				fmt.Printf("; --allow %s", testCase.Allow)
			}
			fmt.Println()
			if testCase.Needs.Has(suite.LocalOnly) {
				fmt.Println("        only at a test deployment")
			}
		}
		if c.Area() == client.Area {
			explainScenarios(c.ID)
			continue
		}
		for _, m := range conformance.Mutants(c.ID) {
			fmt.Printf("detects %s\n", m)
		}
		fmt.Printf("\nconformance run --select %s\n", c.ID)
	}
	return nil
}

// explainScenarios lists the scenarios that judge a clause about clients.
func explainScenarios(clause string) {
	for _, s := range client.Scenarios {
		if slices.Contains(s.Clauses(), clause) {
			fmt.Printf("in      %s: %s\n", s.ID, s.Description)
		}
	}
	fmt.Printf("\nconformance client --select %s -- command …\n", clause)
}

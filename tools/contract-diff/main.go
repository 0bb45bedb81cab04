// Command contract-diff compares a newer version of RunPod's OpenAPI document of API v2 with the
// document that the jobrunner serves:
//
//	contract-diff JOBRUNNER KNOWN DOCUMENT
//
// JOBRUNNER is the jobrunner's document. KNOWN is the version of RunPod's document that this project
// follows; its differences from the jobrunner's document aren't reported. DOCUMENT is the newer version.
// The exit status is 1 if a change breaks clients or deployments.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: contract-diff JOBRUNNER KNOWN DOCUMENT")
		os.Exit(2)
	}
	breaks, err := run(os.Stdout, os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "contract-diff:", err)
		os.Exit(2)
	}
	if breaks {
		os.Exit(1)
	}
}

// run prints what the document changes, and reports whether that breaks clients or deployments.
func run(out io.Writer, ours, known, document string) (breaks bool, err error) {
	before, err := changes(ours, known)
	if err != nil {
		return false, err
	}
	after, err := changes(ours, document)
	if err != nil {
		return false, err
	}
	total := 0
	for _, g := range groups {
		var lines []string
		for _, line := range slices.Sorted(maps.Keys(after[g.audience])) {
			if !before[g.audience][line] {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		total += len(lines)
		breaks = breaks || g.breaks
		fmt.Fprintf(out, "%s (%d)\n", g.title, len(lines))
		heading := ""
		for _, line := range lines {
			operation, text, _ := strings.Cut(line, "\t")
			if operation != heading {
				heading = operation
				fmt.Fprintf(out, "  %s\n", operation)
			}
			fmt.Fprintf(out, "    %s\n", text)
		}
		fmt.Fprintln(out)
	}
	if total == 0 {
		fmt.Fprintln(out, "The document has no new changes.")
	}
	return breaks, nil
}

// An audience is the group of programs that a change breaks.
type audience int

const (
	clients     audience = iota // clients of RunPod that follow the jobrunner's document
	deployments                 // jobrunners whose clients follow RunPod's document
	noAudience
)

var groups = []struct {
	audience audience
	title    string
	breaks   bool
}{
	{clients, "Breaks clients that follow our document, such as the provider", true},
	{deployments, "Breaks deployments: clients that follow RunPod's document need this, but the jobrunner lacks it (shown as changes from RunPod's document to ours)", true},
	{noAudience, "Breaks neither clients nor deployments", false},
}

// changes compares two documents in both directions: an incompatible change from ours to
// theirs breaks clients, one from theirs to ours breaks deployments.
func changes(ours, theirs string) (map[audience]map[string]bool, error) {
	forward, err := compare(ours, theirs)
	if err != nil {
		return nil, err
	}
	backward, err := compare(theirs, ours)
	if err != nil {
		return nil, err
	}
	found := map[audience]map[string]bool{clients: {}, deployments: {}, noAudience: {}}
	for _, c := range backward {
		if c.IsBreaking() {
			found[deployments][line(c)] = true
		}
	}
	for _, c := range forward {
		group := noAudience
		if c.IsBreaking() {
			group = clients
		}
		found[group][line(c)] = true
	}
	return found, nil
}

func line(c checker.Change) string {
	return c.GetOperation() + " " + c.GetPath() + "\t" + strings.ReplaceAll(c.GetUncolorizedText(checker.NewDefaultLocalizer()), "\n", " ")
}

func compare(base, revision string) (checker.Changes, error) {
	config := diff.NewConfig()
	for _, prose := range []string{diff.ExcludeExamplesOption, diff.ExcludeDescriptionOption, diff.ExcludeTitleOption, diff.ExcludeSummaryOption, diff.ExcludeTagsOption} {
		config.ExcludeElements.Add(prose)
	}
	specs := make([]*load.SpecInfo, 2)
	for i, file := range []string{base, revision} {
		var err error
		specs[i], err = load.NewSpecInfo(openapi3.NewLoader(), load.NewSource(file), load.WithFlattenAllOf(), load.WithFlattenParams())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	report, sources, err := diff.GetWithOperationsSourcesMap(config, specs[0], specs[1])
	if err != nil {
		return nil, fmt.Errorf("comparing %s with %s: %w", base, revision, err)
	}
	return checker.CheckBackwardCompatibilityUntilLevel(checker.NewConfig(checker.GetAllChecks()), report, sources, checker.INFO), nil
}

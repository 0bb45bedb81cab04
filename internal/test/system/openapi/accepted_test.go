package openapi

import (
	_ "embed"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

//go:embed testdata/accepted.tsv
var acceptedTable string

//go:embed testdata/served.tsv
var servedTable string

//go:embed testdata/originals.tsv
var originalsTable string

//go:embed testdata/table.tsv
var tableTable string

// accepted is an intended difference of all operations that match include and don't match exclude.
type accepted struct {
	what             string // as in finding
	include, exclude *regexp.Regexp
	topic            string // the reason, or its topic in docs/reference/contract.md
}

func (a accepted) covers(operation string) bool {
	return a.include.MatchString(operation) && (a.exclude == nil || !a.exclude.MatchString(operation))
}

func readAccepted(t *testing.T, table string) (list []accepted) {
	t.Helper()
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		must.Require(t, len(f) == 4, len(f), "columns, want 4:", line)
		a := accepted{what: f[0], include: regexp.MustCompile(f[1]), topic: f[3]}
		if f[2] != "-" {
			a.exclude = regexp.MustCompile(f[2])
		}
		list = append(list, a)
	}
	return list
}

// compare reports findings that aren't accepted and, in a full run, accepted ones that weren't found.
func (f *findings) compare(t *testing.T, all []operation, file, text string) {
	t.Helper()
	table := readAccepted(t, text)
	for found, example := range f.seen {
		must.Hold(t, slices.ContainsFunc(table, func(a accepted) bool { return a.what == found.what && a.covers(found.operation) }),
			found.operation, "differs from its document:", found.what, example)
	}
	for _, a := range table {
		covered := 0
		for _, o := range all {
			if !a.covers(o.String()) {
				continue
			}
			covered++
			must.Hold(t, f.seen[finding{o.String(), a.what}] != "" || testing.Short(), "testdata/"+file, "accepts a difference of", o, "that doesn't exist any more:", a.what)
		}
		must.Hold(t, covered != 0, "testdata/"+file, "has a line that no operation matches:", a.what)
	}
}

// Each accepted difference names a choice of docs/reference/contract.md.
func TestAcceptedDifferencesHaveReasons(t *testing.T) {
	page := string(must.Do(os.ReadFile("../../../../docs/reference/contract.md"))(t))
	for _, a := range readAccepted(t, acceptedTable) {
		must.Hold(t, strings.Contains(page, "\n| "+a.topic+" | "), "docs/reference/contract.md has no choice", a.topic, "which is the reason for:", a.what)
	}
}

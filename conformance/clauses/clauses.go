// Package clauses is the registry of clauses. A clause is one checkable statement of the
// service description; the case that judges it declares it.
package clauses

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/cases"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// Clause is a statement of the description. suite.Case explains the fields.
type Clause struct {
	ID         string
	Level      suite.Level
	Source     string
	Statement  string
	Live       suite.Dialect
	Untestable string // why no case judges it, or ""
}

// Area returns the part of the id that the clauses of a section share: JOB of JOB-01.
func (c Clause) Area() string {
	area, _, _ := strings.Cut(c.ID, "-")
	return area
}

// Result returns a result of the clause, without a verdict.
func (c Clause) Result() report.Result {
	return report.Result{Clause: c.ID, Area: c.Area(), Level: string(c.Level), Source: c.Source, Statement: c.Statement, Link: c.Link()}
}

// InLiveDialect returns the clause in the dialect of the public SDKs.
func (c Clause) InLiveDialect() Clause {
	if c.Live.Level != "" {
		c.Level = c.Live.Level
	}
	return c
}

// All returns the clauses in the order of report.Areas and of their numbers.
func All() []Clause { return slices.Clone(registry()) }

var registry = sync.OnceValue(func() []Clause {
	list := slices.Clone(withoutCase)
	declared := map[string]bool{}
	for _, c := range cases.All() {
		if id := c.Clause(); c.Statement != "" && !declared[id] {
			declared[id] = true
			list = append(list, Clause{ID: id, Level: c.Level, Source: c.Source, Statement: c.Statement, Live: c.Live})
		}
	}
	slices.SortFunc(list, func(a, b Clause) int {
		return cmp.Or(cmp.Compare(a.areaIndex(), b.areaIndex()), cmp.Compare(a.number(), b.number()))
	})
	return list
})

// areaIndex is the position of the clause's area in report.Areas.
func (c Clause) areaIndex() int {
	return slices.IndexFunc(report.Areas, func(a report.Area) bool { return a.ID == c.Area() })
}

func (c Clause) number() int {
	_, digits, _ := strings.Cut(c.ID, "-")
	n, _ := strconv.Atoi(digits) // a test checks that all ids have a number
	return n
}

// Find returns the clause with an id.
func Find(id string) (Clause, bool) {
	list := registry()
	i := slices.IndexFunc(list, func(c Clause) bool { return c.ID == id })
	if i < 0 {
		return Clause{}, false
	}
	return list[i], true
}

// Page is the path of the generated page with all clauses.
const Page = "docs/reference/clauses.md"

// module is this module's path, which is also the address of its repository.
var module = strings.TrimSuffix(reflect.TypeFor[Clause]().PkgPath(), "/conformance/clauses")

// Anchor is the clause's anchor on Page.
func (c Clause) Anchor() string { return "#" + strings.ToLower(c.ID) }

// Link is the address of the clause on Page of the main branch.
func (c Clause) Link() string { return "https://" + module + "/blob/main/" + Page + c.Anchor() }

// Documents are the documents that the clauses come from, with the dates of our copies. The
// service description has no date.
var Documents = []report.Document{
	{Name: "service description"},
	{Name: "OpenAPI document of version 1", Version: "0.1.0", Date: "2026-08"},
	{Name: "OpenAPI document of version 2", Version: "2.0.0", Date: "2026-08-18"},
}

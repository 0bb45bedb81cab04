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
	ID         string          `json:"id"`
	Level      suite.Level     `json:"level"`
	Source     string          `json:"source"`
	Statement  string          `json:"statement"`
	Live       suite.LiveLevel `json:"-"`
	Untestable string          `json:"untestable,omitempty"` // why no case judges it, or ""
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

func (c Clause) Anchor() string { return "#" + strings.ToLower(c.ID) }

// Link is the address of the clause on Page of the main branch.
func (c Clause) Link() string { return "https://" + module + "/blob/main/" + Page + c.Anchor() }

// Documents are the sources of the clauses, with the dates of our copies if they have one.
var Documents = []report.Document{
	{Name: "service description"},
	{Name: "OpenAPI document of version 1", Version: "0.1.0", Date: "2026-08"},
	{Name: "OpenAPI document of version 2", Version: "2.0.0", Date: "2026-08-18"},
}

// withoutCase are the clauses that no case declares: no case can judge them, or only cases of other clauses do, by Given.
var withoutCase = []Clause{
	{
		ID: "JOB-47", Level: suite.Unspec, Source: "What the service does, 4",
		Statement:  "Load-balancing endpoints.",
		Untestable: "the user's own server responds to their requests, so the description doesn't define the responses",
	},
	{
		ID: "RAT-09", Level: suite.Must, Source: "Limits, Rate limits",
		Statement: "Every operation accepts as many requests as its limit allows.",
		// The cases of RAT-01 to RAT-08 judge it by Given.
	},
	{
		ID: "VER-51", Level: suite.Unspec, Source: "Versioning, 12",
		Statement:  "Whether the versions are compatible.",
		Untestable: "the description promises no compatibility",
	},
	forClients("CLI-01", suite.Must, "Authentication, 1",
		"A client sends its key as Authorization: Bearer on every call."),
	forClients("CLI-02", suite.Should, "Errors, 429",
		"After a 429, a client backs off exponentially and retries."),
	forClients("CLI-03", suite.Should, "Events, 1",
		"A receiver of webhooks returns 200."),
	forClients("CLI-04", suite.Must, "States and transitions, Network volume size rule",
		"A client that plans changes rejects a smaller size for a volume before it sends a request."),
	forClients("CLI-05", suite.Must, "Template",
		"A client reports that a name is taken."),
	forClients("CLI-06", suite.Must, "Versioning, 1",
		"After the retirement of version 1, a client that uses it warns."),
	forClients("CLI-07", suite.Should, "Errors, 500",
		"A client doesn't repeat a create unless it has checked that nothing was created."),
	forClients("CLI-08", suite.Should, "Errors, 400",
		"A client doesn't repeat a request after a 4xx other than 408, 425 and 429."),
	forClients("CLI-09", suite.Should, "States and transitions, ttl elapsed",
		"A client that waits for a job stops and reports it when the job returns 404."),
	forClients("CLI-10", suite.Should, "States and transitions, POST /cancel",
		"A client that waits for a job stops and reports it when the job is CANCELLED."),
	forClients("CLI-11", suite.Should, "Authentication, 1",
		"A client never prints its key, and sends it only in Authorization."),
}

func forClients(id string, level suite.Level, source, statement string) Clause {
	return Clause{ID: id, Level: level, Source: source, Statement: statement, Untestable: "it applies to clients; conformance client tests them"}
}

// Package suite has the building blocks of cases: Case, its context C, answers, jobs and fixtures.
package suite

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Level is how strongly the description requires a clause.
type Level string

// Levels, from the strongest to none.
const (
	Must   Level = "MUST"   // required: a failure is a FAIL
	Should Level = "SHOULD" // recommended, or implied by two statements: a failure is a WARN
	May    Level = "MAY"    // optional: a failure is a WARN
	Unspec Level = "UNSPEC" // left open: the behaviour is recorded as OBSERVED
)

// Levels has all levels, strongest first.
var Levels = []Level{Must, Should, May, Unspec}

// LiveLevel is the level of a clause in the dialect of the public SDKs, and why it differs.
type LiveLevel struct {
	Level  Level
	Reason string
}

// Case judges a clause. Run is a short function that sends requests through C, whose
// helpers end the case if the clause doesn't accept an answer.
//
// The case with the same ID as the clause declares the clause: Level, Source, Statement
// and Live. Further cases of the clause follow it without these fields.
type Case struct {
	// ID is the clause's ID. Further cases append a word: SUB-20-above.
	ID        string
	Level     Level
	Source    string    // section and row of the description
	Statement string    // in our own words
	Live      LiveLevel // if the dialect of the public SDKs differs
	// Clauses are further clauses that get the same verdict.
	Clauses []string
	// GivenClauses are judged by Given. If one is violated, it fails and blocks the case.
	GivenClauses []string
	Needs        Needs
	Allow        Permission
	// WaitTime is how long the case waits in the target's time. If the clock can't be
	// advanced, cases that wait for longer than --max-wait are skipped or deferred.
	WaitTime time.Duration
	// Requests, Jobs and Seconds are the most that the case costs: requests (0 is 15, or 3
	// if it only reads), jobs, and seconds of worker time.
	Requests, Jobs int
	Seconds        float64
	// Supplementary says that if this case is skipped, the clause's other cases decide its verdict. The clause is then partly judged.
	Supplementary bool
	// Decides says that the case judges by an effect. If it passes, the clause's inconclusive
	// cases don't count. If it is skipped, the clause isn't partly judged.
	Decides bool
	// Watch is called with every exchange of the run that has a complete answer and isn't Quiet. It returns a fault
	// of the exchange, or "". Run sends requests for Watch. The case passes unless Watch finds a fault or Run fails.
	Watch func(*WatchedExchange) string
	Run   func(c *C)
}

// WatchedExchange is an exchange of any case, for Watch.
type WatchedExchange struct {
	*wire.Exchange
	// API is the API that the request was sent to: "v1", "v2", "jobs", or "" for another address.
	API string
	// Path is the path after the endpoint (/status/x) for the job API, and after the
	// version (/templates) for the management API.
	Path string
	// Status is the job's status in the answer, or "".
	Status string
	// PreviousStatus is the job's last status in an earlier exchange, or "". RetriedSince says
	// that /retry has been sent since then.
	PreviousStatus string
	RetriedSince   bool
}

// RetirementOfV1 is when version 1 of the management API is retired.
var RetirementOfV1 = time.Date(2026, time.November, 15, 0, 0, 0, 0, time.UTC)

// Needs are a case's requirements on the target. If one isn't met, the case is skipped.
type Needs uint

// Needs of a case. On a local target each case gets endpoints of its own.
const (
	AnyEndpoint        Needs = 1 << iota // with our handler; other cases may use the endpoint, too
	OwnEndpoint                          // with our handler and at most one worker, for this case only
	IdleEndpoint                         // without workers, for this case only
	FiveWorkerEndpoint                   // with at most five workers, for this case only
	SecondEndpoint                       // a second endpoint, C.SecondEndpoint
	OtherKey                             // a valid key without access
	UserKey                              // a key of another user, with access
	Webhooks                             // the target can call the suite
	V1                                   // version 1 of the management API
	V2                                   // version 2 of the management API
	LocalOnly                            // a test deployment: elsewhere the case would be too expensive, slow or harmful
	AdvanceableClock                     // a clock that can be advanced
	DescribedDialect                     // the description's dialect, not the public SDKs'
)

func (n Needs) Has(others Needs) bool { return n&others == others }

// Permission lists the actions that a case performs on the target besides reading.
type Permission uint

// What a case does. Each is allowed by a word of --allow.
const (
	Create Permission = 1 << iota // creates objects of its own, and deletes them
	Queue                         // runs small jobs
	Load                          // sends many or large requests
	Spend                         // costs more than a few cents
)

var Permissions = []struct {
	Permission
	Name, Description string
}{
	{Create, "create", "create and delete objects"},
	{Queue, "queue", "run small jobs"},
	{Load, "load", "send many or large requests"},
	{Spend, "spend", "cost more than a few cents"},
}

// String returns the value of --allow.
func (p Permission) String() string {
	names, _ := p.NamesAndDescriptions()
	return strings.Join(names, ",")
}

func (p Permission) NamesAndDescriptions() (names, descriptions []string) {
	for _, x := range Permissions {
		if p&x.Permission != 0 {
			names, descriptions = append(names, x.Name), append(descriptions, x.Description)
		}
	}
	return names, descriptions
}

func (c *Case) AllClauses() []string {
	return slices.Concat([]string{c.Clause()}, c.Clauses, c.GivenClauses)
}

// Judges reports whether the case's verdict is about a clause. It isn't about GivenClauses.
func (c *Case) Judges(clause string) bool {
	return c.Clause() == clause || slices.Contains(c.Clauses, clause)
}

// Clause returns the clause's ID: JOB-01 for JOB-01 and JOB-01-word.
func (c *Case) Clause() string {
	area, rest, _ := strings.Cut(c.ID, "-")
	number, _, _ := strings.Cut(rest, "-")
	return area + "-" + number
}

// Cost returns the most that the case costs, without its fixtures.
func (c *Case) Cost() (requests, jobs int, seconds float64) {
	requests = c.Requests
	if requests == 0 && c.Allow == 0 {
		requests = 3
	}
	return cmp.Or(requests, 15), c.Jobs, c.Seconds
}

// Package suite is what a case of the conformance suite is made of.
package suite

import (
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Level is how strongly the description requires a clause.
type Level string

// Levels, from the strongest to none.
const (
	Must   Level = "MUST"   // stated flatly: a failure is a FAIL
	Should Level = "SHOULD" // said so, or following from two statements: a WARN
	May    Level = "MAY"    // optional: a WARN
	Unspec Level = "UNSPEC" // left open: the behaviour is recorded as OBSERVED
)

// Levels are all of them, strongest first.
var Levels = []Level{Must, Should, May, Unspec}

// Dialect is the level of a clause in the dialect of the public SDKs, and why.
type Dialect struct {
	Level Level
	Why   string
}

// Case judges a clause. It is one short function that sends its requests through C,
// whose helpers end it where the clause does not accept the answer.
//
// The case whose ID is that of the clause states it: Level, Source, Statement,
// Note and Live. Further cases of the clause leave these out, and follow it.
type Case struct {
	// ID is the clause's ID, followed by a word in further cases: SUB-20-above.
	ID        string
	Level     Level
	Source    string // section and row of the description
	Statement string // in our own words
	Note      string
	Live      Dialect // where the dialect of the public SDKs differs
	// Clauses are further clauses that the case judges, all by the same verdict.
	Clauses []string
	// GivenClauses are clauses that the case judges on its way, by Given: where one is not
	// kept, it fails, and the case is blocked by it.
	GivenClauses []string
	Needs        Needs
	Allow        Allow
	// WaitTime is how long the case waits in the target's time: with a clock that
	// nobody can advance, longer ones are left to --defer.
	WaitTime time.Duration
	// Requests, Jobs and Seconds are what it costs at most: requests (0: 15, or 3
	// where it only reads), jobs, and seconds for which a worker is busy.
	Requests, Jobs int
	Seconds        float64
	// Operations are the operations that the clause is about, "GET /v2/pods", where
	// not every deployment may serve them yet.
	Operations []string
	// Supplementary says that other cases judge the clause, too: where this one is skipped,
	// they alone do.
	Supplementary bool
	// Decides says that the case judges by an effect: where it passes, an inconclusive case
	// of its clause does not count. Where it is skipped, it leaves out nothing.
	Decides bool
	// Watch is told of every exchange of the run, and says what is wrong with it,
	// "" for nothing. Run makes some exchanges to watch, and passes where nothing
	// else fails.
	Watch func(*Watched) string
	Run   func(c *C)
}

// Watched is an exchange of any case, for those that watch all.
type Watched struct {
	*wire.Exchange
	// API is the one that was asked: "v1", "v2", "jobs", or "" for another.
	API string
	// Path is the one after the endpoint (/status/x) of the job API, after the
	// version (/templates) of the management API.
	Path string
	// Job is the endpoint and the id of the job that the exchange is about, and
	// Status the one that it tells.
	Job, Status string
	// PreviousStatus is the status of the job that was seen before, "" for none, and Retried
	// says that it was asked to be retried since.
	PreviousStatus string
	RetriedSince   bool
}

// Needs are what a case requires of the target; where one is missing, the case is
// skipped.
type Needs uint

// Locally each case gets endpoints of its own.
const (
	AnyEndpoint      Needs = 1 << iota // with our handler; other cases may use it, too
	OwnEndpoint                        // with our handler and one worker at most, for this case alone
	IdleEndpoint                       // for this case alone, with no worker ever
	WideEndpoint                       // for this case alone, with five workers at most
	SecondEndpoint                     // a second endpoint, C.SecondEndpoint
	OtherKey                           // a valid key without access
	UserKey                            // a key of another user, with access
	Webhooks                           // the target can call the suite
	V1                                 // version 1 of the management API
	V2                                 // version 2 of the management API
	LocalOnly                          // a target for tests: elsewhere the case costs, takes or breaks too much
	Advanced                           // a clock that can be advanced
	DescribedDialect                   // the dialect of the description
	LiveDialect                        // the dialect of the public SDKs
)

// Has tells whether the needs include all of some.
func (n Needs) Has(some Needs) bool { return n&some == some }

// Allow is what a case does to the target, beyond reading.
type Allow uint

// What a case may do, each asked for by a word of --allow.
const (
	Create Allow = 1 << iota // creates objects of its own, and deletes them
	Queue                    // runs small jobs
	Load                     // sends many or large requests
	Spend                    // costs more than a few cents
)

// Allows names what a case may do.
var Allows = []struct {
	Allow
	Name, Words string
}{
	{Create, "create", "create and delete objects"},
	{Queue, "queue", "run small jobs"},
	{Load, "load", "send many or large requests"},
	{Spend, "spend", "cost more than a few cents"},
}

// String lists the words of --allow.
func (a Allow) String() string {
	text := ""
	for _, x := range Allows {
		if a&x.Allow != 0 {
			if text != "" {
				text += ","
			}
			text += x.Name
		}
	}
	return text
}

// AllClauses are the clauses that the case judges.
func (c *Case) AllClauses() []string { return slices.Concat(c.judgedClauses(), c.GivenClauses) }

// Judges tells whether the verdict of the case is about a clause, which it does not
// only judge on its way.
func (c *Case) Judges(clause string) bool { return slices.Contains(c.judgedClauses(), clause) }

// judgedClauses are those that the verdict of the case is about.
func (c *Case) judgedClauses() []string { return append([]string{c.Clause()}, c.Clauses...) }

// Clause returns JOB-01 for JOB-01 and for JOB-01-word.
func (c *Case) Clause() string {
	dashes := 0
	for i, r := range c.ID {
		if r == '-' {
			if dashes++; dashes == 2 {
				return c.ID[:i]
			}
		}
	}
	return c.ID
}

// Cost is what the case asks of the target, with the requests that its fixtures
// take.
func (c *Case) Cost() (requests, jobs int, seconds float64) {
	requests = c.Requests
	switch {
	case requests != 0:
	case c.Allow == 0:
		requests = 3
	default:
		requests = 15
	}
	return requests, c.Jobs, c.Seconds
}

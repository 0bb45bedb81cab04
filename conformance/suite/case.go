// Package suite is what a case of the conformance suite is made of.
package suite

import (
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// Level is how strongly the description says a clause.
type Level string

// Levels, from the strongest to none.
const (
	Must   Level = "MUST"   // stated flatly: a failure is a FAIL
	Should Level = "SHOULD" // said so, or following from two statements: a WARN
	May    Level = "MAY"    // optional: a WARN
	Unspec Level = "UNSPEC" // not shown: what comes is recorded as OBSERVED
)

// Levels are all of them, strongest first.
var Levels = []Level{Must, Should, May, Unspec}

// Dialect is what the dialect of the public SDKs says of a clause, and why.
type Dialect struct {
	Level Level
	Why   string
}

// Case judges a clause. It is one short function: what it asks for goes through
// C, whose helpers end it where the answer is none that the clause accepts.
//
// The case whose ID is that of the clause states it: Level, From, Says, Note and
// Live. Further cases of the clause leave these out, and stand below it.
type Case struct {
	// ID is that of the clause. A clause with several cases has a word behind it:
	// SUB-20-above.
	ID    string
	Level Level
	From  string // section and row of the description
	Says  string // the statement, in our own words
	Note  string
	Live  Dialect // where the dialect of the public SDKs says otherwise
	// Clauses are further clauses that the case judges, all by the same verdict.
	Clauses []string
	// Also are clauses that the case judges on its way, by Given: where one is not
	// kept, it fails, and the case is blocked by it.
	Also  []string
	Needs Needs
	Allow Allow
	// Takes is how long the case waits in the target's time: with a clock that
	// nobody can advance, longer ones are left to --defer.
	Takes time.Duration
	// Requests, Jobs and Seconds are what it costs at most: requests (0: 15, or 3
	// where it only reads), jobs, and seconds for which a worker is busy.
	Requests, Jobs int
	Seconds        float64
	// Serves are the operations that the clause is about, "GET /v2/pods", where
	// not every deployment may serve them yet.
	Serves []string
	// More says that other cases judge the clause, too: where this one is skipped,
	// they alone do.
	More bool
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
	// Last is the status of the job that was seen before, "" for none, and Retried
	// says that it was asked to be retried since.
	Last    string
	Retried bool
}

// Needs are the things that a case needs of the target; without one of them it
// is skipped.
type Needs uint

// What a case may need. Locally each case gets endpoints of its own.
const (
	Endpoint  Needs = 1 << iota // with our handler; others may use it too
	Own                         // with our handler and one worker at most, for this case alone
	Idle                        // for this case alone, with no worker ever
	Wide                        // for this case alone, with five workers at most
	Second                      // a second endpoint, C.E2
	OtherKey                    // a valid key without access
	UserKey                     // a key of another user, with access
	Hooks                       // the target can call us
	V1                          // version 1 of the management API
	V2                          // version 2 of the management API
	LocalOnly                   // a target for tests: it costs, or takes, or breaks too much elsewhere
	Advanced                    // a clock that can be advanced
	Described                   // the dialect of the description
	Live                        // the dialect of the public SDKs
)

// Has tells whether all of some are among the needs.
func (n Needs) Has(some Needs) bool { return n&some == some }

// Allow is what a case does to the target, beyond reading.
type Allow uint

// What a case may do, each asked for by a word of --allow.
const (
	Create Allow = 1 << iota // makes things of its own, and takes them down
	Queue                    // runs small jobs
	Load                     // sends many or large requests
	Spend                    // costs more than cents
)

// Allows names what a case may do.
var Allows = []struct {
	Allow
	Name, Words string
}{
	{Create, "create", "make things and take them down"},
	{Queue, "queue", "run small jobs"},
	{Load, "load", "send many or large requests"},
	{Spend, "spend", "cost more than cents"},
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

// All are the clauses that the case judges.
func (c *Case) All() []string { return slices.Concat(c.own(), c.Also) }

// Judges tells whether the verdict of the case is about a clause, which it does not
// only judge on its way.
func (c *Case) Judges(clause string) bool { return slices.Contains(c.own(), clause) }

// own are those that the verdict of the case is about.
func (c *Case) own() []string { return append([]string{c.Clause()}, c.Clauses...) }

// Clause is JOB-01 of JOB-01 and of JOB-01-word.
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

// Costs is what the case asks of the target, with the requests that its fixtures
// take.
func (c *Case) Costs() (requests, jobs int, seconds float64) {
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

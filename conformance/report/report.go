// Package report has the report of a run and the formats in which it is written.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schema is the version of the JSON format. It changes if older readers would misread the report.
const Schema = "gpucloud-conformance/1"

type Verdict string

const (
	Pass         Verdict = "PASS"
	Fail         Verdict = "FAIL"            // a MUST is violated
	Warn         Verdict = "WARN"            // a SHOULD or a MAY is violated
	Observed     Verdict = "OBSERVED"        // the description leaves the behaviour open
	Known        Verdict = "KNOWN"           // a listed deviation
	Unexpected   Verdict = "UNEXPECTED-PASS" // a listed deviation whose clause passes
	Skip         Verdict = "SKIP"            // not judged, for the reason in Code
	Blocked      Verdict = "BLOCKED"         // not judged, since the clause BlockedBy failed
	Inconclusive Verdict = "INCONCLUSIVE"    // not enough evidence, for the reason in Reason
	Error        Verdict = "ERROR"           // the suite itself failed, or was interrupted
)

// Verdicts has all verdicts, most urgent first.
var Verdicts = []Verdict{Fail, Unexpected, Error, Inconclusive, Warn, Known, Blocked, Observed, Skip, Pass}

const (
	SkipFeature    = "feature"    // the target lacks what the case needs
	SkipAllow      = "safety"     // --allow doesn't permit the case
	SkipBudget     = "budget"     // the case takes too long or costs too much
	SkipUntestable = "untestable" // no case can judge the clause
	SkipDeferred   = "deferred"   // resumes with conformance resume
)

// Report is the report of a run. It contains no secrets.
type Report struct {
	Schema  string `json:"schema"`
	Version string `json:"version"` // of the suite
	// Implementation is nil if the run doesn't name what was judged.
	Implementation *Implementation `json:"implementation,omitempty"`
	Documents      []Document      `json:"documents,omitempty"`
	Target         Target          `json:"target"`
	Started        time.Time       `json:"started"`
	// Duration is real time, TargetTime the target's.
	Duration   Duration `json:"took_ms"`
	TargetTime Duration `json:"target_time_ms"`
	Dialect    string   `json:"dialect"`
	Seed       uint64   `json:"seed"`
	Requests   int64    `json:"requests"`
	Jobs       int64    `json:"jobs"`
	// Reruns is the usage of reruns of failed cases, which Duration, TargetTime, Requests
	// and Jobs exclude. It is nil without reruns.
	Reruns *Usage          `json:"reruns,omitempty"`
	Counts map[Verdict]int `json:"counts"`
	Exit   int             `json:"exit"`
	// NotJudged are the clauses that were not judged. The result of each has the reason.
	NotJudged []string `json:"not_judged"`
	// PartlyJudged are the clauses with a case that did not run completely. LeftOut has the reasons.
	PartlyJudged []string `json:"partly_judged"`
	// Preflight is the reason why nothing could be judged, or "".
	Preflight string   `json:"preflight,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	// OtherFailures belong to no clause, such as a client's failures in the scenario without faults.
	OtherFailures []string `json:"failed,omitempty"`
	// Leaked are objects that the suite created, but couldn't delete.
	Leaked  []string `json:"leaked,omitempty"`
	Stale   []string `json:"stale,omitempty"` // stale entries of the list of known deviations
	Results []Result `json:"results"`
}

// Usage is the time, the requests and the jobs of a run or of its reruns.
type Usage struct {
	Cases      int      `json:"cases"` // rerun cases; a case with two reruns counts twice
	Duration   Duration `json:"took_ms"`
	TargetTime Duration `json:"target_time_ms"`
	Requests   int64    `json:"requests"`
	Jobs       int64    `json:"jobs"`
}

// Add returns the sum of two usages. Either may be nil.
func (r *Usage) Add(other *Usage) *Usage {
	switch {
	case other == nil:
		return r
	case r == nil:
		return other
	}
	return &Usage{r.Cases + other.Cases, r.Duration + other.Duration, r.TargetTime + other.TargetTime, r.Requests + other.Requests, r.Jobs + other.Jobs}
}

func (r Usage) Minus(earlier Usage) Usage {
	return Usage{r.Cases - earlier.Cases, r.Duration - earlier.Duration, r.TargetTime - earlier.TargetTime, r.Requests - earlier.Requests, r.Jobs - earlier.Jobs}
}

func (r *Usage) String() string {
	if r == nil {
		return ""
	}
	return effort(r.Cases, "case", r.Duration, r.Requests, r.Jobs)
}

// seed returns the seed as text, or "" for a report on a client, which has none.
func (r *Report) seed() string {
	if r.Seed == 0 {
		return ""
	}
	return strconv.FormatUint(r.Seed, 10)
}

// Count returns a number with its noun, such as "1 clause" or "2 clauses".
func Count[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// usage returns the usage of the run, as text.
func (r *Report) usage() string {
	return effort(len(r.Results), "clause", r.Duration, r.Requests, r.Jobs)
}

func effort(n int, noun string, took Duration, requests, jobs int64) string {
	return fmt.Sprintf("%s in %s, %s, %s", Count(n, noun), time.Duration(took).Round(time.Millisecond), Count(requests, "request"), Count(jobs, "job"))
}

// Target has the addresses of the deployment that was judged.
type Target struct {
	BaseURL   string `json:"base_url,omitempty"`
	BaseURLV1 string `json:"base_url_v1,omitempty"`
	QueueURL  string `json:"queue_url,omitempty"`
	Endpoint  string `json:"endpoint,omitempty"`
	Local     bool   `json:"local"`
}

type Result struct {
	Clause    string  `json:"clause"`
	Area      string  `json:"area"`
	Level     string  `json:"level"`
	Source    string  `json:"source"`
	Statement string  `json:"statement"`
	Link      string  `json:"link,omitempty"` // the page of the clause
	Case      string  `json:"case,omitempty"`
	Verdict   Verdict `json:"verdict"`
	Code      string  `json:"code,omitempty"`   // of a SKIP
	BlockedBy string  `json:"by,omitempty"`     // of a BLOCKED: the clause that failed, or "preflight"
	Reason    string  `json:"reason,omitempty"` // empty for PASS
	Observed  string  `json:"observed,omitempty"`
	// LeftOut has the parts of the clause that were not judged.
	LeftOut []Omission `json:"left_out,omitempty"`
	Failure *Failure   `json:"failure,omitempty"`
	// Repeats is how many runs of the case did not pass, such as "3/3", or "" without reruns.
	Repeats  string   `json:"repeats,omitempty"`
	Duration Duration `json:"took_ms"`
	// Requests is the number of requests, except requests for fixtures.
	Requests int        `json:"requests,omitempty"`
	Trace    []Exchange `json:"trace,omitempty"` // empty for PASS and SKIP
}

// Omission is a case, or a part of a case, that did not run.
type Omission struct {
	Case   string `json:"case"`
	Code   string `json:"code"` // as for a SKIP
	Reason string `json:"reason"`
}

// Failure describes how a clause was violated.
type Failure struct {
	Steps     string   `json:"did"`
	Statement string   `json:"says"` // the clause's statement and source
	Accepted  []string `json:"accepted"`
	Actual    string   `json:"came"`
	Curl      string   `json:"curl,omitempty"`
}

type Exchange struct {
	At             Duration            `json:"at_ms"` // since the case began, in the target's time
	Took           Duration            `json:"took_ms"`
	Method         string              `json:"method"`
	URL            string              `json:"url"`
	RequestHeader  map[string][]string `json:"request_headers,omitempty"`
	RequestBody    string              `json:"request_body,omitempty"`
	Status         int                 `json:"status"`
	ResponseHeader map[string][]string `json:"response_headers,omitempty"`
	ResponseBody   string              `json:"response_body,omitempty"`
	Error          string              `json:"error,omitempty"`
	Started        time.Time           `json:"started"`
	RequestSize    int                 `json:"request_body_size"`
	ResponseSize   int                 `json:"response_body_size"`
}

// Duration is encoded in milliseconds.
type Duration time.Duration

func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(d).Microseconds()) / 1000)
}

func (d *Duration) UnmarshalJSON(text []byte) error {
	var ms float64
	err := json.Unmarshal(text, &ms)
	*d = Duration(ms * float64(time.Millisecond))
	return err
}

func (r *Report) SetCounts() {
	r.Counts, r.NotJudged, r.PartlyJudged = map[Verdict]int{}, []string{}, []string{}
	for _, x := range r.Results {
		r.Counts[x.Verdict]++
		if x.notJudged() {
			r.NotJudged = append(r.NotJudged, x.Clause)
		} else if x.partlyJudged() {
			r.PartlyJudged = append(r.PartlyJudged, x.Clause)
		}
	}
}

func (x *Result) notJudged() bool { return x.Verdict == Skip || x.Verdict == Blocked }

// partlyJudged reports whether only some cases of the clause ran, or only parts of them.
func (x *Result) partlyJudged() bool { return !x.notJudged() && len(x.LeftOut) > 0 }

// Judged returns how many clauses were judged.
func (r *Report) Judged() (n int) {
	for _, v := range []Verdict{Pass, Fail, Warn, Observed, Known, Unexpected} {
		n += r.Counts[v]
	}
	return n
}

// Area is a subject of clauses, and the prefix of their ids.
type Area struct{ ID, Title string }

// Areas are all areas, in the order of the registry.
var Areas = []Area{
	{"JOB", "Jobs and their states"}, {"SUB", "Submission"}, {"OPS", "Operations of the job API"}, {"LIM", "Limits"}, {"RAT", "Rates"},
	{"AUT", "Authentication"}, {"ERR", "Errors"}, {"WEB", "Webhooks"}, {"T", "Templates"}, {"V", "Network volumes"}, {"R", "Registry auths"},
	{"P", "Endpoints"}, {"DAT", "Data of jobs"}, {"STO", "Stored objects"}, {"M", "Version 1 in general"}, {"VER", "Version 2 and differences between versions"}, {"BIL", "Billing"}, {"CMD", "Start commands"}, {"SEC", "Account secrets"}, {"GLO", "Global volumes"}, {"BLD", "Builds"}, {"BAT", "Batch jobs"}, {"CLI", "Clients"},
}

func areaTitle(area string) string {
	if i := slices.IndexFunc(Areas, func(a Area) bool { return a.ID == area }); i >= 0 {
		return Areas[i].Title
	}
	return area
}

func (t Target) Address() string {
	return cmp.Or(t.BaseURL, t.QueueURL, t.BaseURLV1)
}

// Sum counts the verdicts of one level.
type Sum struct {
	Level  string
	Total  int
	Counts map[Verdict]int
}

// Sums returns the sums by level, strongest first.
func (r *Report) Sums() (list []Sum) {
	for _, level := range []string{"MUST", "SHOULD", "MAY", "UNSPEC"} {
		s := Sum{Level: level, Counts: map[Verdict]int{}}
		for _, x := range r.Results {
			if x.Level == level {
				s.Total++
				s.Counts[x.Verdict]++
			}
		}
		if s.Total > 0 {
			list = append(list, s)
		}
	}
	return list
}

// Attention returns the results that need attention, worst first. It leaves out blocked clauses.
func (r *Report) Attention() (list []Result) {
	for _, x := range r.Results {
		if x.needsAttention() && x.Verdict != Blocked {
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(a, b Result) int {
		return slices.Index(Verdicts, a.Verdict) - slices.Index(Verdicts, b.Verdict)
	})
	return list
}

func (x *Result) needsAttention() bool {
	return x.Verdict != Pass && x.Verdict != Skip && x.Verdict != Observed
}

// gap is a reason why clauses were not judged, or only partly.
type gap struct {
	reason  string
	clauses []string
}

func (g gap) String() string { return g.reason + ": " + strings.Join(g.clauses, ", ") }

// gapList has the clauses that were not judged, or only partly.
type gapList struct {
	Name, Title string
	Clauses     int
	List        []gap
}

// gaps groups the clauses that were not judged, and the partly judged ones, by reason.
func (r *Report) gaps() []gapList {
	notJudged := gapList{Name: "not judged", Title: "Not judged, so not counted as kept", Clauses: len(r.NotJudged)}
	partly := gapList{Name: "partly judged", Title: "Partly judged, since not every case ran completely", Clauses: len(r.PartlyJudged)}
	for _, x := range r.Results {
		switch {
		case x.Code == SkipUntestable:
			notJudged.List = addGap(notJudged.List, "no case can judge it, see conformance explain", x.Clause)
		case x.Verdict == Blocked:
			notJudged.List = addGap(notJudged.List, "blocked by "+cmp.Or(x.BlockedBy, "another clause"), x.Clause)
		case x.notJudged():
			notJudged.List = addGap(notJudged.List, x.Reason, x.Clause)
		case x.partlyJudged():
			for _, o := range x.LeftOut {
				partly.List = addGap(partly.List, o.Reason, x.Clause)
			}
		}
	}
	return []gapList{notJudged, partly}
}

func addGap(list []gap, reason, clause string) []gap {
	reason = cmp.Or(strings.TrimSpace(Printable(reason)), "without a reason")
	i := slices.IndexFunc(list, func(g gap) bool { return g.reason == reason })
	if i < 0 {
		i = len(list)
		list = append(list, gap{reason: reason})
	}
	if !slices.Contains(list[i].clauses, clause) {
		list[i].clauses = append(list[i].clauses, clause)
	}
	return list
}

// partsLeftOut returns, in one line, the parts that were left out of a partly judged clause, or "".
func (x *Result) partsLeftOut() string {
	if !x.partlyJudged() {
		return ""
	}
	var list []gap
	for _, o := range x.LeftOut {
		list = addGap(list, o.Reason, o.Case)
	}
	var parts []string
	for _, g := range list {
		parts = append(parts, g.String())
	}
	return strings.Join(parts, "; ")
}

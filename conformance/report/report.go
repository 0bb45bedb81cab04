// Package report has the results of a run, and the forms in which they are written.
package report

import (
	"encoding/json"
	"fmt"
	"time"
)

// Schema is the version of the JSON form. It is
// increased with each change that readers of an older version would misread.
const Schema = "gpucloud-conformance/1"

// Verdict is the verdict about a clause.
type Verdict string

// Verdicts.
const (
	Pass         Verdict = "PASS"
	Fail         Verdict = "FAIL"            // of a MUST
	Warn         Verdict = "WARN"            // the same of a SHOULD or a MAY
	Observed     Verdict = "OBSERVED"        // of what the description leaves open
	Known        Verdict = "KNOWN"           // a listed deviation that is still there
	Unexpected   Verdict = "UNEXPECTED-PASS" // a listed deviation that is not there any more
	Skip         Verdict = "SKIP"            // not judged, for the reason in Code
	Blocked      Verdict = "BLOCKED"         // not judged: what it stands on failed
	Inconclusive Verdict = "INCONCLUSIVE"    // can't be told: time or network
	Error        Verdict = "ERROR"           // of the suite itself
)

// Verdicts are all verdicts, the most urgent first.
var Verdicts = []Verdict{Fail, Unexpected, Error, Inconclusive, Warn, Known, Blocked, Observed, Skip, Pass}

// Codes of a SKIP.
const (
	SkipFeature  = "feature" // the target has not what the case needs
	SkipAllow    = "safety"  // --allow does not allow it
	SkipProfile  = "profile" // it was not chosen, or is only for other targets
	SkipBudget   = "budget"  // it takes too long, or costs too much
	SkipUnserved = "unserved"
	SkipReason   = "untestable" // no case: the registry says why
	SkipDeferred = "deferred"   // goes on with resume
)

// Report is the report of a run. All texts are free of secrets.
type Report struct {
	Schema  string `json:"schema"`
	Version string `json:"version"` // of the suite
	// Implementation is what was judged; nil where the run does not name it.
	Implementation *Implementation `json:"implementation,omitempty"`
	Documents      []Document      `json:"documents,omitempty"`
	Target         Target          `json:"target"`
	Started        time.Time       `json:"started"`
	// Duration is the time on the wall, Passed that of the target.
	Duration   Duration `json:"took_ms"`
	TargetTime Duration `json:"target_time_ms"`
	Dialect    string   `json:"dialect"`
	Seed       uint64   `json:"seed"`
	Requests   int64    `json:"requests"`
	Jobs       int64    `json:"jobs"`
	// Reruns is the usage of reruns of failed cases, which Duration, TargetTime,
	// Requests and Jobs exclude; nil without any.
	Reruns *Reruns         `json:"reruns,omitempty"`
	Counts map[Verdict]int `json:"counts"`
	Exit   int             `json:"exit"`
	// NotJudged are the clauses that were not judged and do not count as passed; the
	// result of each has the reason.
	NotJudged []string `json:"not_judged"`
	// PartlyJudged are the clauses of which some cases, or parts of a case, did not run;
	// LeftOut of each result says which and why.
	PartlyJudged []string `json:"partly_judged"`
	// Preflight is the line that says why nothing was judged, "" where it was.
	Preflight string   `json:"preflight,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	// Failed are failures that belong to no clause, such as a client that fails in the
	// scenario without faults.
	Failed []string `json:"failed,omitempty"`
	// Leaked are objects that the suite created and could not delete.
	Leaked  []string `json:"leaked,omitempty"`
	Stale   []string `json:"stale,omitempty"` // what is wrong with the list of known failures
	Results []Result `json:"results"`
}

// Reruns is the usage of reruns of failed cases.
type Reruns struct {
	Cases      int      `json:"cases"` // one that is run again twice is two
	Duration   Duration `json:"took_ms"`
	TargetTime Duration `json:"target_time_ms"`
	Requests   int64    `json:"requests"`
	Jobs       int64    `json:"jobs"`
}

// Add adds the reruns of another run; nil stands for none.
func (r *Reruns) Add(more *Reruns) *Reruns {
	switch {
	case more == nil:
		return r
	case r == nil:
		r = new(Reruns)
	}
	return &Reruns{
		Cases: r.Cases + more.Cases, Duration: r.Duration + more.Duration, TargetTime: r.TargetTime + more.TargetTime, Requests: r.Requests + more.Requests, Jobs: r.Jobs + more.Jobs,
	}
}

// String says it in words.
func (r *Reruns) String() string {
	cases := "1 case"
	if r.Cases != 1 {
		cases = fmt.Sprintf("%d cases", r.Cases)
	}
	return fmt.Sprintf("%s in %s, %d requests, %d jobs", cases, time.Duration(r.Duration).Round(time.Millisecond), r.Requests, r.Jobs)
}

// Target is what was judged.
type Target struct {
	BaseURL   string `json:"base_url,omitempty"`
	BaseURLV1 string `json:"base_url_v1,omitempty"`
	QueueURL  string `json:"queue_url,omitempty"`
	Endpoint  string `json:"endpoint,omitempty"`
	Local     bool   `json:"local"`
}

// Result is the result of one clause.
type Result struct {
	Clause    string  `json:"clause"`
	Area      string  `json:"area"`
	Level     string  `json:"level"`
	Source    string  `json:"source"`
	Statement string  `json:"statement"`
	Link      string  `json:"link,omitempty"` // opens the clause, with its source
	Case      string  `json:"case,omitempty"`
	Verdict   Verdict `json:"verdict"`
	Code      string  `json:"code,omitempty"`   // of a SKIP
	By        string  `json:"by,omitempty"`     // of a BLOCKED: the clause that failed
	Reason    string  `json:"reason,omitempty"` // in words, of all but PASS
	Observed  string  `json:"observed,omitempty"`
	// LeftOut is what was not judged although the clause was.
	LeftOut []Omission `json:"left_out,omitempty"`
	Failure *Failure   `json:"failure,omitempty"`
	// Repeats is how many reruns failed again, "3/3"; "" without reruns.
	Repeats  string   `json:"repeats,omitempty"`
	Duration Duration `json:"took_ms"`
	// Requests are those of the case, without its fixtures.
	Requests int        `json:"requests,omitempty"`
	Trace    []Exchange `json:"trace,omitempty"` // of all but PASS and SKIP
}

// Omission is a case, or a part of one, that did not run.
type Omission struct {
	Case   string `json:"case"`
	Code   string `json:"code"` // as of a SKIP
	Reason string `json:"reason"`
}

// Failure describes how a clause was violated.
type Failure struct {
	Steps     string   `json:"did"`
	Statement string   `json:"says"` // the contract, and where
	Accepted  []string `json:"accepted"`
	Actual    string   `json:"came"`
	Curl      string   `json:"curl,omitempty"`
}

// Exchange is a request and its answer.
type Exchange struct {
	At       Duration            `json:"at_ms"` // since the case began, of the target's time
	Took     Duration            `json:"took_ms"`
	Method   string              `json:"method"`
	URL      string              `json:"url"`
	Sent     map[string][]string `json:"request_headers,omitempty"`
	Body     string              `json:"request_body,omitempty"`
	Status   int                 `json:"status"`
	Header   map[string][]string `json:"response_headers,omitempty"`
	Answer   string              `json:"response_body,omitempty"`
	Failed   string              `json:"error,omitempty"`
	Started  time.Time           `json:"started"`
	BodySize int                 `json:"request_body_size"`
	Size     int                 `json:"response_body_size"`
}

// Duration is written in milliseconds.
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(d).Microseconds()) / 1000)
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var ms float64
	err := json.Unmarshal(text, &ms)
	*d = Duration(ms * float64(time.Millisecond))
	return err
}

// Count recounts the verdicts.
func (r *Report) Count() {
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

// notJudged tells whether the clause was not judged.
func (x *Result) notJudged() bool { return x.Verdict == Skip || x.Verdict == Blocked }

// partlyJudged tells whether the clause was judged by a part of its cases only.
func (x *Result) partlyJudged() bool { return !x.notJudged() && len(x.LeftOut) > 0 }

// Judged returns how many clauses were judged.
func (r *Report) Judged() (n int) {
	for _, v := range []Verdict{Pass, Fail, Warn, Observed, Known, Unexpected} {
		n += r.Counts[v]
	}
	return n
}

package selftest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Every failure has a script that repeats it, and a link to the clause.
func TestEveryFailureCanBeRepeated(t *testing.T) {
	acctest.LeaveToCI(t, "TestFailureScriptReproduces runs such a script")
	target := startDeployment(t, func(h http.Handler) http.Handler {
		var calls atomic.Int64
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch n := calls.Add(1); {
			case strings.HasSuffix(r.URL.Path, "/stream/x") || r.URL.Path == "/clock": // thousands of requests, and the clock
				h.ServeHTTP(w, r)
			case n%7 == 0 && n > 10:
				stubHandlers["200 {}"](w, r)
			case n%5 == 0 && n > 10:
				stubHandlers["404"](w, r)
			default:
				h.ServeHTTP(w, r)
			}
		})
	})
	r := judge(t, conformance.Options{Target: target, Select: []string{"!LIM-0*", "!RAT"}, Seed: 1})
	failures := 0
	for _, x := range r.Results {
		if x.Failure == nil {
			continue
		}
		failures++
		n := strings.Count(x.Failure.Curl, "curl -sS")
		must.Hold(t, n > 0 && (x.Verdict != report.Fail || x.Requests <= 40 || n >= 3), "the script of", x.Clause, "has", n, "requests of", x.Requests, x.Failure.Curl)
		must.Hold(t, strings.HasSuffix(x.Link, "/docs/reference/clauses.md#"+strings.ToLower(x.Clause)), "the link of", x.Clause, x.Link)
		must.Hold(t, hasNoun(x.Failure.Actual) || answerPattern.MatchString(x.Failure.Actual),
			"invalid actual value of", x.Clause, "expected a noun or an answer, got", x.Failure.Actual)
		for _, secret := range []string{target.Key, target.UserKey, target.OtherKey} {
			must.Hold(t, !strings.Contains(x.Failure.Curl, secret), x.Clause, "shows a key:", x.Failure.Curl)
		}
	}
	must.Hold(t, failures >= 50, "only", failures, "clauses fail, too few for this test", r.Counts)
}

// Without the suite, the script of a failure creates the objects of the case and gets the same answer.
func TestFailureScriptReproduces(t *testing.T) {
	for _, program := range []string{"curl", "grep"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed")
		}
	}
	var cancels atomic.Int64
	target := startDeployment(t, intercept(pathHas("/cancel/"), func(w http.ResponseWriter, r *http.Request) {
		cancels.Add(1)
		stubHandlers["429"](w, r)
	}))
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB-21", "V-11"}})
	x := r.Results[0]
	must.Require(t, x.Verdict == report.Fail && cancels.Load() != 0, report.Text(x))
	earlierCancels := cancels.Load()
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", x.Failure.Curl)
	cmd.Env = append(os.Environ(), "GPUCLOUD_API_KEY="+target.Key)
	out, err := cmd.CombinedOutput()
	must.Succeed(t, err, string(out), x.Failure.Curl)
	output := string(out)
	must.Hold(t, cancels.Load() == earlierCancels+1 && strings.Contains(output, "HTTP/1.1 429") && !strings.Contains(output, "HTTP/1.1 404") &&
		strings.Count(output, "HTTP/1.1 2") >= 3, "the script", x.Failure.Curl, "gets", output)
	n := strings.Count(x.Failure.Curl, "/run")
	must.Hold(t, n == 2 && strings.Contains(x.Failure.Curl, "-X DELETE"), "the script submits", n, "jobs, or does not delete its endpoint", x.Failure.Curl)
}

// A failure of a case with Watch has a script with the requests that led to it.
func TestFailureScriptOfWatchedExchange(t *testing.T) {
	target := startDeployment(t, intercept(pathHas("/purge-queue"), stubHandlers["200 HTML"]))
	r := judge(t, conformance.Options{Target: target, Select: []string{"ERR-11", "RAT-10"}})
	for _, x := range r.Results {
		must.Hold(t, x.Clause != "ERR-11" || x.Verdict == report.Fail && strings.Count(x.Failure.Curl, "curl -sS") >= 3 && strings.Contains(x.Failure.Curl, "$ID_SERVERLESS/purge-queue"), report.Text(x))
	}
}

func TestRerunsAreCountedSeparately(t *testing.T) {
	var arrived atomic.Int64
	target := startDeployment(t, func(h http.Handler) http.Handler {
		return countRequests(&arrived)(intercept(pathHas("/cancel/"), teapot)(h))
	})
	o := conformance.Options{Target: target, Select: []string{"JOB-17", "OPS-23"}}
	withoutReruns := judge(t, o)
	arrivedWithout := arrived.Swap(0)
	o.Reruns = 2
	withReruns := judge(t, o)
	arrivedWith := arrived.Load()
	must.Require(t, withoutReruns.Reruns == nil && withReruns.Reruns != nil, "reruns", withoutReruns.Reruns, withReruns.Reruns)
	const maxPollDifference = 20 // a busy machine polls jobs more or less often
	if difference := withReruns.Requests - withoutReruns.Requests; difference > maxPollDifference || difference < -maxPollDifference || withReruns.Jobs != withoutReruns.Jobs || withReruns.Reruns.Cases < 2 || withReruns.Reruns.Jobs != 2*withoutReruns.Jobs ||
		withReruns.Requests+withReruns.Reruns.Requests != arrivedWith-(arrivedWithout-withoutReruns.Requests) || withReruns.Reruns.Duration <= 0 {
		t.Errorf("%d requests and %d jobs without reruns; %d and %d with these: %s; %d arrived", withoutReruns.Requests, withoutReruns.Jobs, withReruns.Requests, withReruns.Jobs, withReruns.Reruns, arrivedWith)
	}
}

// stopWords are words that don't name what a value counts.
var stopWords = []string{"none", "one", "an", "a", "it", "is", "the", "there", "empty", "twice", "and", "of", "no", "not", "that", "more", "than"}

var (
	formatVerb = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)
	// answerPattern matches a status code with a body.
	answerPattern = regexp.MustCompile(`^\d{3} .`)
	wordPattern   = regexp.MustCompile(`[A-Za-z][A-Za-z-]+`)
)

// hasNoun reports whether a text has a word besides verbs and stop words: "4 calls", but not "4".
func hasNoun(text string) bool {
	return slices.ContainsFunc(wordPattern.FindAllString(formatVerb.ReplaceAllString(text, ""), -1), func(w string) bool {
		return !slices.Contains(stopWords, strings.ToLower(w))
	})
}

// Every actual value that a case reports has a noun: "4 calls" instead of "4".
func TestActualValuesHaveNouns(t *testing.T) {
	files := must.Do(filepath.Glob("../cases/*.go"))(t)
	suiteFiles := must.Do(filepath.Glob("../suite/*.go"))(t)
	checked := 0
	for _, path := range append(files, suiteFiles...) {
		set := token.NewFileSet()
		file := must.Do(parser.ParseFile(set, path, nil, 0))(t)
		for n := range ast.Preorder(file) {
			call, _ := n.(*ast.CallExpr)
			if call == nil {
				continue
			}
			method, _ := call.Fun.(*ast.SelectorExpr)
			if method == nil {
				continue
			}
			receiver, _ := method.X.(*ast.Ident)
			i, ok := map[string]int{"Expect": 2, "Fail": 0}[method.Sel.Name]
			if !ok || len(call.Args) <= i || receiver != nil && receiver.Name == "suite" { // suite.Fail is an input for our handler
				continue
			}
			checked++
			if _, computed := call.Args[i].(*ast.SelectorExpr); computed {
				continue
			}
			text := ""
			for n := range ast.Preorder(call.Args[i]) {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text += must.Do(strconv.Unquote(literal.Value))(t)
				}
			}
			if !hasNoun(text) {
				t.Errorf("%s: invalid actual value: expected a noun, as in \"%%d calls\", got %q", set.Position(call.Pos()), text)
			}
		}
	}
	must.Hold(t, checked >= 50, "only", checked, "calls were checked")
}

// ERR-09 judges the errors that other cases get, too.
func TestMediaTypeOfOtherErrors(t *testing.T) {
	absent := intercept(func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/v2/")
	},
		fixedAnswer(404, "application/json", `{"title":"Not Found","detail":"it is absent","status":404}`))
	r := judgeRemoteInBubble(t, absent, func(o *conformance.Options) { o.Select = []string{"ERR-09", "ERR-15"} })
	must.Equal(t, r.Results[0].Verdict, report.Warn, report.Text(r.Results[0]))
}

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
)

// Whatever fails, there is a script that does it again, and a link to the clause.
func TestEveryFailureCanBeRepeated(t *testing.T) {
	target := deployed(t, func(h http.Handler) http.Handler {
		var calls atomic.Int64
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch n := calls.Add(1); {
			case strings.HasSuffix(r.URL.Path, "/stream/x") || r.URL.Path == "/clock": // a load, and time
				h.ServeHTTP(w, r)
			case n%7 == 0 && n > 10:
				dull["200 {}"](w, r)
			case n%5 == 0 && n > 10:
				dull["404"](w, r)
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
		if n := strings.Count(x.Failure.Curl, "curl -sS"); n == 0 || x.Verdict == report.Fail && x.Requests > 40 && n < 3 {
			t.Errorf("%s has %d requests to repeat of %d:\n%s", x.Clause, n, x.Requests, x.Failure.Curl)
		}
		if !strings.HasSuffix(x.Link, "/docs/clauses.md#"+strings.ToLower(x.Clause)) {
			t.Errorf("the link of %s is %q", x.Clause, x.Link)
		}
		if !hasNoun(x.Failure.Actual) && !answer.MatchString(x.Failure.Actual) {
			t.Errorf("%s came %q: of what?", x.Clause, x.Failure.Actual)
		}
		for _, secret := range []string{target.Key, target.UserKey, target.OtherKey} {
			if strings.Contains(x.Failure.Curl, secret) {
				t.Errorf("%s shows a key:\n%s", x.Clause, x.Failure.Curl)
			}
		}
	}
	if failures < 50 {
		t.Errorf("%d failures are not enough to tell: %v", failures, r.Counts)
	}
}

// The script of a failure makes what the case made and gets the answer that the
// case got, by itself.
func TestScriptOfAFailureFailsAgain(t *testing.T) {
	for _, program := range []string{"curl", "grep"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("there is no " + program)
		}
	}
	var retries atomic.Int64
	target := deployed(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/cancel/") {
				retries.Add(1)
				dull["429"](w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	r := judge(t, conformance.Options{Target: target, Select: []string{"JOB-17", "V-11"}})
	x := r.Results[0]
	if x.Verdict != report.Fail || retries.Load() == 0 {
		t.Fatal(report.Text(x))
	}
	before := retries.Load()
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", x.Failure.Curl)
	cmd.Env = append(os.Environ(), "GPUCLOUD_API_KEY="+target.Key)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, x.Failure.Curl)
	}
	got := string(out)
	if retries.Load() != before+1 || !strings.Contains(got, "HTTP/1.1 429") || strings.Contains(got, "HTTP/1.1 404") || strings.Count(got, "HTTP/1.1 2") < 3 {
		t.Errorf("the script\n%s\ngets\n%s", x.Failure.Curl, got)
	}
	if n := strings.Count(x.Failure.Curl, "/run"); n != 2 || !strings.Contains(x.Failure.Curl, "-X DELETE") {
		t.Errorf("the script submits %d jobs, or leaves its endpoint:\n%s", n, x.Failure.Curl)
	}
}

// A clause that watches all exchanges shows what led to the one that it found.
func TestScriptOfWatchedFailure(t *testing.T) {
	target := deployed(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/purge-queue") {
				dull["200 HTML"](w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	r := judge(t, conformance.Options{Target: target, Select: []string{"ERR-11", "RAT-10"}})
	for _, x := range r.Results {
		if x.Clause == "ERR-11" && (x.Verdict != report.Fail || strings.Count(x.Failure.Curl, "curl -sS") < 3 || !strings.Contains(x.Failure.Curl, "$ID_SERVERLESS/purge-queue")) {
			t.Error(report.Text(x))
		}
	}
}

// What reruns took is in no figure of the run, and told apart.
func TestRerunsAreCountedApart(t *testing.T) {
	var arrived atomic.Int64
	target := deployed(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived.Add(1)
			if strings.Contains(r.URL.Path, "/cancel/") {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	o := conformance.Options{Target: target, Select: []string{"JOB-17", "JOB-03"}}
	once := judge(t, o)
	first := arrived.Swap(0)
	o.Reruns = 2
	again := judge(t, o)
	all := arrived.Load()
	if once.Reruns != nil || again.Reruns == nil {
		t.Fatalf("reruns %v and %v", once.Reruns, again.Reruns)
	}
	const looks = 20 // polls of jobs, more or less on a busy machine
	if d := again.Requests - once.Requests; d > looks || d < -looks || again.Jobs != once.Jobs || again.Reruns.Cases < 2 || again.Reruns.Jobs != 2*once.Jobs ||
		again.Requests+again.Reruns.Requests != all-(first-once.Requests) || again.Reruns.Duration <= 0 {
		t.Errorf("%d requests and %d jobs without reruns; %d and %d with these: %s; %d arrived", once.Requests, once.Jobs, again.Requests, again.Jobs, again.Reruns, all)
	}
}

// stopWords say nothing of what came.
var stopWords = []string{"none", "one", "an", "a", "it", "is", "the", "there", "empty", "twice", "and", "of", "no", "not", "that", "more", "than"}

var (
	verbs = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)
	// answer is a status code and a body.
	answer = regexp.MustCompile(`^\d{3} .`)
	word   = regexp.MustCompile(`[A-Za-z][A-Za-z-]+`)
)

// hasNoun tells whether a text says what its numbers count, or what there is.
func hasNoun(text string) bool {
	return slices.ContainsFunc(word.FindAllString(verbs.ReplaceAllString(text, ""), -1), func(w string) bool {
		return !slices.Contains(stopWords, strings.ToLower(w))
	})
}

// What a case says that came has its noun: 'came 4' leaves open, four of what.
func TestWhatCameHasANoun(t *testing.T) {
	files, err := filepath.Glob("../cases/*.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../suite/*.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, path := range append(files, more...) {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := method.X.(*ast.Ident); ok && x.Name == "suite" { // suite.Fail is an order of our handler
				return true
			}
			place := map[string]int{"Expect": 2, "Fail": 0}
			i, ok := place[method.Sel.Name]
			if !ok || len(call.Args) <= i {
				return true
			}
			checked++
			text := ""
			if _, computed := call.Args[i].(*ast.SelectorExpr); computed {
				return true
			}
			ast.Inspect(call.Args[i], func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if part, err := strconv.Unquote(literal.Value); err == nil {
						text += part
					}
				}
				return true
			})
			if !hasNoun(text) {
				t.Errorf("%s: what came is told as %q: of what?", set.Position(call.Pos()), text)
			}
			return true
		})
	}
	if checked < 50 {
		t.Errorf("%d calls were found", checked)
	}
}

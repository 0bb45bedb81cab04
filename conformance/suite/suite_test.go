package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"1", "1.0", true}, {"100", "1e2", true}, {"0.00015", "1.5E-4", true}, {"-0", "0", true}, {"-0.0", "0", true}, {"1", "-1", false},
		{"9007199254740992", "9007199254740993", false}, {"9007199254740993", "9.007199254740992e15", false},
		{"1000000000000000000001", "1e21", false}, {"10000000000000000", "1e16", true},
		{"0.1", "0.10000000000000001", true}, {"0.1", "0.1000000000000000055511151231257827021181583404541015625", true},
		{"0.1", "0.1000000000000000055", false}, {"0.30000000000000004", "0.3", false}, {"1e23", "99999999999999991611392", true},
		{"5e-324", "0", false}, {"1e400", "1e401", false}, {"1e400", "10e399", true},
		{"1e99999999999999999999", "1", false}, {"-1e-99999999999999999999", "0", false},
		{`"é"`, `"e\u0301"`, false}, {`"é"`, `"\u00e9"`, true}, {`"1"`, "1", false}, {"null", "false", false}, {`""`, "null", false},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true}, {`{"a":null}`, `{}`, false}, {`{}`, `{"a":null}`, false}, {"{}", "[]", false},
		{`[1,2]`, `[2,1]`, false}, {`[1]`, `[1,1]`, false}, {`{"a.b":1}`, `{"a":{"b":1}}`, false}, {`{"A":1}`, `{"a":1}`, false},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			got := Same(json.RawMessage(pair[0]), json.RawMessage(pair[1]))
			must.Hold(t, got == c.same, pair[0], "and", pair[1], "are the same:", got, "not", c.same)
		}
	}
}

func TestDifference(t *testing.T) {
	long := strings.Repeat("é", 50_000)
	for want, c := range map[string][2]any{
		`["a"][1] = 3, not 2`:                          {M{"a": []any{1, 2}}, M{"a": []any{1, 3}}},
		`["a.b"]: the member "" is missing`:            {M{"a.b": M{"": 1}}, M{"a.b": M{}}},
		`["a"]: a further member "y"`:                  {M{"a": M{"x": 1}}, M{"a": M{"x": 1, "y": 2}}},
		"the value = \"e\\u0301\", not \"\\u00e9\"":    {"é", "e\u0301"},
		"(from byte 65536 on; 65536 bytes, not 100000": {long, long[:65536]},
	} {
		got := Difference(c[0], c[1])
		must.Hold(t, strings.Contains(got, want) && len(got) <= 500, got, "is too long, or lacks", want)
	}
}

// Every JSON value equals itself, comparisons are symmetric, and differences are described.
func FuzzSame(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, first, second []byte) {
		a, err := wire.Decode(first)
		if err != nil {
			return
		}
		must.Equal(t, Difference(a, a), "", first, "differs from itself")
		b, err := wire.Decode(second)
		if err != nil {
			return
		}
		must.Equal(t, Same(a, b), Same(b, a), first, second, "are the same in one order only")
		d := Difference(a, b)
		must.Hold(t, utf8.ValidString(d) && len(d) <= 2000+4*(len(first)+len(second)), string(first), string(second), "differ by", d)
	},
		fuzz.Seed{[]byte(`{"a":[1,2.50,{"b":"ü"}]}`), []byte(`{"a":[1.0,2.5,{"b":"ü"}]}`)}, fuzz.Seed{[]byte(`1e400`), []byte(`10e399`)}, fuzz.Seed{[]byte(`9007199254740993`), []byte(`9007199254740992`)},
		fuzz.Seed{[]byte(`"\ud800` + `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"`), []byte(`null`)}, fuzz.Seed{[]byte(`-0`), []byte(`0.0e999999999999999999999`)},
	)
}

func TestContains(t *testing.T) {
	body := `{"a":"\u0073ecret","list":[{"id":"112","at":"2026-11-29T07:37:17.113Z"}]}`
	value := must.Do(wire.Decode([]byte(body)))(t)
	a := Answer{Body: []byte(body), json: value}
	must.Hold(t, a.Contains("secret") && a.Contains("u0073ecret") && !a.Contains("others"), "the decoded or the raw body isn't searched")
	must.Equal(t, SimilarID("112"), "445999999", "an id that no other object has")
	must.Hold(t, a.Contains("112") && !a.Contains("113"), "a short id isn't a whole string")
}

// What requests in flight at an interrupt create is deleted, and also many objects by a slow target.
func TestSlowCreationsAreDeleted(t *testing.T) {
	for want, create := range map[string]func(*C){
		"/v2/e/cancel/run": func(c *C) { c.Run(Echo()) }, "/v2/e/cancel/runsync": func(c *C) { c.Start("POST", "/runsync", Echo()).Sleep(time.Hour) },
		"/v2/clusters/clusters": func(c *C) { c.Create("v2", "/clusters", M{}) },
		"/v2/pods/0": func(c *C) {
			for n := range 12 {
				c.recordObject("pod", "v2", "/pods", fmt.Sprint(n))
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			var last atomic.Value
			e := env.New(&env.Target{BaseURL: "http://h", QueueURL: "http://h", Endpoint: "e", Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				last.Store(r.URL.Path)
				interrupt()
				time.Sleep(6 * time.Second)
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(fmt.Sprintf(`{"id":%q}`, path.Base(r.URL.Path))))}, r.Context().Err()
			})}}, env.NewClock(1))
			a := Try(ctx, e, &Case{ID: "X-01", Needs: AnyEndpoint, Run: create}, false, nil)
			must.Equal(t, e.Ledger.Remaining(""), nil, "objects remain")
			must.Hold(t, last.Load() == any(want) && (a.Reason == "interrupted") == strings.HasSuffix(want, "sync"), "the last request is", last.Load(), "not", want, a.Reason)
		})
	}
}

// If a case fails because something didn't happen, and the target no longer answers, the case is inconclusive.
func TestFailureWithoutATarget(t *testing.T) {
	answers := true
	e := env.New(&env.Target{QueueURL: "http://h", Endpoint: "e", Client: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		if !answers {
			return nil, io.EOF
		}
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})}}, env.NewClock(1))
	for _, want := range []report.Verdict{report.Fail, report.Inconclusive} {
		a := Try(t.Context(), e, &Case{ID: "X-01", Needs: AnyEndpoint, Run: func(c *C) {
			c.Get("/health")
			answers = want == report.Fail
			c.Fail("no call", "a call of the webhook")
		}}, false, nil)
		must.Equal(t, a.Verdict, want, a.Reason)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

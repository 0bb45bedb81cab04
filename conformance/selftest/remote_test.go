package selftest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pipenet"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// remoteInBubble judges a jobrunner as any remote deployment is judged, with all
// allowed and an ordinary clock, behind whatever wrap makes of it. All of it is
// in a bubble, so that no wait takes long.
func remoteInBubble(t *testing.T, wrap func(http.Handler) http.Handler, change func(*conformance.Options)) (r *report.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		target := conformance.Target{BaseURL: "http://jobrunner", Key: "the-key-of-the-suite", Unserved: conformance.Unserved()}
		for name, key := range map[string]*string{"user": &target.UserKey, "other": &target.OtherKey} {
			var endpoints []string
			if name == "other" {
				endpoints = []string{"nothing-of-ours"}
			}
			var err error
			if *key, err = apikey.At(dir).Add(name, endpoints); err != nil {
				t.Fatal(err)
			}
		}
		j, err := jobrunner.New(t.Context(), jobrunner.Config{APIKey: target.Key, KeyDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		network := pipenet.Listen()
		server := &http.Server{Handler: wrap(j.Handler())}
		go server.Serve(network)
		transport := network.Transport()
		transport.MaxIdleConnsPerHost = 64
		target.Client = &http.Client{Transport: transport}
		o := conformance.Options{Target: target, Allow: ^conformance.Allow(0), MaxWait: 30 * 24 * time.Hour, Reruns: 2}
		if change != nil {
			change(&o)
		}
		r = judge(t, o)
		transport.CloseIdleConnections()
		server.Close()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // what a refused body leaves asleep
	})
	return r
}

// direct changes nothing.
func direct(h http.Handler) http.Handler { return h }

// delayed is a proxy at the other end of a long line: half of the latency passes
// before a request arrives, and half after its answer is made.
func delayed(latency time.Duration) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client is gone
			}
			time.Sleep(latency / 2)
			r.Body = io.NopCloser(bytes.NewReader(body))
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			time.Sleep(latency / 2)
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		})
	}
}

// laggard is a deployment that does what time does to jobs so much later, as one
// whose sweeper runs now and then: it takes longer times than those that are
// submitted.
func laggard(lag time.Duration) func(http.Handler) http.Handler {
	later := func(value any, least, most int64) any {
		number, ok := value.(json.Number)
		ms, err := number.Int64()
		if !ok || err != nil || ms < least || ms > most-lag.Milliseconds() {
			return value
		}
		return ms + lag.Milliseconds()
	}
	const week = 7 * 24 * time.Hour
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client is gone
			}
			if len(text) > 1<<16 { // about sizes, and not about time
				r.Body = io.NopCloser(bytes.NewReader(text))
				h.ServeHTTP(w, r)
				return
			}
			var body map[string]any
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			if json.Valid(text) && utf8.Valid(text) && d.Decode(&body) == nil && (strings.HasSuffix(r.URL.Path, "/run") || strings.HasSuffix(r.URL.Path, "/runsync")) {
				policy, ok := body["policy"].(map[string]any)
				if body["policy"] == nil {
					policy, ok = map[string]any{"executionTimeout": json.Number("600000"), "ttl": json.Number("86400000")}, true
				}
				if _, input := body["input"]; ok && input {
					policy["executionTimeout"] = later(policy["executionTimeout"], 5000, week.Milliseconds())
					policy["ttl"] = later(policy["ttl"], 10_000, week.Milliseconds())
					for name, value := range policy {
						if value == nil {
							delete(policy, name)
						}
					}
					body["policy"] = policy
					if longer, err := json.Marshal(body); err == nil {
						text = longer
					}
				}
			}
			if ttl := r.URL.Query().Get("ttl"); ttl != "" {
				r.URL.RawQuery = fmt.Sprint("ttl=", later(json.Number(ttl), 10_000, week.Milliseconds()))
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			r.Header.Set("Content-Length", fmt.Sprint(len(text)))
			h.ServeHTTP(w, r)
		})
	}
}

// Neither a long line nor a deployment that is late with what time does makes a
// remote run fail, or need a rerun.
func TestRemoteRunToleratesDelays(t *testing.T) {
	late := laggard(4 * time.Second)
	for name, c := range map[string]struct {
		wrap   func(http.Handler) http.Handler
		change func(*conformance.Options)
		unsure int  // clauses that may be inconclusive
		sample bool // also runs with -short: every kind of delay is in it
	}{
		"near":            {wrap: direct},
		"700 ms away":     {wrap: delayed(700 * time.Millisecond), unsure: 4},
		"1.5 s away":      {wrap: delayed(1500 * time.Millisecond), unsure: 10},
		"3 s away":        {wrap: delayed(3 * time.Second), unsure: 30},
		"sweeps 4 s late": {wrap: late},
		"700 ms away, sweeps 4 s late": {
			wrap: func(h http.Handler) http.Handler { return delayed(700 * time.Millisecond)(late(h)) }, unsure: 4, sample: true,
		},
		"slowly, as others use it": {
			wrap: delayed(100 * time.Millisecond), change: func(o *conformance.Options) { o.Pace = env.NewPace(45, 10) }, unsure: 30,
		},
		"one after the other": {
			wrap: direct, change: func(o *conformance.Options) { o.Parallel = 1 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !c.sample {
				t.Skip("a sample is enough")
			}
			t.Parallel()
			r := remoteInBubble(t, c.wrap, c.change)
			unsure := 0
			for _, x := range r.Results {
				switch x.Verdict {
				case report.Pass, report.Observed, report.Skip:
				case report.Inconclusive:
					if unsure++; x.Repeats != "" || unsure > c.unsure {
						t.Error(report.Text(x))
					}
				case report.Blocked, report.Warn:
					if c.unsure <= 4 {
						t.Error(report.Text(x))
					}
				default:
					t.Error(report.Text(x))
				}
			}
			if r.Judged() < 195 || len(r.Leaked) > 0 {
				t.Errorf("%v, left %v", r.Counts, r.Leaked)
			}
		})
	}
}

// Every answer that is judged was asked for: what a run counts is what arrives.
func TestRemoteRunRemembersNoAnswer(t *testing.T) {
	var arrived atomic.Int64
	r := remoteInBubble(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived.Add(1)
			h.ServeHTTP(w, r)
		})
	}, func(o *conformance.Options) { o.Select = []string{"VER-3*", "VER-06", "AUT-02", "RAT-08", "VER-19"} })
	sent := 0
	seen := map[string]bool{}
	for _, x := range r.Results {
		if x.Verdict != report.Pass && x.Verdict != report.Skip {
			t.Error(report.Text(x))
		}
		if !seen[x.Case] {
			sent += x.Requests
		}
		seen[x.Case] = true
	}
	// The rest looks at the target first, makes endpoints and takes them down.
	if n := int(arrived.Load()); n != int(r.Requests)+2 || sent > n || sent < 30 {
		t.Errorf("%d requests arrived, the report says %d, and its clauses %d", n, r.Requests, sent)
	}
}

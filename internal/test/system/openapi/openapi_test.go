package openapi

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// findings collects differences, each with an example.
type findings struct {
	mu   sync.Mutex
	seen map[finding]string
}

// finding is a difference of one operation.
type finding struct{ operation, what string }

func (f *findings) add(o operation, what string, r request, a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = map[finding]string{}
	}
	if key := (finding{o.String(), what}); f.seen[key] == "" {
		f.seen[key] = fmt.Sprintf("%v\nreturns %d %.2000s", r, a.status, a.body)
	}
}

// Every operation responds as its document says, except for the differences in testdata/accepted.tsv.
func TestAnswersFollowDocuments(t *testing.T) {
	s := newScene(t, nil)
	s.furnish(t)
	walkAll(t, s, operations(t), "accepted.tsv", acceptedTable, false)
}

// walkAll sends all requests to all operations, and compares the differences with a table.
func walkAll(t *testing.T, s *scene, all []operation, file, table string, bothWays bool) {
	t.Helper()
	for _, o := range all { // an object of each kind, for the lists
		if _, ok := bases[o.path]; ok && o.method == "POST" {
			for _, body := range validBodies(o) {
				s.create(t, o.path, jsonText(body))
			}
		}
	}
	s.create(t, "/v1/endpoints", `{"templateId":"%template%","gpuTypeIds":["of another catalog"],"dataCenterIds":["elsewhere"]}`)
	var found findings
	cached := new(judge)
	walk := func(t *testing.T, o operation) {
		w := &walker{T: t, scene: s, judge: cached, operation: o, all: all, report: found.add, bothWays: bothWays}
		w.create = w.collectionOperation("POST")
		w.walk()
	}
	step := 1
	if testing.Short() && os.Getenv("CI") == "" {
		step = 4 // make test
	}
	isList := func(o operation) bool { return o.method == "GET" && !strings.Contains(o.path, "{") }
	for i, o := range all {
		if isList(o) && i%step == 0 { // before others create and delete objects
			walk(t, o)
		}
	}
	t.Run("operations", func(t *testing.T) {
		for i, o := range all {
			if !isList(o) && i%step == 0 {
				t.Run(strings.ReplaceAll(o.String(), "/", "."), func(t *testing.T) {
					t.Parallel()
					walk(t, o)
				})
			}
		}
	})
	found.compare(t, all, file, table)
}

// A method that a path lacks gets 405 with the version's error body and the path's methods in Allow.
func TestRefusedMethods(t *testing.T) {
	s := newScene(t, nil)
	seen := map[string]bool{}
	for _, o := range operations(t) {
		if seen[o.path] {
			continue
		}
		seen[o.path] = true
		w := &walker{T: t, scene: s, judge: new(judge), operation: o}
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
			known := o.item.GetOperation(method)
			if known != nil || method == "HEAD" && o.item.Get != nil {
				continue
			}
			for key, status := range map[string]int{ownKey: 405, scopedKey: 403, "none": 401} {
				r := request{method: method, path: w.pathOf("x"), key: key, body: "{}"}
				a := s.send(t, r)
				must.Equal(t, a.status, status, "status of the answer to", r)
				for other := range o.item.Operations() {
					allowed := strings.Split(a.header.Get("Allow"), ", ")
					must.Hold(t, a.status != 405 || slices.Contains(allowed, other), "the answer to", r, "allows", allowed, "without", other)
				}
				if method == "HEAD" {
					continue // no body
				}
				if o.version == "v1" {
					var body struct{ Message string }
					err := json.Unmarshal(a.body, &body)
					must.Hold(t, err == nil && body.Message != "", "the answer to", r, "has no message:", string(a.body))
					continue
				}
				response := map[int]string{405: "MethodNotAllowedError", 403: "ForbiddenError", 401: "UnauthorizedError"}[a.status]
				for _, what := range w.compareWith(t.Context(), o, o.spec.Components.Responses[response].Value, a) {
					t.Errorf("%v: %s: %s", r, what, a.body)
				}
			}
		}
	}
}

// HEAD returns the status and the Content-Type of GET without the body.
func TestHeadMatchesGet(t *testing.T) {
	s := newScene(t, nil)
	s.furnish(t)
	for _, o := range operations(t) {
		if o.method != "GET" {
			continue
		}
		w := &walker{T: t, scene: s, judge: new(judge), operation: o}
		r := request{method: "GET", path: w.pathOf("x")}
		get := s.send(t, r)
		r.method = "HEAD"
		head := s.send(t, r)
		must.Hold(t, head.status == get.status && head.header.Get("Content-Type") == get.header.Get("Content-Type") && len(head.body) == 0,
			r, "returns", head.status, head.header, string(head.body), "but GET returns", get.status, get.header)
	}
}

// With an exhausted quota, version 2's operations return the documented 429. Version 1 has no quotas.
func TestExhaustedQuotas(t *testing.T) {
	s := newScene(t, func(c *jobrunner.Config) { c.ManagementLimits = true })
	for _, key := range []string{ownKey, userKey, scopedKey} {
		for range 60 {
			s.send(t, request{method: "GET", path: "/v2/templates", key: key})
		}
		for _, o := range operations(t) {
			w := &walker{T: t, scene: s, judge: new(judge), operation: o}
			r := request{method: o.method, path: w.pathOf("x"), key: key}
			a := s.send(t, r)
			must.Equal(t, a.status == 429, o.version == "v2", "whether the quota rejects", r, "which got", a.status)
			if o.version == "v2" {
				for _, what := range w.differences(t.Context(), o, a) {
					t.Errorf("%v: %s: %s", r, what, a.body)
				}
			}
		}
	}
}

package main

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/variants"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// groupCount is the number of deployments of the variants that aren't Exact. `make variants` starts one for each variant.
const groupCount = 14

// The suite fails no variant and no combination of variants.
func TestVariants(t *testing.T) {
	binary := faultyJobrunner(t)
	var list []group
	for i := range groupCount {
		var g group
		for n, v := range variants.All() {
			if n%groupCount == i && !v.Exact {
				g = append(g, v)
			}
		}
		list = append(list, g)
	}
	for _, v := range variants.All() {
		if v.Exact {
			list = append(list, group{v})
		}
	}
	random, notExact := rand.New(rand.NewPCG(1, 1)), slices.Clone(slices.Concat(list[:groupCount]...))
	for range 5 {
		random.Shuffle(len(notExact), func(i, j int) { notExact[i], notExact[j] = notExact[j], notExact[i] })
		list = append(list, slices.Clone(notExact[:5]))
	}
	var selected []string
	if testing.Short() {
		list, selected = list[3:4], []string{"!RAT", "!LIM-0*"} // the first three have slow variants, and these clauses load the deployment
	}
	for _, g := range list {
		t.Run(g[0].ID, func(t *testing.T) {
			t.Parallel()
			c := judgeGroup(t.Context(), binary, g, selected...)
			must.Hold(t, c.ok(), c.line())
		})
	}
}

// Every variant quotes the statement of the description that allows its difference. MayWarn has only SHOULDs, unless the variant is Exact.
func TestVariantsAreReasoned(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range variants.All() {
		must.Hold(t, !seen[v.ID] && v.Description != "" && len(v.Choice) >= 5, "variant", v.ID, "its id is not unique, or its description or choice is missing")
		seen[v.ID] = true
		text := (group{v}).fault()
		must.Hold(t, text != "[]" && json.Valid([]byte(text)), "variant", v.ID, "has no difference", text)
		for _, id := range v.MayWarn {
			c, ok := clauses.Find(id)
			must.Hold(t, ok && (v.Exact || c.Level == suite.Should || strings.Contains(c.Statement, "should")), id, "may warn for variant", v.ID, "expected a SHOULD, got", c.Level)
		}
	}
}

// A fault is detected in a deployment with variants, too: the lateness that the suite grants them hides no fault.
func TestVariantsHideNoFault(t *testing.T) {
	binary := faultyJobrunner(t)
	list := variants.All()
	m := findMutant(t, "volume-shrinks")
	i := slices.IndexFunc(list, func(v variants.Variant) bool { return v.ID == "gzip" })
	faulty := variants.Variant{ID: m.ID, Description: m.Description, Fault: m.Fault}
	c := judgeGroup(t.Context(), binary, group{list[i], faulty}, "V")
	must.Hold(t, !c.ok() && strings.Contains(c.line(), m.Clause), m.ID, "is not detected:", c.line())
}

// The description doesn't say how long a cancelled job exists. The clauses about /cancel accept a minute.
func TestCancelledJobMayBeDeleted(t *testing.T) {
	short := variants.Variant{ID: "cancelled-minute", Fault: findMutant(t, "t-retention-cancelled-minute").Fault}
	c := judgeGroup(t.Context(), faultyJobrunner(t), group{short}, "JOB-17", "JOB-19")
	must.Hold(t, c.ok(), c.line())
}

// A missing operation is detected even if every 404 has the same words.
func TestMissingOperationsBehindAlikeAnswers(t *testing.T) {
	binary := faultyJobrunner(t)
	list := variants.All()
	alike := list[slices.IndexFunc(list, func(v variants.Variant) bool { return v.ID == "404-alike" })]
	missing := func(method, path string) string {
		return `{"wire": {"method": "` + method + `", "path": "` + path + `", "stub": true, "answer": {"status": 404, "header": {"Content-Type": "application/problem+json"}, "body": "{}"}}}`
	}
	for clause, fault := range map[string]string{
		"VER-16": missing("POST", "^/v2/pods/[^/]+/action$"),
		"VER-17": `{"wire": {"method": "POST", "path": "^/v2/pods/[^/]+/action$", "has": "dance", "answer": {"status": 200, "body": "{}"}}}`,
		"VER-18": missing("DELETE", "^/v2/pods/"),
		"VER-42": missing("GET", "^/v2/pods/[^/]+/logs$"),
		"VER-44": missing("GET", "^/v2/serverless/[^/]+/workers/[^/]+/logs$"),
		"VER-48": missing("DELETE", "^/v2/registries/delegations/"),
	} {
		t.Run(clause, func(t *testing.T) {
			t.Parallel()
			c := judgeGroup(t.Context(), binary, group{alike}, clause)
			must.Hold(t, c.ok() && c.judged == 1, c.judged, "clauses are judged:", c.line())
			c = judgeGroup(t.Context(), binary, group{{ID: clause, Fault: fault}, alike}, clause)
			must.Hold(t, strings.Contains(c.line(), "FAIL "+clause), "it is not detected:", c.line())
		})
	}
}

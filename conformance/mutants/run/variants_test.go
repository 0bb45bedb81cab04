package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/variants"
)

// bundles is into how few deployments all variants go, every so many-th into
// one: make variants has each alone.
const bundles = 14

// The suite finds no fault with any variant, however many of them come together.
func TestVariants(t *testing.T) {
	binary := withFaults(t)
	var list []group
	for i := range bundles {
		var g group
		for n, v := range variants.All() {
			if n%bundles == i && !v.Exact {
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
	random := rand.New(rand.NewPCG(1, 1))
	combined, err := groups("*", 5, 5, random.IntN)
	if err != nil {
		t.Fatal(err)
	}
	var selected []string
	if list = append(list, combined...); testing.Short() {
		list, selected = list[3:4], light("") // those of the first three slow a deployment down
	}
	for _, g := range list {
		t.Run(g[0].ID, func(t *testing.T) {
			t.Parallel()
			if c := tolerate(t.Context(), binary, g, selected...); !c.ok() {
				t.Error(c.line())
			}
		})
	}
}

// A variant says what of the contract leaves the choice, and where it may be
// warned of, the clause says what should be.
func TestVariantsAreReasoned(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range variants.All() {
		if seen[v.ID] || v.Words == "" || len(v.Allowed) < 5 {
			t.Errorf("variant %q: there are two, or it lacks its words or its reason", v.ID)
		}
		seen[v.ID] = true
		if text, err := (group{v}).fault(); err != nil || text == "[]" {
			t.Errorf("variant %s differs in nothing: %s, %v", v.ID, text, err)
		}
		for _, id := range v.Warns {
			if c, ok := clauses.Find(id); !ok || !v.Exact && c.Level != suite.Should && !strings.Contains(c.Statement, "should") {
				t.Errorf("variant %s may be warned of by %s, which is %s", v.ID, id, c.Level)
			}
		}
	}
}

// A deployment that is at fault is told of among variants, too: what they are
// granted hides nothing.
func TestVariantsHideNoFault(t *testing.T) {
	binary := withFaults(t)
	list := variants.All()
	m := find(t, "volume-shrinks")
	i := slices.IndexFunc(list, func(v variants.Variant) bool { return v.ID == "gzip" })
	faulty := variants.Variant{ID: m.ID, Words: m.Words, Fault: m.Fault}
	c := tolerate(t.Context(), binary, group{list[i], faulty}, "V")
	if c.ok() || !strings.Contains(c.line(), m.Clause) {
		t.Errorf("%s is not told of: %s", m.ID, c.line())
	}
}

// The suite's README says how many mutants and variants there are.
func TestREADMECounts(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	faults := 0
	for _, m := range mutants.All() {
		if m.Clause != "" {
			faults++
		}
	}
	for _, want := range []string{fmt.Sprintf("%d faults", faults), fmt.Sprintf("%d variants", len(variants.All()))} {
		if !strings.Contains(string(text), want) {
			t.Errorf("conformance/README.md does not say %q", want)
		}
	}
}

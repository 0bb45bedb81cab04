package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/clauses"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants/overlay"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/variants"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// sampleByForm has some mutants for each form of fault. make mutants runs all mutants.
var sampleByForm = map[string][]string{
	"point": {"any-key", "ttl-not-failed", "any-endpoint", "volume-shrinks", "webhook-again"},
	"value": {"ttl-min-11s", "webhook-4-tries", "wait-default-60s"},
	"sql":   {"any-kind", "template-names"},
	"row":   {"volume-max-4096", "image-optional"},
	"wire":  {"id-number", "other-key-stream", "registry-password", "registry-delete-nothing", "list-templates-items", "expired-200", "key-echoed"},
}

func findMutant(t *testing.T, id string) mutants.Mutant {
	t.Helper()
	for _, m := range mutants.All() {
		if m.ID == id {
			return m
		}
	}
	t.Fatalf("invalid sample: expected the id of a mutant, got %q", id)
	return mutants.Mutant{}
}

// binaryDir is the directory of the jobrunner with faults, which is built once.
var binaryDir string

func TestMain(m *testing.M) {
	var err error
	if binaryDir, err = os.MkdirTemp("", "gpucloud-mutants-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(binaryDir)
	os.Exit(code)
}

var buildOnce = sync.OnceValue(func() error { return overlay.Build(context.Background(), filepath.Join(binaryDir, "jobrunner")) })

// faultyJobrunner returns the path of the jobrunner with faults.
func faultyJobrunner(t *testing.T) string {
	t.Helper()
	must.Succeed(t, buildOnce())
	return filepath.Join(binaryDir, "jobrunner")
}

// Each mutant of the sample is detected by its own clause.
func TestSampleOfMutants(t *testing.T) {
	binary := faultyJobrunner(t)
	for form, ids := range sampleByForm {
		if testing.Short() {
			ids = ids[:2]
		}
		for _, id := range ids {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				m := findMutant(t, id)
				var fault map[string]any
				err := json.Unmarshal([]byte(m.Fault), &fault)
				must.Hold(t, err == nil && fault[form] != nil, "invalid fault", id, "expected the form", form, m.Fault, err)
				v := judgeMutant(t.Context(), binary, m)
				must.Hold(t, v.ok(), v.line())
			})
		}
	}
	// No MUST fails for a control, a mutant whose fault violates no clause.
	t.Run("control", func(t *testing.T) {
		if testing.Short() {
			t.Skip("TestVariants also judges deployments for which no MUST may fail")
		}
		t.Parallel()
		v := judgeMutant(t.Context(), binary, findMutant(t, "queue-last-first"))
		must.Hold(t, v.ok(), v.line())
	})
	// An invalid fault is rejected, since it would prove nothing.
	for _, fault := range []string{"{", `{"pint": "any-key"}`, `{"value": "engine.NoSuchThing", "is": 1}`} {
		if d, err := local.Start(t.Context(), local.Config{Binary: binary, Env: []string{faultVariable + "=" + fault}}); err == nil {
			t.Errorf("a jobrunner starts with the invalid fault %s", fault)
			_ = d.Stop() // the test has failed already
		}
	}
}

func TestInvalidPattern(t *testing.T) {
	_, err := choose(mutants.All(), "[", func(m mutants.Mutant) string { return m.ID })
	must.Hold(t, err != nil && !strings.Contains(err.Error(), "\n"), "expected an error of one line, got", err)
}

// The product has no faults: its program doesn't contain the variable's name, and it passes the clauses of the mutants.
func TestNoFaultInTheProduct(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "jobrunner")
	must.Succeed(t, gobuild.Programs(t.Context(), dir, "../../../cmd/jobrunner"))
	program := must.ReadFile(t, binary)
	must.Hold(t, !bytes.Contains(program, []byte(faultVariable)), "the program contains", faultVariable)
	for _, ids := range sampleByForm {
		m := findMutant(t, ids[0])
		v := judgeMutant(t.Context(), binary, m)
		must.Hold(t, v.err == nil && len(v.detectedBy) == 0, v.line())
	}
	d := must.Do(local.Start(context.WithoutCancel(t.Context()), local.Config{Binary: binary, Env: []string{faultVariable + "={"}}))(t)
	must.Succeed(t, d.Stop())
}

// The SQL, Point or Data that a fault names occurs in the source; otherwise the mutant would have no effect. No two mutants are equal.
func TestFaultsAreInTheSource(t *testing.T) {
	const root = "../../.."
	patched := t.TempDir()
	must.Do(overlay.Write(t.Context(), root, patched))(t)
	var source strings.Builder
	var statements []string
	for _, dir := range []string{root, patched} {
		err := filepath.WalkDir(filepath.Join(dir, "jobrunner"), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				statements = append(statements, constants(t, path)...)
			}
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		})
		must.Succeed(t, err)
	}
	expectInSource := func(id, text string) {
		var faults []struct{ SQL, In, Point, Data string }
		must.Equal(t, json.Unmarshal([]byte(text), &faults), nil, id)
		for _, fault := range faults {
			if fault.SQL != "" && !slices.ContainsFunc(statements, func(s string) bool { return strings.Contains(s, fault.SQL) && strings.Contains(s, fault.In) }) {
				t.Errorf("%s: the source has no statement with %q and %q", id, fault.SQL, fault.In)
			}
			for _, place := range []string{fault.Point, fault.Data} {
				if place == "" {
					continue
				}
				class, path, _ := strings.Cut(place, "/") // "refused/run" is at "refused"+"/run"
				must.Hold(t, strings.Contains(source.String(), `"`+place+`"`) || strings.Contains(source.String(), `"`+class+`"+`) && strings.Contains(source.String(), `"/`+path+`"`), id, "the source has no fault at", place)
			}
		}
	}
	seen := map[string]bool{}
	for _, m := range mutants.All() {
		expectInSource(m.ID, group{{Fault: m.Fault}}.fault())
		must.Hold(t, !seen[m.ID] && !seen[m.Clause+m.Fault], m.ID, "is the id of two mutants, or another one has its clause and fault")
		seen[m.ID], seen[m.Clause+m.Fault] = true, true
	}
	for _, v := range variants.All() {
		expectInSource(v.ID, group{v}.fault())
	}
}

// constants returns the values of a folder's constant texts, such as SQL statements that are composed of constants.
func constants(t *testing.T, dir string) (texts []string) {
	t.Helper()
	files := token.NewFileSet()
	var parsed []*ast.File
	paths := must.Do(filepath.Glob(filepath.Join(dir, "*.go")))(t)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := must.Do(parser.ParseFile(files, path, nil, parser.SkipObjectResolution))(t)
		parsed = append(parsed, file)
	}
	info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}} // imported names are unknown
	_, _ = config.Check(dir, files, parsed, &info)
	for _, value := range info.Types {
		if value.Value != nil && value.Value.Kind() == constant.String {
			texts = append(texts, constant.StringVal(value.Value))
		}
	}
	return texts
}

type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) { return nil, errors.New(path) }

func findVariant(id string) variants.Variant {
	list := variants.All()
	return list[slices.IndexFunc(list, func(v variants.Variant) bool { return v.ID == id })]
}

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

// A fault is detected in a deployment with a variant, too: neither the lateness that the suite grants to variants nor
// another algorithm of rate limits hides it.
func TestVariantsHideNoFault(t *testing.T) {
	binary := faultyJobrunner(t)
	for _, c := range []struct {
		variant, mutant string
		inShort         bool
	}{
		{"gzip", "volume-shrinks", true},
		{"token-bucket", "rate-cancel-more", true}, {"token-bucket", "rate-purge-queue-more", false}, {"token-bucket", "rate-requests-less", false},
		{"token-bucket", "window-11s", true}, {"token-bucket", "t-window-9500ms", false},
		{"calendar-window", "rate-cancel-more", false}, {"calendar-window", "rate-requests-less", false}, {"calendar-window", "t-window-9500ms", false},
	} {
		if testing.Short() && !c.inShort {
			continue // one fault of each kind is enough
		}
		t.Run(c.variant+" "+c.mutant, func(t *testing.T) {
			t.Parallel()
			m := findMutant(t, c.mutant)
			g := group{findVariant(c.variant)}
			g[0].Exact = m.Clause == "RAT-10" // no lateness is granted to the end of a window
			alone := judgeGroup(t.Context(), binary, g, m.Clause)
			must.Hold(t, alone.ok() && alone.judged == 1, alone.judged, "clauses are judged without the fault:", alone.line())
			faulty := judgeGroup(t.Context(), binary, append(g, variants.Variant{ID: m.ID, Fault: m.Fault}), m.Clause)
			must.Hold(t, strings.Contains(faulty.line(), "FAIL "+m.Clause), "it is not detected:", faulty.line())
		})
	}
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
	alike := findVariant("404-alike")
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

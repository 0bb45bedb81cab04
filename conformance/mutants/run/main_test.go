package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/local"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants/overlay"
	"github.com/gpucloud/terraform-provider-gpucloud/conformance/variants"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
)

// sampleByForm has some mutants for each form of fault. make mutants runs all mutants.
var sampleByForm = map[string][]string{
	"point": {"any-key", "volume-shrinks", "webhook-again"},
	"value": {"ttl-min-11s", "webhook-4-tries", "wait-default-60s"},
	"sql":   {"retry-keeps-output", "ttl-not-failed", "any-endpoint", "template-names"},
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
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
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
				if err := json.Unmarshal([]byte(m.Fault), &fault); err != nil || fault[form] == nil {
					t.Errorf("invalid fault %s: expected the form %s, got %s, %v", id, form, m.Fault, err)
				}
				if v := judgeMutant(t.Context(), binary, m, false); !v.ok() {
					t.Error(v.line())
				}
			})
		}
	}
	// No MUST fails for a control, which violates no clause.
	t.Run("control", func(t *testing.T) {
		if testing.Short() {
			t.Skip("TestVariants has deployments that must not fail")
		}
		t.Parallel()
		if v := judgeMutant(t.Context(), binary, findMutant(t, "queue-last-first"), true); !v.ok() {
			t.Error(v.line())
		}
	})
	// An invalid fault is rejected, since it would prove nothing.
	for _, fault := range []string{"{", `{"pint": "any-key"}`, `{"value": "engine.NoSuchThing", "is": 1}`} {
		if d, err := local.Start(t.Context(), local.Config{Binary: binary, Env: []string{faultVariable + "=" + fault}}); err == nil {
			t.Errorf("a jobrunner starts with the invalid fault %s", fault)
			_ = d.Stop() // the test has failed already
		}
	}
}

// The product has no faults: it doesn't contain the variable's name, and keeps the clauses
// that mutants violate.
func TestNoFaultInTheProduct(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "jobrunner")
	if err := gobuild.Programs(t.Context(), dir, "../../../cmd/jobrunner"); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(program, []byte(faultVariable)) {
		t.Errorf("the program contains %s", faultVariable)
	}
	for _, ids := range sampleByForm {
		m := findMutant(t, ids[0])
		if v := judgeMutant(t.Context(), binary, m, false); v.err != nil || len(v.detectedBy) > 0 {
			t.Error(v.line())
		}
	}
	d, err := local.Start(context.WithoutCancel(t.Context()), local.Config{Binary: binary, Env: []string{faultVariable + "={"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
}

// Every fault names SQL, a point or data that exists in the source. A mutant of a rewritten
// statement would have no effect.
func TestFaultsAreInTheSource(t *testing.T) {
	const root = "../../.."
	patched := t.TempDir()
	if _, err := overlay.Write(t.Context(), root, patched); err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, dir := range []string{root, patched} {
		err := filepath.WalkDir(filepath.Join(dir, "jobrunner"), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	expectInSource := func(id, text string) {
		list, err := splitFaults(text)
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		for _, encoded := range list {
			var fault struct{ SQL, Point, Data string }
			if err := json.Unmarshal(encoded, &fault); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			if !strings.Contains(source.String(), fault.SQL) {
				t.Errorf("%s: the source has no statement with %q", id, fault.SQL)
			}
			for _, place := range []string{fault.Point, fault.Data} {
				if place == "" {
					continue
				}
				class, _, _ := strings.Cut(place, "-") // as in "refused-"+operation
				if !strings.Contains(source.String(), `"`+place+`"`) && !strings.Contains(source.String(), `"`+class+`-"+`) {
					t.Errorf("%s: the source has no fault at %q", id, place)
				}
			}
		}
	}
	for _, m := range mutants.All() {
		expectInSource(m.ID, m.Fault)
	}
	for _, v := range variants.All() {
		expectInSource(v.ID, v.Fault)
	}
}

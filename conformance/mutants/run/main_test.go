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

// sample are some mutants of each kind of fault; make mutants has all of them.
var sample = map[string][]string{
	"point": {"any-key", "volume-shrinks", "webhook-again"},
	"value": {"ttl-min-11s", "webhook-4-tries", "wait-default-60s"},
	"sql":   {"retry-keeps-output", "ttl-not-failed", "any-endpoint", "template-names"},
	"rule":  {"volume-max-4096", "image-optional"},
	"wire":  {"id-number", "registry-password", "registry-delete-nothing", "list-templates-items", "expired-200", "key-echoed"},
}

func find(t *testing.T, id string) mutants.Mutant {
	t.Helper()
	for _, m := range mutants.All() {
		if m.ID == id {
			return m
		}
	}
	t.Fatalf("there is no mutant %s", id)
	return mutants.Mutant{}
}

// dir has the jobrunner with its faults, which is built once.
var dir string

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "gpucloud-mutants-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var built = sync.OnceValue(func() error { return overlay.Build(context.Background(), filepath.Join(dir, "jobrunner")) })

// withFaults is the jobrunner that has faults to choose.
func withFaults(t *testing.T) string {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "jobrunner")
}

// Each of the sample is noticed by the clause that it was made for.
func TestSample(t *testing.T) {
	binary := withFaults(t)
	for kind, ids := range sample {
		if testing.Short() {
			ids = ids[:2]
		}
		for _, id := range ids {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				m := find(t, id)
				var fault map[string]any
				if err := json.Unmarshal([]byte(m.Fault), &fault); err != nil || fault[kind] == nil {
					t.Errorf("invalid fault %s: expected the kind %s, got %s, %v", id, kind, m.Fault, err)
				}
				if v := judge(t.Context(), binary, m, false); !v.ok() {
					t.Error(v.line())
				}
			})
		}
	}
	// Whoever breaks nothing that is promised is let alone.
	t.Run("control", func(t *testing.T) {
		if testing.Short() {
			t.Skip("TestVariants has deployments that nobody may blame")
		}
		t.Parallel()
		if v := judge(t.Context(), binary, find(t, "queue-last-first"), true); !v.ok() {
			t.Error(v.line())
		}
	})
	// An invalid fault is refused: it would prove nothing.
	for _, fault := range []string{"{", `{"pint": "any-key"}`, `{"value": "engine.NoSuchThing", "is": 1}`} {
		if d, err := local.Start(t.Context(), local.Config{Binary: binary, Env: []string{variable + "=" + fault}}); err == nil {
			t.Errorf("a jobrunner starts with %s", fault)
			_ = d.Stop() // the error is told of already
		}
	}
}

// The program that people run has no faults to choose: it does not know the
// variable, and keeps what its mutants break.
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
	if bytes.Contains(program, []byte(variable)) {
		t.Errorf("%s is in the program", variable)
	}
	for _, ids := range sample {
		m := find(t, ids[0])
		if v := judge(t.Context(), binary, m, false); v.err != nil || len(v.noticed) > 0 {
			t.Error(v.line())
		}
	}
	d, err := local.Start(context.WithoutCancel(t.Context()), local.Config{Binary: binary, Env: []string{variable + "={"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
}

// A fault is in a statement or at a point that there is: one that was written anew
// leaves its mutants without effect.
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
	inSource := func(id, text string) {
		list, err := faults(text)
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		for _, one := range list {
			var fault struct{ SQL, Point, Data string }
			if err := json.Unmarshal(one, &fault); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			if !strings.Contains(source.String(), fault.SQL) {
				t.Errorf("%s: no statement has %q", id, fault.SQL)
			}
			for _, place := range []string{fault.Point, fault.Data} {
				if place == "" {
					continue
				}
				class, _, _ := strings.Cut(place, "-") // as in "refused-"+operation
				if !strings.Contains(source.String(), `"`+place+`"`) && !strings.Contains(source.String(), `"`+class+`-"+`) {
					t.Errorf("%s: nothing asks for %q", id, place)
				}
			}
		}
	}
	for _, m := range mutants.All() {
		inSource(m.ID, m.Fault)
	}
	for _, v := range variants.All() {
		inSource(v.ID, v.Fault)
	}
}

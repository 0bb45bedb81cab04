package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is released has only modules whose licences allow it, and the list of them is the
// one in the documentation.
func TestLicences(t *testing.T) {
	root := filepath.Join("..", "..")
	modules, err := released(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		ids, _, err := m.licence()
		if err != nil {
			t.Error(err)
		}
		for _, id := range forbidden(ids) {
			t.Errorf("invalid licence of %s: expected one of %v, got %s: do without the module", m.Path, permissive, id)
		}
	}
	want, err := table(modules)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date: run `make docs`", document)
	}
	text, err := notices(modules)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Mozilla Public License", "Redistributions in binary form", "NVIDIA"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the notices", want)
		}
	}
}

func TestForbidden(t *testing.T) {
	for _, id := range []string{"GPL", "AGPL", "LGPL", "BUSL", "MIT, GPL"} {
		if len(forbidden(id)) != 1 {
			t.Errorf("%s is allowed", id)
		}
	}
	if found := forbidden("Apache-2.0, BSD-3-Clause"); len(found) > 0 {
		t.Errorf("%v", found)
	}
}

// A licence is recognized by its text, and a module without one is an error.
func TestLicenceText(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := (module{Path: "example.com/m", Dir: dir}).licence(); err == nil {
		t.Error("a module without a licence has one")
	}
	own, err := os.ReadFile(filepath.Join("..", "..", "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE.txt"), own, 0o600); err != nil {
		t.Fatal(err)
	}
	ids, files, err := module{Path: "example.com/m", Dir: dir}.licence()
	if err != nil || ids != "Apache-2.0" || len(files) != 1 {
		t.Errorf("%q %d %v", ids, len(files), err)
	}
}

func forbidden(ids string) []string {
	return slices.DeleteFunc(strings.Split(ids, ", "), func(id string) bool { return slices.Contains(permissive, id) })
}

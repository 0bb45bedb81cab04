package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// known is RunPod's document of August 2026.
const known = "../../internal/test/system/openapi/testdata/v2.json"

type object = map[string]any

// node returns the object at a path of a document.
func node(t *testing.T, o object, path ...string) object {
	t.Helper()
	for _, name := range path {
		next, ok := o[name].(object)
		if !ok {
			t.Fatalf("%s of %v isn't an object", name, path)
		}
		o = next
	}
	return o
}

// writeRevised writes the known document with a change.
func writeRevised(t *testing.T, change func(paths, schemas object)) (file string) {
	t.Helper()
	text, err := os.ReadFile(known)
	if err != nil {
		t.Fatal(err)
	}
	var document object
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	change(node(t, document, "paths"), node(t, document, "components", "schemas"))
	if text, err = json.Marshal(document); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "v2.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestChangesAreGroupedByWhoBreaks(t *testing.T) {
	text := object{"type": "string"}
	registry := func(t *testing.T, schemas object) object { return node(t, schemas, "CreateRegistryRequest") }
	for name, c := range map[string]struct {
		change func(t *testing.T, paths, schemas object)
		want   []string // group, operation and text
	}{
		"nothing": {func(*testing.T, object, object) {}, nil},
		"an operation is removed": {func(t *testing.T, paths, _ object) { delete(node(t, paths, "/v2/registries/{id}"), "delete") },
			[]string{"clients", "DELETE /v2/registries/{id}", "removed"}},
		"an operation is added": {func(t *testing.T, paths, _ object) {
			paths["/v2/account/secrets"] = object{"get": object{"responses": object{"200": object{"description": ""}}}}
		}, []string{"deployments", "GET /v2/account/secrets", "removed"}},
		"a member of a request is added": {func(t *testing.T, _, schemas object) { node(t, registry(t, schemas), "properties")["region"] = text },
			[]string{"deployments", "POST /v2/registries", "`region`"}},
		"a member of a request is required": {func(t *testing.T, _, schemas object) {
			node(t, registry(t, schemas), "properties")["region"] = text
			registry(t, schemas)["required"] = append(registry(t, schemas)["required"].([]any), "region")
		}, []string{"clients", "POST /v2/registries", "`region`"}},
		"a bound is set": {func(t *testing.T, _, schemas object) {
			node(t, registry(t, schemas), "properties", "username")["maxLength"] = 191
		},
			[]string{"clients", "POST /v2/registries", "191"}},
		"a parameter is required": {func(t *testing.T, paths, _ object) {
			get := node(t, paths, "/v2/registries", "get")
			list, _ := get["parameters"].([]any)
			get["parameters"] = append(list, object{"name": "team", "in": "query", "required": true, "schema": text})
		}, []string{"clients", "GET /v2/registries", "`team`"}},
		"a status is added": {func(t *testing.T, paths, _ object) {
			node(t, paths, "/v2/pods", "post", "responses")["413"] = object{"description": ""}
		}, []string{"neither", "POST /v2/pods", "`413`"}},
		"a success is removed": {func(t *testing.T, paths, _ object) { delete(node(t, paths, "/v2/pods", "post", "responses"), "201") },
			[]string{"clients", "POST /v2/pods", "`201`"}},
	} {
		t.Run(name, func(t *testing.T) {
			document := writeRevised(t, func(paths, schemas object) { c.change(t, paths, schemas) })
			var out strings.Builder
			breaks, err := run(&out, known, known, document)
			if err != nil {
				t.Fatal(err)
			}
			if wantBreak := c.want != nil && c.want[0] != "neither"; breaks != wantBreak {
				t.Errorf("got breaks %t, want %t\n%s", breaks, wantBreak, &out)
			}
			if c.want == nil {
				return
			}
			group := out.String()[max(0, strings.Index(out.String(), "Breaks "+c.want[0])):]
			group, _, _ = strings.Cut(group, "\n\n")
			at := strings.Index(group, "  "+c.want[1]+"\n")
			if at < 0 || !strings.HasPrefix(group, "Breaks "+c.want[0]) || !strings.Contains(group[at:], c.want[2]) {
				t.Errorf("want %q in\n%s", c.want, &out)
			}
		})
	}
}

// The jobrunner's document differs from RunPod's of August 2026, in paging for example.
func TestOurChangesSinceAugust(t *testing.T) {
	ours := filepath.Join(t.TempDir(), "ours.json")
	document, err := exec.Command("go", "run", "-C", "../..", "./internal/testkit/dev", "openapi").Output()
	if err == nil {
		err = os.WriteFile(ours, document, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if breaks, err := run(&out, ours, known, known); err != nil || breaks || !strings.HasPrefix(out.String(), "The document has no new changes") {
		t.Errorf("the known document has new changes: %v\n%s", err, &out)
	}
	out.Reset()
	if breaks, err := run(&out, ours, ours, known); err != nil || !breaks {
		t.Fatalf("none of our changes breaks clients or deployments: %v", err)
	}
	clients, _, _ := strings.Cut(out.String(), "\n\n")
	for _, want := range []string{"  GET /v2/pods\n", "deleted the `query` request parameter `cursor`", "removed the required property `pagination`"} {
		if !strings.Contains(clients, want) {
			t.Errorf("%q isn't among the changes that break clients:\n%.5000s", want, clients)
		}
	}
}

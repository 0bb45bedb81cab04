// Package openapi holds the jobrunner against the OpenAPI documents of both
// management APIs: every operation, with good and with bad requests, and every
// answer. testdata/accepted.tsv has what differs on purpose.
package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

var from = flag.String("documents", "", "renew testdata from the OpenAPI documents in this `folder`")

// document is the description of one version.
type document struct {
	version string // v1 or v2
	prefix  string // of its paths
	title   string
	source  string // its file where it comes from
}

var documents = []document{
	{"v1", "/v1", "Management API, version 1", "management-v1.openapi.json"},
	{"v2", "", "Management API, version 2", "management-v2.openapi.json"},
}

func (d document) file() string { return filepath.Join("testdata", d.version+".json") }

// operation is one of a document.
type operation struct {
	document
	spec   *openapi3.T
	item   *openapi3.PathItem
	op     *openapi3.Operation
	method string
	path   string // with the prefix
}

func (o operation) String() string { return o.method + " " + o.path }

// body is the schema of the JSON that the operation takes, nil for none.
func (o operation) body() *openapi3.SchemaRef {
	if o.op.RequestBody == nil {
		return nil
	}
	return o.op.RequestBody.Value.Content.Get("application/json").Schema
}

// public reports whether the operation needs no key.
func (o operation) public() bool { return o.op.Security != nil && len(*o.op.Security) == 0 }

// parameters are those of the operation and of its path.
func (o operation) parameters(in string) (list []*openapi3.Parameter) {
	for _, p := range slices.Concat(o.item.Parameters, o.op.Parameters) {
		if p.Value.In == in {
			list = append(list, p.Value)
		}
	}
	return list
}

// operations are those of both documents, in the order of their paths.
func operations(t *testing.T) (list []operation) {
	t.Helper()
	for _, d := range documents {
		spec, err := openapi3.NewLoader().LoadFromFile(d.file())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, operationsOf(d, spec)...)
	}
	sortOperations(list)
	return list
}

func operationsOf(d document, spec *openapi3.T) (list []operation) {
	paths := spec.Paths.Map()
	for _, path := range spec.Paths.Keys() {
		for method, op := range paths[path].Operations() {
			list = append(list, operation{d, spec, paths[path], op, method, d.prefix + path})
		}
	}
	return list
}

func sortOperations(list []operation) {
	slices.SortFunc(list, func(a, b operation) int {
		return strings.Compare(a.path+" "+a.method, b.path+" "+b.method)
	})
}

// prose are members for readers, which testdata has not.
var prose = []string{"summary", "example", "examples", "externalDocs", "tags", "contact", "bearerFormat"}

// named are members whose own members have names that somebody chose.
var named = []string{
	"properties", "patternProperties", "dependentRequired", "$defs", "schemas", "responses", "parameters", "headers",
	"paths", "mapping", "securitySchemes", "content",
}

// values are members that are data.
var values = []string{"default", "enum", "const"}

// facts is a document without its prose.
func facts(node any, names bool) any {
	switch in := node.(type) {
	case []any:
		out := make([]any, len(in))
		for i, item := range in {
			out[i] = facts(item, false)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, value := range in {
			switch {
			case names:
				out[name] = facts(value, false)
			case slices.Contains(prose, name), strings.HasPrefix(name, "x-"), name == "description":
			case slices.Contains(values, name):
				out[name] = value
			default:
				out[name] = facts(value, slices.Contains(named, name))
			}
		}
		return out
	}
	return node
}

// TestDocumentsHaveNoProse: testdata is what the documents state in a form for
// programs, and nothing else of them.
func TestDocumentsHaveNoProse(t *testing.T) {
	for _, d := range documents {
		path := d.file()
		if *from != "" {
			path = filepath.Join(*from, d.source)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		delete(tree, "servers") // they are the operator's; the prefix is in documents
		tree["info"] = map[string]any{"title": d.title, "version": tree["info"].(map[string]any)["version"]}
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", " ")
		if err := encoder.Encode(facts(tree, false)); err != nil {
			t.Fatal(err)
		}
		if *from != "" {
			if err := os.WriteFile(d.file(), want.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !bytes.Equal(text, want.Bytes()) {
			t.Errorf("%s has prose, or another form: go test -C internal/test/system ./openapi -run Prose -documents FOLDER writes it", path)
		}
	}
}

// Package openapi tests the jobrunner against the OpenAPI documents of both management APIs: every
// operation with valid and invalid requests. testdata/accepted.tsv has the intended differences.
package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

var documentsFolder = flag.String("documents", "", "update testdata from the OpenAPI documents in this `folder`")

type document struct {
	version string // v1 or v2
	prefix  string // of its paths
	title   string
	source  string // file name at RunPod
}

var documents = []document{
	{"v1", "/v1", "Management API, version 1", "management-v1.openapi.json"},
	{"v2", "", "Management API, version 2", "management-v2.openapi.json"},
}

func (d document) file() string { return filepath.Join("testdata", d.version+".json") }

// operation is an operation of a document.
type operation struct {
	document
	spec   *openapi3.T
	item   *openapi3.PathItem
	op     *openapi3.Operation
	method string
	path   string // with the prefix
}

func (o operation) String() string { return o.method + " " + o.path }

// body returns the schema of the JSON body, or nil.
func (o operation) body() *openapi3.SchemaRef {
	if o.op.RequestBody == nil {
		return nil
	}
	return o.op.RequestBody.Value.Content.Get("application/json").Schema
}

// isPublic reports whether the operation needs no key.
func (o operation) isPublic() bool { return o.op.Security != nil && len(*o.op.Security) == 0 }

func (o operation) parameters(in string) (list []*openapi3.Parameter) {
	for _, p := range slices.Concat(o.item.Parameters, o.op.Parameters) {
		if p.Value.In == in {
			list = append(list, p.Value)
		}
	}
	return list
}

// operations returns the operations of both documents, sorted by path.
func operations(t *testing.T) (list []operation) {
	t.Helper()
	for _, d := range documents {
		spec := must.Do(openapi3.NewLoader().LoadFromFile(d.file()))(t)
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
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.path+" "+a.method, b.path+" "+b.method) })
}

// proseMembers are members for readers, which testdata omits.
var proseMembers = []string{"summary", "example", "examples", "externalDocs", "tags", "contact", "bearerFormat"}

// mapMembers are members that are maps, with names as keys.
var mapMembers = []string{
	"properties", "patternProperties", "dependentRequired", "$defs", "schemas", "responses", "parameters", "headers",
	"paths", "mapping", "securitySchemes", "content",
}

// dataMembers are members with data, which is copied unchanged.
var dataMembers = []string{"default", "enum", "const"}

// withoutProse returns a part of a document without its prose. isMap reports whether it is a map with names as keys.
func withoutProse(node any, isMap bool) any {
	switch in := node.(type) {
	case []any:
		out := make([]any, len(in))
		for i, item := range in {
			out[i] = withoutProse(item, false)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, value := range in {
			switch {
			case isMap:
				out[name] = withoutProse(value, false)
			case slices.Contains(proseMembers, name), strings.HasPrefix(name, "x-"), name == "description":
			case slices.Contains(dataMembers, name):
				out[name] = value
			default:
				out[name] = withoutProse(value, slices.Contains(mapMembers, name))
			}
		}
		return out
	}
	return node
}

// testdata contains the documents without their prose.
func TestDocumentsHaveNoProse(t *testing.T) {
	for _, d := range documents {
		path := d.file()
		if *documentsFolder != "" {
			path = filepath.Join(*documentsFolder, d.source)
		}
		text := must.ReadFile(t, path)
		var tree map[string]any
		must.Succeed(t, json.Unmarshal(text, &tree))
		delete(tree, "servers") // RunPod's addresses, which document.prefix replaces
		tree["info"] = map[string]any{"title": d.title, "version": tree["info"].(map[string]any)["version"]}
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", " ")
		must.Succeed(t, encoder.Encode(withoutProse(tree, false)))
		if *documentsFolder != "" {
			must.Succeed(t, os.WriteFile(d.file(), want.Bytes(), 0o644))
			continue
		}
		must.Hold(t, bytes.Equal(text, want.Bytes()), path, "has prose or another format: go test -C internal/test/system ./openapi -run Prose -documents FOLDER updates it")
	}
}

// servedOperations returns the operations of the documents that the jobrunner serves.
func servedOperations(t *testing.T, s *scene) (list []operation) {
	t.Helper()
	for _, d := range documents {
		a := s.send(t, request{method: "GET", path: "/" + d.version + "/openapi.json"})
		must.Require(t, a.success(), "the document of", d.version, "was answered with", a.status, string(a.body))
		spec := must.Do(openapi3.NewLoader().LoadFromData(a.body))(t)
		must.Equal(t, spec.Validate(t.Context()), nil, "fault of the document of", d.version)
		list = append(list, operationsOf(d, spec)...)
	}
	sortOperations(list)
	return list
}

func closeSchema(ref *openapi3.SchemaRef, depth int) {
	if ref == nil || ref.Value == nil || depth > 8 {
		return
	}
	s := ref.Value
	if len(s.Properties) > 0 && s.AdditionalProperties.Has == nil {
		s.AdditionalProperties.Has = new(bool)
	}
	for _, part := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf, openapi3.SchemaRefs{s.Items, s.AdditionalProperties.Schema}) {
		closeSchema(part, depth+1)
	}
	for _, member := range s.Properties {
		closeSchema(member, depth+1)
	}
}

// rejectsForm reports whether an answer rejects the request for its form, not because of stored objects.
func rejectsForm(a answer) bool {
	return a.status == 422 || a.status == 400 && strings.Contains(string(a.body), "the request is not valid")
}

// outOfFormat reports whether a request has a number outside of int64 or double, which the validator ignores.
func outOfFormat(r request) bool { return r.name == "2^63" || r.name == "1e400" }

var exampleValues = regexp.MustCompile(`'[^']*'|"[^"]*"|\d+`)

// complaint returns the first fault in an error response, without its values.
func complaint(a answer) string {
	var body struct {
		Message string
		Errors  []string
	}
	if json.Unmarshal(a.body, &body) != nil {
		return string(a.body)
	}
	_, text, _ := strings.Cut(strings.TrimPrefix(strings.Join(append(body.Errors, body.Message), "; "), "the request is not valid: "), ": ")
	text, _, _ = strings.Cut(text, "; ")
	return exampleValues.ReplaceAllString(text, "*")
}

// The server accepts exactly the requests that the served documents allow, and answers with exactly their members.
// testdata/served.tsv has the rules that no schema can express.
func TestServedDocumentsAreTrue(t *testing.T) {
	s := newScene(t, nil)
	s.furnish(t)
	all := servedOperations(t, s)
	for _, o := range all {
		for _, ref := range o.op.Responses.Map() {
			for _, content := range ref.Value.Content {
				closeSchema(content.Schema, 0) // documents permit unknown members, for later releases
			}
		}
	}
	walkAll(t, s, all, "served.tsv", servedTable, true)
}

package openapi

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

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

func TestServedDifferencesHaveReasons(t *testing.T) {
	for _, a := range slices.Concat(readAccepted(t, servedTable), readAccepted(t, originalsTable)) {
		must.Hold(t, a.topic != "", "a line has no reason:", a.what)
	}
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

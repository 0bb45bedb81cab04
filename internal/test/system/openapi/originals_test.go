package openapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

var originals = flag.String("originals", "", "compare the served documents with RunPod's in this `folder`")

var pathParameter = regexp.MustCompile(`\{[^}]*\}`)

// operationFacts are the facts of each operation of a document, such as the type of a member.
type operationFacts map[string]map[string]string

// factsOf returns facts about requests and successful responses, without the names of path parameters.
func factsOf(list []operation) operationFacts {
	out := operationFacts{}
	for _, o := range list {
		facts := map[string]string{}
		out[o.method+" "+pathParameter.ReplaceAllString(o.path, "{}")] = facts
		if o.isPublic() {
			facts["key"] = "needs none"
		}
		for _, in := range []string{"query", "header"} {
			for _, p := range o.parameters(in) {
				noteValue(facts, "parameter "+p.Name, flatten(p.Schema))
				if p.Schema.Value.Items != nil {
					noteValue(facts, "parameter "+p.Name+"[]", flatten(p.Schema).items())
				}
			}
		}
		if body := o.body(); body != nil {
			noteObject(facts, "body", flatten(body))
		}
		for status, ref := range o.op.Responses.Map() {
			facts["status "+status] = "declared"
			if !strings.HasPrefix(status, "2") {
				continue
			}
			for media, content := range ref.Value.Content {
				facts["status "+status+" "+media] = "declared"
				if media == "application/json" && content.Schema != nil {
					noteObject(facts, "answer", flatten(content.Schema))
				}
			}
		}
	}
	return out
}

func noteObject(facts map[string]string, object string, s schemas) {
	s.walk(nil, "", 0, func(path []string, s schemas) {
		noteValue(facts, object+" "+strings.ReplaceAll(jsonPath(path), ".0", "[]"), s)
		for name := range s.properties() {
			if slices.ContainsFunc(s, func(part *openapi3.Schema) bool { return slices.Contains(part.Required, name) }) {
				facts[object+" "+strings.ReplaceAll(jsonPath(append(slices.Clone(path), name)), ".0", "[]")+" required"] = "yes"
			}
		}
	})
}

func noteValue(facts map[string]string, name string, s schemas) {
	note := func(what string, value any) { facts[name+" "+what] = fmt.Sprint(value) }
	var types, enum []string
	for _, part := range s {
		types = append(types, part.Type.Slice()...)
		if part.Nullable {
			types = append(types, "null")
		}
		for _, value := range part.Enum {
			if value != nil {
				enum = append(enum, fmt.Sprint(value))
			}
		}
		for what, bound := range map[string]*float64{"minimum": part.Min, "maximum": part.Max} {
			if bound != nil {
				note(what, jsonText(*bound))
			}
		}
		for what, bound := range map[string]*uint64{"minLength": &part.MinLength, "maxLength": part.MaxLength, "minItems": &part.MinItems, "maxItems": part.MaxItems} {
			if bound != nil && *bound > 0 {
				note(what, *bound)
			}
		}
		if part.Pattern != "" {
			note("pattern", part.Pattern)
		}
		if part.UniqueItems {
			note("uniqueItems", true)
		}
		if part.Default != nil {
			note("default", jsonText(part.Default))
		}
	}
	note("is", "a member") // the function isImplied looks for it
	joinSorted := func(list []string) string { slices.Sort(list); return strings.Join(slices.Compact(list), "|") }
	if len(types) > 0 {
		note("type", joinSorted(types))
	}
	if len(enum) > 0 {
		note("enum", joinSorted(enum))
	}
}

// differences returns the different facts of two documents, one per line.
func (s operationFacts) differences(original operationFacts) (lines []string) {
	for _, op := range slices.Sorted(maps.Keys(mergeKeys(s, original))) {
		switch {
		case s[op] == nil:
			lines = append(lines, op+": not served")
			continue
		case original[op] == nil:
			lines = append(lines, op+": served only")
			continue
		}
		for _, what := range slices.Sorted(maps.Keys(mergeKeys(s[op], original[op]))) {
			ours, theirs := s[op][what], original[op][what]
			if ours == theirs || isImplied(s[op], original[op], what) {
				continue
			}
			side := "differs"
			if theirs == "" {
				side = "served only"
			} else if ours == "" {
				side = "original only"
			}
			if boundFact.MatchString(what) && ours != "" {
				what += " " + ours
			}
			lines = append(lines, op+": "+what+": "+side)
		}
	}
	return lines
}

// boundFact matches facts whose differences are reported with our value.
var boundFact = regexp.MustCompile(`\$.* (minimum|maximum|minLength|maxLength|minItems|maxItems|default)$`)

func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // tests encode only values of JSON
	}
	return string(text)
}

// isImplied reports whether a larger difference implies this one: a document lacks the member or its parent.
func isImplied(a, b map[string]string, what string) bool {
	i := strings.LastIndex(what, " ")
	name, last := what[:i], what[i+1:]
	if strings.HasPrefix(what, "status ") || last == "is" {
		for parent := name; ; {
			j := strings.LastIndexAny(parent, ".[")
			if j < 0 {
				return false
			}
			if parent = parent[:j]; (a[parent+" is"] == "") != (b[parent+" is"] == "") {
				return true
			}
		}
	}
	return a[name+" is"] == "" || b[name+" is"] == ""
}

func mergeKeys[V any](a, b map[string]V) map[string]V {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// testdata/originals.tsv explains each difference of the served documents from RunPod's.
func TestServedAgainstOriginals(t *testing.T) {
	served := factsOf(servedOperations(t, newScene(t, nil)))
	t.Run("testdata", func(t *testing.T) { compareOriginals(t, served, "testdata", false) })
	t.Run("originals", func(t *testing.T) {
		if *originals == "" {
			t.Skip("-originals isn't set: only testdata is compared")
		}
		compareOriginals(t, served, *originals, true)
	})
}

// originalOperations returns the operations of RunPod's documents in a folder.
func originalOperations(t *testing.T, folder string, asPublished bool) (list []operation) {
	t.Helper()
	for _, d := range documents {
		path := filepath.Join(folder, d.version+".json")
		if asPublished {
			path = filepath.Join(folder, d.source)
		}
		spec := must.Do(openapi3.NewLoader().LoadFromFile(path))(t)
		list = append(list, operationsOf(d, spec)...)
	}
	return list
}

func compareOriginals(t *testing.T, served operationFacts, folder string, asPublished bool) {
	t.Helper()
	expectExplained(t, served.differences(factsOf(originalOperations(t, folder, asPublished))), "originals.tsv", originalsTable)
}

// expectExplained reports differences that no line of a table explains, and lines that explain none.
func expectExplained(t *testing.T, lines []string, file, table string) {
	t.Helper()
	for _, a := range readAccepted(t, table) {
		what := regexp.MustCompile("^(" + a.what + ")$")
		before := len(lines)
		lines = slices.DeleteFunc(lines, func(line string) bool {
			op, rest, _ := strings.Cut(line, ": ")
			return a.covers(op) && what.MatchString(rest)
		})
		must.Hold(t, len(lines) != before, "testdata/"+file, "has a line that matches no difference, or only differences that earlier lines match:", a.what, a.include)
	}
	for _, line := range lines {
		t.Errorf("testdata/%s doesn't explain this difference from RunPod's document: %s", file, line)
	}
	if len(lines) > 0 {
		t.Logf("If RunPod's current documents have it, update testdata/v1.json and v2.json (testdata/README.md). "+
			"If the difference is intended, add a line with the reason to testdata/%s.", file)
	}
}

package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// tableFacts returns the facts of the contract's table about bodies, in the form of factsOf.
func tableFacts() operationFacts {
	out := operationFacts{}
	for _, o := range contract.Operations {
		if o.API == contract.Jobs || o.Resource == "" {
			continue
		}
		path := pathParameter.ReplaceAllString(o.Path, "{}")
		facts := map[string]string{}
		out[o.Method+" /"+string(o.API)+path] = facts
		root := "$"
		if isList := o.Method == "GET" && !strings.HasSuffix(path, "{}") && !strings.HasPrefix(path, "/account"); isList && o.API == contract.V1 {
			root = "$[]"
		} else if isList && !strings.HasPrefix(path, "/billing") {
			continue // another operation returns the same objects
		}
		switch {
		case o.Method == "PATCH", o.Method == "PUT", strings.HasSuffix(path, "/update"):
			noteRows(facts, "body $", o, contract.Update)
		case o.Method == "POST" && !strings.Contains(path, "{}"):
			noteRows(facts, "body $", o, contract.Create)
		}
		noteRows(facts, "answer "+root, o, contract.Read)
	}
	return out
}

// noteRows adds the facts of each row of a body. prefix begins the facts' keys, such as "answer $".
func noteRows(facts map[string]string, prefix string, o contract.Operation, use contract.Use) {
	fields := contract.FieldsOf(o.API, o.Resource, use)
	if len(fields) > 0 {
		facts[prefix+" is"], facts[prefix+" type"] = "a member", "object"
	}
	for _, f := range fields {
		name := prefix + "." + f.Path
		note := func(name, what string, value any) { facts[name+" "+what] = fmt.Sprint(value) }
		note(name, "is", "a member")
		kind, known := map[string]string{"map": "object", "any": ""}[f.Type]
		if !known {
			kind = f.Type
		}
		if f.Nullable && kind != "" {
			kinds := []string{kind, "null"}
			slices.Sort(kinds)
			kind = strings.Join(kinds, "|")
		}
		if kind != "" {
			note(name, "type", kind)
		}
		if f.RequiredIn(use) {
			note(name, "required", "yes")
		}
		low, high := "minimum", "maximum"
		values := name
		switch f.Type {
		case "string":
			low, high = "minLength", "maxLength"
		case "array":
			low, high = "minItems", "maxItems"
			values = name + "[]"
			if f.Items != "any" {
				note(values, "is", "a member")
				note(values, "type", f.Items)
			}
		}
		if f.Min != nil && (*f.Min > 0 || low == "minimum") {
			note(name, low, jsonText(*f.Min))
		}
		if f.Max != nil {
			note(name, high, jsonText(*f.Max))
		}
		if f.Default != "" && use == contract.Create {
			note(name, "default", f.Default)
		}
		if f.Closed() {
			enum := slices.Sorted(slices.Values(f.Enum))
			note(values, "enum", strings.Join(enum, "|"))
		}
	}
}

var memberFact = regexp.MustCompile(`^(body|answer) .* (is|type|enum|required|minimum|maximum|minLength|maxLength|minItems|maxItems|default)$`)

// onlyMembers removes facts that the table's rows can't have.
func (s operationFacts) onlyMembers() operationFacts {
	out := operationFacts{}
	for op, facts := range s {
		out[op] = map[string]string{}
		for what, value := range facts {
			if memberFact.MatchString(what) && !strings.Contains(what, "KEY") {
				out[op][what] = value
			}
		}
	}
	return out
}

// testdata/table.tsv explains each difference of the contract's table from RunPod's documents.
func TestTableAgainstOriginals(t *testing.T) {
	ours, theirs := tableFacts(), factsOf(originalOperations(t, "testdata", false)).onlyMembers()
	maps.DeleteFunc(theirs, func(op string, _ map[string]string) bool { return ours[op] == nil })
	maps.DeleteFunc(ours, func(op string, _ map[string]string) bool { return theirs[op] == nil })
	expectExplained(t, ours.differences(theirs), "table.tsv", tableTable)
}

// tableFaults compares a successful response with the contract's table, except version 2's GETs without an id:
// another operation returns the same objects.
func tableFaults(api contract.API, method, path string, body []byte) (faults []string) {
	o, ok := operationAt(api, method, path)
	isList := method == "GET" && api == contract.V2 && !strings.HasSuffix(o.Path, "}") && !strings.HasPrefix(o.Path, "/billing")
	if !ok || isList {
		return nil
	}
	for _, fault := range bodyFaults(o.API, o.Resource, contract.Read, body) {
		faults = append(faults, method+" "+o.Path+": "+fault)
	}
	return faults
}

// bodyFaults returns the differences between a body and its rows of the contract's table.
func bodyFaults(api contract.API, resource string, use contract.Use, body []byte) (faults []string) {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return nil
	}
	rows := map[string]contract.Field{}
	for _, f := range contract.FieldsOf(api, resource, use) {
		rows[f.Path] = f
	}
	objects, isList := value.([]any)
	if !isList {
		objects = []any{value}
	}
	if len(rows) > 0 {
		for _, object := range objects {
			memberFaults(rows, use, "", object, func(fault string) { faults = append(faults, fault) })
		}
	}
	return faults
}

// operationAt finds the operation that matches a path with the fewest parameters.
func operationAt(api contract.API, method, path string) (found contract.Operation, ok bool) {
	segments, fewest := strings.Split(path, "/"), math.MaxInt
	for _, o := range contract.Operations {
		pattern, parameters := strings.Split(o.Path, "/"), 0
		fits := o.API == api && o.Method == method && len(pattern) == len(segments)
		for i := 0; fits && i < len(pattern); i++ {
			if strings.HasPrefix(pattern[i], "{") {
				parameters++
				continue
			}
			fits = pattern[i] == segments[i]
		}
		if fits && parameters < fewest {
			found, fewest, ok = o, parameters, true
		}
	}
	return found, ok
}

func memberFaults(rows map[string]contract.Field, use contract.Use, at string, value any, report func(string)) {
	object, ok := value.(map[string]any)
	hasRows := slices.ContainsFunc(slices.Collect(maps.Keys(rows)), func(path string) bool { return strings.HasPrefix(path, at) })
	if !ok || !hasRows { // no row is about members of this value
		return
	}
	for name, inner := range object {
		path := at + name
		f, known := rows[path]
		if !known {
			report(path + " has no row")
			continue
		}
		kind := kindOf(inner)
		fits := kind == f.Type || f.Type == "any" || inner == nil || kind == "integer" && f.Type == "number" || kind == "object" && f.Type == "map"
		if !fits {
			report(fmt.Sprintf("%s has the type %s, its row says %s", path, kind, f.Type))
		}
		checksBounds := use != contract.Read || f.Use == contract.Read // an answer shows what either version accepted
		if n, isNumber := inner.(float64); isNumber && checksBounds && !f.OrZero && (f.Min != nil && n < *f.Min || f.Max != nil && n > *f.Max) {
			report(fmt.Sprintf("%s is %v, outside of its row's bounds", path, n))
		}
		if text, isText := inner.(string); isText && text != "" && f.Closed() && !slices.Contains(f.Enum, text) {
			report(fmt.Sprintf("%s is %q, its row allows %q", path, text, f.Enum))
		}
		if f.Type == "object" {
			memberFaults(rows, use, path+".", inner, report)
		}
		if list, isList := inner.([]any); isList && f.Items == "object" {
			for _, element := range list {
				memberFaults(rows, use, path+"[].", element, report)
			}
		}
	}
	for path, f := range rows {
		if name, inside := strings.CutPrefix(path, at); inside && !strings.ContainsAny(name, ".[") && f.RequiredIn(use) {
			if _, has := object[name]; !has {
				report(path + " is missing, but required by its row")
			}
		}
	}
}

func kindOf(value any) string {
	switch v := value.(type) {
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// Bodies of the job API have the members and types of the contract's table.
func TestJobBodiesFollowTheTable(t *testing.T) {
	s := newScene(t, nil)
	s.furnish(t)
	var batches []string // bodies about batches
	sendToEndpoint := func(r request) answer {
		prefix := "/v2/" + s.endpoint
		path := r.path
		r.path = prefix + path
		if r.key == "live" { // not a key: the request goes to the SDK dialect
			r.path, r.key = "/live"+prefix+path, ""
		}
		a := s.send(t, r)
		must.Require(t, a.success(), r, "was answered with", a.status, string(a.body))
		for _, fault := range tableFaults(contract.Jobs, r.method, path, a.body) {
			t.Errorf("the answer and the contract's table differ: %s", fault)
		}
		if strings.HasPrefix(path, "/batch") {
			batches = append(batches, string(a.body))
		}
		return a
	}
	id := func(a answer) string {
		var job struct{ ID string }
		err := json.Unmarshal(a.body, &job)
		must.Require(t, err == nil && job.ID != "", "the answer has no id:", string(a.body), err)
		return job.ID
	}
	const submission = `{"input":{"prompt":"hello"},"webhook":"http://127.0.0.1:1/hook","policy":{"ttl":60000,"executionTimeout":60000,"lowPriority":false},
		"s3Config":{"accessId":"a","accessSecret":"b","bucketName":"c","endpointUrl":"https://example.com"}}`
	for _, fault := range bodyFaults(contract.Jobs, "jobSubmission", contract.Create, []byte(submission)) {
		t.Errorf("a submission and the contract's table differ: %s", fault)
	}
	const chunk = `{"output":{},"metrics":{"avg_gen_throughput":0.5,"avg_prompt_throughput":0.5,"cpu_kv_cache_usage":0.5,"gpu_kv_cache_usage":0.5,
		"input_tokens":0.5,"output_tokens":0.5,"pending":0.5,"running":0.5,"scenario":"s","stream_index":0.5,"swapped":0.5}}` // as the description lists them
	for _, fault := range bodyFaults(contract.Jobs, "streamChunk", contract.Read, []byte(chunk)) {
		t.Errorf("a stream chunk and the contract's table differ: %s", fault)
	}
	sendToEndpoint(request{method: "GET", path: "/batch"}) // an empty list
	done := id(sendToEndpoint(request{method: "POST", path: "/runsync", body: submission}))
	queued := id(sendToEndpoint(request{method: "POST", path: "/run", body: `{"input":{}}`}))
	batch := id(sendToEndpoint(request{method: "POST", path: "/batch", body: `[{"input":{}}]`}))
	for _, r := range []request{
		{method: "PUT", path: "/batch/" + batch, body: `{"name":"nightly"}`}, {method: "POST", path: "/batch/" + batch + "/requests", body: `{"requests":[{"input":{}}]}`},
		{method: "GET", path: "/batch/" + batch}, {method: "GET", path: "/batch"}, {method: "GET", path: "/batch/" + batch + "/requests"},
		{method: "GET", path: "/status/" + done}, {method: "GET", path: "/stream/" + done}, {method: "GET", path: "/health"}, {method: "GET", path: "/requests"},
		{method: "POST", path: "/stream/" + done, key: "live"}, {method: "POST", path: "/cancel/" + queued}, {method: "POST", path: "/purge-queue"},
	} {
		sendToEndpoint(r)
	}
	for _, resource := range []string{"batch", "batchList", "batchResults"} {
		for _, f := range contract.FieldsOf(contract.Jobs, resource, contract.Read) {
			must.Hold(t, strings.Contains(strings.Join(batches, ""), `"`+f.Path+`":`), "no answer has", f.Path, "of a", resource)
			must.Hold(t, resource == "batch" || f.RequiredIn(contract.Read), "each page of a", resource, "has", f.Path, "but its row doesn't require it")
		}
	}
}

//go:embed testdata/accepted.tsv
var acceptedTable string

//go:embed testdata/served.tsv
var servedTable string

//go:embed testdata/originals.tsv
var originalsTable string

//go:embed testdata/table.tsv
var tableTable string

// accepted is an intended difference of all operations that match include and don't match exclude.
type accepted struct {
	what             string // as in finding
	include, exclude *regexp.Regexp
	topic            string // the reason, or its topic in docs/reference/contract.md
}

func (a accepted) covers(operation string) bool {
	return a.include.MatchString(operation) && (a.exclude == nil || !a.exclude.MatchString(operation))
}

func readAccepted(t *testing.T, table string) (list []accepted) {
	t.Helper()
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		must.Require(t, len(f) == 4 && f[3] != "", len(f), "columns, want 4, the last with a reason:", line)
		a := accepted{what: f[0], include: regexp.MustCompile(f[1]), topic: f[3]}
		if f[2] != "-" {
			a.exclude = regexp.MustCompile(f[2])
		}
		list = append(list, a)
	}
	return list
}

// compare reports findings that aren't accepted and, in a full run, accepted ones that weren't found.
func (f *findings) compare(t *testing.T, all []operation, file, text string) {
	t.Helper()
	table := readAccepted(t, text)
	for found, example := range f.seen {
		must.Hold(t, slices.ContainsFunc(table, func(a accepted) bool { return a.what == found.what && a.covers(found.operation) }),
			found.operation, "differs from its document:", found.what, example)
	}
	for _, a := range table {
		covered := 0
		for _, o := range all {
			if !a.covers(o.String()) {
				continue
			}
			covered++
			must.Hold(t, f.seen[finding{o.String(), a.what}] != "" || testing.Short(), "testdata/"+file, "accepts a difference of", o, "that doesn't exist any more:", a.what)
		}
		must.Hold(t, covered != 0, "testdata/"+file, "has a line that no operation matches:", a.what)
	}
}

// Each accepted difference names a choice of docs/reference/contract.md.
func TestAcceptedDifferencesHaveReasons(t *testing.T) {
	page := string(must.Do(os.ReadFile("../../../../docs/reference/contract.md"))(t))
	for _, a := range readAccepted(t, acceptedTable) {
		must.Hold(t, strings.Contains(page, "\n| "+a.topic+" | "), "docs/reference/contract.md has no choice", a.topic, "which is the reason for:", a.what)
	}
}

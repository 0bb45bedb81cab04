package contract

import (
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

//go:generate go test . -run ^TestDocumentIsCurrent$ -update

// Markdown returns the text of docs/reference/contract.md, which contains the package's tables.
func Markdown() string {
	var doc strings.Builder
	doc.WriteString(introduction)
	for _, api := range []struct {
		api         API
		title, text string
	}{
		{V1, "Management API v1", "Paths follow `{base_url}/v1`. Bodies are flat, lists are bare arrays. Retired on 15 November 2026."},
		{V2, "Management API v2", "Paths follow `{base_url}/v2`. Bodies are nested, lists are objects that contain one list, errors are `application/problem+json` (RFC 9457)."},
		{Jobs, "Job API", "Paths follow `{queue_url}/v2/{endpoint_id}`, or `{queue_url}/live/v2/{endpoint_id}` for the dialect that RunPod's public SDKs speak."},
	} {
		fmt.Fprintf(&doc, "\n## %s\n\n%s\n", api.title, api.text)
		if api.api != V1 {
			writeOperations(&doc, api.api)
		}
		if api.api == V1 {
			doc.WriteString("\nThis page omits the tables of v1: a jobrunner serves them at `/v1/openapi.json` and `/v1/docs`.\n")
			continue
		}
		if api.api == V2 {
			doc.WriteString("\nThis page omits read-only objects, such as billing records and the catalog: a jobrunner's `/v2/openapi.json` has them.\n")
		}
		for _, resource := range inTableOrder(api.api) {
			if isPrinted(api.api, resource) {
				writeFields(&doc, api.api, resource)
			}
		}
	}
	doc.WriteString("\n## Known values\n\nValues that the sources name. The lists are open: a deployment may have more, and unlisted values are accepted.\n")
	for _, list := range openLists {
		fmt.Fprintf(&doc, "\n### %s\n\n%s\n", list.title, codes(list.values))
	}
	writeChoices(&doc)
	return doc.String()
}

// isPrinted reports whether a resource has a section: management resources that are read-only have none, except errors.
func isPrinted(api API, resource string) bool {
	return api == Jobs || resource == "error" || slices.ContainsFunc(Fields, func(f Field) bool {
		return f.API == api && f.Resource == resource && f.Use&writeOnly != 0
	})
}

const introduction = `# The contract

<!-- Printed from internal/contract; to renew it: go generate ./internal/contract -->

What the management APIs and the job API accept and return. The client, the jobrunner and the provider are
tested against these tables.

Its sources, in order of precedence: the *service description*; the *v1 document* and *v2 document*,
RunPod's OpenAPI files; and *field notes*, observations of real servers and clients. RunPod's *changes of
November 2026* update these. ` + "`internal/contract`" + ` names the source of each row. If the sources differ or are silent, see [Choices](#choices).

| Column | Meaning |
|---|---|
| Member | Path in the body; ` + "`a[].b`" + ` is member b of each object in the list a. |
| Bodies | C create, U update, R response. A star: required if the object around it is present. |
| Type and rules | Default in a create body, bounds (of a string's or list's length), accepted values, notes. An update keeps omitted members. |
`

func writeOperations(doc *strings.Builder, api API) {
	common := commonErrors(api)
	fmt.Fprintf(doc, "\n### Operations\n\nEach operation may also return %s.\n", numbers(common))
	doc.WriteString("\n| Operation | Body | Status | Query and notes |\n|---|---|---|---|\n")
	for _, o := range Operations {
		if o.API == api {
			own := slices.DeleteFunc(slices.Clone(o.Errors), func(code int) bool { return slices.Contains(common, code) })
			notes := slices.DeleteFunc([]string{codes(o.Query), o.Note}, func(s string) bool { return s == "" })
			row(doc, code(o.Method+" "+o.Path), o.Resource, numbers(append(slices.Clone(o.Success), own...)), strings.Join(notes, "; "))
		}
	}
}

// commonErrors returns the codes that all operations of an API may return.
func commonErrors(api API) []int {
	var common []int
	for i, o := range slices.DeleteFunc(slices.Clone(Operations), func(o Operation) bool { return o.API != api }) {
		if i == 0 {
			common = slices.Clone(o.Errors)
		}
		common = slices.DeleteFunc(common, func(code int) bool { return !slices.Contains(o.Errors, code) })
	}
	return common
}

func writeFields(doc *strings.Builder, api API, resource string) {
	var rows [][]string
	for _, f := range Fields {
		if f.API == api && f.Resource == resource {
			rows = append(rows, []string{code(f.Path), usesOf(f), rules(f)})
		}
	}
	fmt.Fprintf(doc, "\n### %s\n\n", resource)
	if plain := slices.DeleteFunc(slices.Clone(rows), hasRules); len(plain) >= 3 && len(plain) < len(rows) {
		rows = slices.DeleteFunc(rows, func(r []string) bool { return !hasRules(r) })
		doc.WriteString("Members without rules:")
		for _, r := range plain {
			doc.WriteString(" " + r[0] + " " + r[1] + " " + r[2] + ";")
		}
		doc.WriteString("\n\n")
	}
	doc.WriteString("| Member | Bodies | Type and rules |\n|---|---|---|\n")
	for _, r := range rows {
		row(doc, r...)
	}
}

// hasRules reports whether a row has more than a type.
func hasRules(r []string) bool { return strings.ContainsAny(r[2], ";`") }

// choices.md says what this project does if its sources differ or are silent, and what they say.
//
//go:embed choices.md
var choices string

// choiceRows returns the topic, the sources and the choice of each row of the tables.
func choiceRows() (rows [][]string) {
	for line := range strings.Lines(choices) {
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) == 3 {
			rows = append(rows, cells)
		}
	}
	return rows
}

// writeChoices writes choices.md without the sources.
func writeChoices(doc *strings.Builder) {
	text := choices
	for _, c := range choiceRows() {
		text = strings.Replace(text, "| "+c[1]+" | "+c[2], "| "+c[2], 1)
	}
	doc.WriteString("\n" + strings.NewReplacer(" The column Sources paraphrases them.", "", "|---|---|---|", "|---|---|", "(../../docs/reference/", "(").Replace(text))
}

// openLists are printed once; rows link to them.
var openLists = []struct {
	title, anchor string
	values        []string
}{
	{"GPU types", "gpu-types", GPUTypeIDs},
	{"GPU pools", "gpu-pools", GPUPoolIDs},
	{"Data centers", "data-centers", DataCenterIDs},
	{"CPU flavors", "cpu-flavors", CPUFlavorIDs},
	{"CUDA versions", "cuda-versions", CUDAVersions},
}

func inTableOrder(api API) []string {
	var names []string
	for _, f := range Fields {
		if f.API == api && !slices.Contains(names, f.Resource) {
			names = append(names, f.Resource)
		}
	}
	return names
}

// Resources returns the resources that have fields, sorted.
func Resources(api API) []string { return slices.Sorted(slices.Values(inTableOrder(api))) }

func typeOf(f Field) string {
	name := f.Type
	if f.Items != "" {
		name += " of " + f.Items
	}
	if f.Nullable {
		name += " or null"
	}
	return name
}

func usesOf(f Field) string {
	var in []string
	for _, body := range []struct {
		use    Use
		letter string
	}{{Create, "C"}, {Update, "U"}, {Read, "R"}} {
		switch {
		case f.RequiredIn(body.use):
			in = append(in, body.letter+"\\*")
		case f.In(body.use):
			in = append(in, body.letter)
		}
	}
	return strings.Join(in, "")
}

func rules(f Field) string {
	all := []string{typeOf(f), "", values(f), f.Note}
	if f.Default != "" {
		all[1] = "default " + defaultOf(f)
	}
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), "; ")
}

func defaultOf(f Field) string {
	for _, list := range openLists {
		if f.Default == jsonList(list.values) {
			return fmt.Sprintf("all [%s](#%s)", list.title, list.anchor)
		}
	}
	return code(f.Default)
}

func values(f Field) string {
	var facts []string
	if bounds := boundsOf(f); bounds != "" {
		facts = append(facts, bounds)
	} else if f.Unit != "" {
		facts = append(facts, f.Unit)
	}
	switch {
	case f.Open:
		facts = append(facts, openList(f.Enum))
	case len(f.Enum) > 0:
		facts = append(facts, codes(f.Enum))
	}
	if f.Form != nil && !f.Open {
		facts = append(facts, strings.ReplaceAll(f.Form.Words, "<", `\<`))
	}
	if f.PowerOfTwo {
		facts = append(facts, "a power of two")
	}
	if f.Unique {
		facts = append(facts, "no duplicates")
	}
	if f.Clear != "" {
		facts = append(facts, "cleared by "+code(f.Clear))
	}
	return strings.Join(facts, "; ")
}

func boundsOf(f Field) string {
	unit := cmp.Or(f.Unit, map[string]string{"string": "characters", "array": "elements"}[f.Type])
	if f.Max != nil && *f.Max == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	var bounds string
	switch {
	case f.Min != nil && *f.Min == 1 && f.Max == nil && (f.Type == "string" || f.Type == "array"):
		return "not empty"
	case f.Min != nil && f.Max != nil:
		bounds = number(*f.Min) + " to " + number(*f.Max)
	case f.Min != nil:
		bounds = "at least " + number(*f.Min)
	case f.Max != nil:
		bounds = "at most " + number(*f.Max)
	default:
		return ""
	}
	if unit != "" {
		bounds += " " + unit
	}
	if f.OrZero {
		bounds = "0, or " + bounds
	}
	return bounds
}

func openList(known []string) string {
	for _, list := range openLists {
		if slices.Equal(list.values, known) {
			return fmt.Sprintf("[%s](#%s)", list.title, list.anchor)
		}
	}
	return codes(known) + ", and others"
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func numbers(all []int) string {
	text := make([]string, len(all))
	for i, n := range all {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ", ")
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func codes(all []string) string {
	text := make([]string, len(all))
	for i, s := range all {
		text[i] = code(s)
	}
	return strings.Join(text, ", ")
}

// row writes one line of a table. A bar would end its cell, even within code.
func row(doc *strings.Builder, cells ...string) {
	for _, cell := range cells {
		doc.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
	}
	doc.WriteString("|\n")
}

var update = flag.Bool("update", false, "rewrite docs/reference/contract.md")

const document = "../../docs/reference/contract.md"

func TestDocumentIsCurrent(t *testing.T) {
	want := Markdown()
	if *update {
		must.Succeed(t, os.WriteFile(document, []byte(want), 0o644))
	}
	got, err := os.ReadFile(document)
	must.Require(t, err == nil, "reading the document:", err, "; write it with: go generate ./internal/contract")
	if string(got) == want {
		return
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(want, "\n")
	for i, line := range wantLines {
		must.Require(t, i < len(gotLines) && gotLines[i] == line,
			"docs/reference/contract.md differs from the table in line", i+1, "want", line, "renew it with: go generate ./internal/contract")
	}
	t.Fatalf("docs/reference/contract.md has more lines than the table; renew it with: go generate ./internal/contract")
}

// An unescaped cell or a line break in a cell would break its table.
func TestEveryTableHasItsColumns(t *testing.T) {
	columns := 0
	for n, line := range strings.Split(Markdown(), "\n") {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		bars := strings.Count(line, "|") - strings.Count(line, `\|`)
		if columns == 0 {
			columns = bars
		}
		must.Hold(t, bars == columns && strings.HasSuffix(line, "|"), "line", n+1, "has", bars, "bars, its table has", columns, line)
	}
}

func TestEveryFieldOperationAndChoiceIsPrinted(t *testing.T) {
	rows := 0
	for line := range strings.Lines(Markdown()) {
		switch {
		case strings.HasPrefix(line, "| "):
			rows++
		case strings.HasPrefix(line, "Members without rules:"):
			rows += strings.Count(line, "`") / 2
		}
	}
	operationTables, fieldTables, operationsAndFields := 2, 0, len(Operations)
	for _, api := range []API{V2, Jobs} { // v1 is in its OpenAPI document
		fieldTables += len(slices.DeleteFunc(Resources(api), func(name string) bool { return !isPrinted(api, name) }))
	}
	for _, f := range Fields {
		if f.API != V1 && isPrinted(f.API, f.Resource) {
			operationsAndFields++
		}
	}
	for _, o := range Operations {
		if o.API == V1 {
			operationsAndFields--
		}
	}
	legend := 1 + 3 // rows of the introduction's table, with its header
	want := operationsAndFields + len(choiceRows()) + operationTables + fieldTables + legend
	must.Equal(t, rows, want, "rows that the document prints")
}

func TestCells(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"bounds", values(f("a", "integer", readWrite, between(10, 4096), unit("GB"))), "10 to 4096 GB"},
		{"bounds or zero", values(f("a", "integer", readWrite, between(5000, 604800000), orZero, unit("ms"))), "0, or 5000 to 604800000 ms"},
		{"fraction", values(f("a", "number", readWrite, atLeast(0.5), unit("s"))), "at least 0.5 s"},
		{"length", values(f("a", "string", readWrite, atMost(191))), "at most 191 characters"},
		{"length in bytes", values(f("a", "string", readWrite, atMost(191), unit("bytes"))), "at most 191 bytes"},
		{"open list", values(f("a", "[]string", readWrite, atLeast(1), openEnum(GPUPoolIDs))), "not empty; [GPU pools](#gpu-pools)"},
		{"values", values(f("a", "string", readWrite, oneOf("X", "Y"))), "`X`, `Y`"},
		{"form", values(f("a", "[]string", readWrite, form(Port))), `\<port>/\<http|tcp> with a port from 1 to 65535, such as 8000/http`},
		{"clearing value", values(f("a", "string", readWrite, clearedBy(`""`))), "cleared by `\"\"`"},
		{"common failures", numbers(commonErrors(Jobs)), "401, 403, 404, 429, 500"},
		{"unit alone", values(f("a", "integer", Read, unit("ms"))), "ms"},
		{"bodies", usesOf(f("a", "string", readWrite, required(Create|Read))), `C\*UR\*`},
		{"type", typeOf(f("a", "[]string", readWrite, nullable)), "array of string or null"},
		{"default", defaultOf(f("a", "string", readWrite, defaultTo(`""`))), "`\"\"`"},
		{"default of all", defaultOf(f("a", "[]string", readWrite, defaultTo(jsonList(DataCenterIDs)))), "all [Data centers](#data-centers)"},
	} {
		must.Equal(t, c.got, c.want, c.name)
	}
}

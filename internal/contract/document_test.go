package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:generate go test . -run ^TestDocumentIsCurrent$ -update

// Markdown returns the table as docs/reference/contract.md.
func Markdown() string {
	var doc strings.Builder
	doc.WriteString(introduction)
	for _, api := range []struct {
		api         API
		title, text string
	}{
		{V1, "Management API v1", "Paths follow `{base_url}/v1`. Bodies are flat, lists are bare arrays. Retired on 15 November 2026."},
		{V2, "Management API v2", "Paths follow `{base_url}/v2`. Bodies are nested, lists are objects that contain one list, errors are `application/problem+json` (RFC 9457)."},
		{Jobs, "Job API", "Paths follow `{queue_url}/v2/{endpoint_id}`, or `{queue_url}/live/v2/{endpoint_id}` for the dialect that the public SDKs speak."},
	} {
		fmt.Fprintf(&doc, "\n## %s\n\n%s\n", api.title, api.text)
		if api.api != V1 {
			writeOperations(&doc, api.api)
		}
		if api.api == V1 {
			doc.WriteString("\nA jobrunner's `/v1/openapi.json` and `/v1/docs`, generated from the same table, have its operations and members.\n")
			continue
		}
		if api.api == V2 {
			doc.WriteString("\nA jobrunner's `/v2/openapi.json` and `/v2/docs`, generated from the same table, also have read-only kinds such as billing records and the catalog.\n")
		}
		for _, resource := range inTableOrder(api.api) {
			if isPrinted(api.api, resource) {
				writeFields(&doc, api.api, resource)
			}
		}
	}
	writeKnownValues(&doc)
	writeChoices(&doc)
	return doc.String()
}

// isPrinted reports whether a resource has a section: v1 and v2 leave out read-only ones, except errors.
func isPrinted(api API, resource string) bool {
	return api == Jobs || resource == "error" || slices.ContainsFunc(Fields, func(f Field) bool {
		return f.API == api && f.Resource == resource && f.Use&sent != 0
	})
}

const introduction = `# The contract

<!-- Printed from internal/contract; to renew it: go generate ./internal/contract -->

What the management APIs and the job API accept and return. The client, the jobrunner and the provider are
tested against this table, field by field.

Its sources, in this order: the *service description*, the *v1 document* and *v2 document* (the OpenAPI
descriptions), and *field notes* on real deployments and clients. ` + "`internal/contract`" + ` names the source of each row.
If they differ or are silent, [Choices](#choices) says what this project does.

| Column | Meaning |
|---|---|
| Member | Path in the body; ` + "`a[].b`" + ` is member b of each object in the list a. |
| Bodies | C create, U update, R response. A star: required if the object around it is present. |
| Rules | Default in a create body, bounds (of a string's or list's length), accepted values, notes. An update keeps omitted members. |
`

func writeOperations(doc *strings.Builder, api API) {
	common := commonErrors(api)
	fmt.Fprintf(doc, "\n### Operations\n\nEach operation may also return %s.\n", numbers(common))
	doc.WriteString("\n| Operation | Members | Status | Query and notes |\n|---|---|---|---|\n")
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
	rows := rowsOf(api, resource)
	fmt.Fprintf(doc, "\n### %s\n\n", resource)
	if plain := slices.DeleteFunc(slices.Clone(rows), hasRules); len(plain) >= 3 && len(plain) < len(rows) {
		rows = slices.DeleteFunc(rows, func(r []string) bool { return !hasRules(r) })
		doc.WriteString("Without further rules:")
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

func rowsOf(api API, resource string) (rows [][]string) {
	for _, f := range Fields {
		if f.API == api && f.Resource == resource {
			rows = append(rows, []string{code(f.Path), usesOf(f), rules(f)})
		}
	}
	return rows
}

func writeKnownValues(doc *strings.Builder) {
	doc.WriteString("\n## Known values\n\nValues that the sources name. The lists are open: a deployment may have more, and unlisted values are accepted.\n")
	for _, list := range openLists {
		fmt.Fprintf(doc, "\n### %s\n\n%s\n", list.title, codes(list.values))
	}
}

func writeChoices(doc *strings.Builder) {
	doc.WriteString("\n## Choices\n\nWhat this project does if its sources differ or are silent. `internal/contract/choices.go` quotes the sources.\n")
	for _, group := range choiceGroups {
		fmt.Fprintf(doc, "\n### %s\n\n| Topic | Chosen |\n|---|---|\n", group.title)
		for _, c := range group.choices {
			row(doc, c.Topic, c.Chosen)
		}
	}
}

// openLists are printed once; rows link to them.
var openLists = []struct {
	title, anchor string
	values        []string
}{
	{"GPU types", "gpu-types", GPUTypeIDs},
	{"GPU pools", "gpu-pools", GPUPools},
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
	if f.Power2 {
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
	unit := f.Unit
	switch f.Type {
	case "string":
		unit = "characters"
	case "array":
		unit = "elements"
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

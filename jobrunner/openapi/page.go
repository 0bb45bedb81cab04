package openapi

import (
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
)

// PageStyle is the style sheet within a page.
const PageStyle = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
code { font: 0.9em ui-monospace, monospace; overflow-wrap: anywhere }
summary { cursor: pointer; padding: 0.3rem 0 }
details { border-bottom: 1px solid #8886 }
section, details > div { overflow-x: auto }
table { border-collapse: collapse; margin: 0.5rem 0 1rem }
caption { text-align: left; font-weight: 600 }
th, td { border: 1px solid #8886; padding: 0.2rem 0.6rem; text-align: left; vertical-align: top }
`

// Page renders the operations of a document as one HTML page, without external resources and scripts.
func Page(d Document) []byte {
	p := page{document: d}
	p.printf(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>%s</title><style>`, d.Info.Title)
	p.WriteString(PageStyle)
	p.printf(`</style></head><body><header><h1>%s</h1><p>%s The same as a document for programs: <a href="openapi.json">openapi.json</a>, OpenAPI %s.</p></header><main>`,
		d.Info.Title, d.Info.Description, d.OpenAPI)
	for _, tag := range d.Tags {
		p.printf(`<section aria-labelledby="%[1]s"><h2 id="%[1]s">%[1]s</h2>`, tag.Name)
		for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
			for _, method := range []string{"get", "post", "put", "patch", "delete"} {
				if o := d.Paths[path][method]; o != nil && slices.Contains(o.Tags, tag.Name) {
					p.operation(strings.ToUpper(method), strings.TrimSuffix(d.Servers[0].URL, "/")+path, o)
				}
			}
		}
		p.WriteString(`</section>`)
	}
	p.WriteString("</main></body></html>\n")
	return []byte(p.String())
}

type page struct {
	strings.Builder
	document Document
}

// printf writes HTML. It escapes its arguments.
func (p *page) printf(format string, args ...any) {
	for i, arg := range args {
		args[i] = html.EscapeString(fmt.Sprint(arg))
	}
	fmt.Fprintf(&p.Builder, format, args...)
}

func (p *page) operation(method, path string, o *Operation) {
	p.printf(`<details id="%s"><summary><code>%s %s</code> %s</summary><div>`, o.OperationID, method, path, o.Summary)
	if o.Security != nil {
		p.WriteString(`<p>Needs no API key.</p>`)
	}
	if len(o.Parameters) > 0 {
		p.table("Parameters", "Name", "In", "Value")
		for _, parameter := range o.Parameters {
			p.row(named(parameter.Name, parameter.Required), parameter.In, p.value(parameter.Schema))
		}
		p.endTable()
	}
	if o.RequestBody != nil {
		p.members("Body of the request", o.RequestBody.Content["application/json"].Schema)
	}
	p.table("Answers", "Status", "Meaning", "Body")
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
			r = p.document.Components.Responses[name]
		}
		var bodies []string
		for _, media := range slices.Sorted(maps.Keys(r.Content)) {
			bodies = append(bodies, media+": "+p.value(r.Content[media].Schema))
		}
		p.row(status, r.Description, strings.Join(bodies, "; "))
	}
	p.endTable()
	if success := o.Responses["200"]; success != nil {
		p.members("Body of the answer", success.Content["application/json"].Schema)
	} else if success = o.Responses["201"]; success != nil {
		p.members("Body of the answer", success.Content["application/json"].Schema)
	}
	p.WriteString(`</div></details>`)
}

// members shows the members of an object, or of the objects of a list.
func (p *page) members(caption string, s *Schema) {
	s = p.resolve(s)
	if s != nil && s.Items != nil {
		caption, s = caption+", each of the list", p.resolve(s.Items)
	}
	if s == nil || len(s.Properties) == 0 {
		return
	}
	p.table(caption, "Member", "Value")
	p.rows("", s, 0)
	p.endTable()
}

func (p *page) rows(prefix string, s *Schema, depth int) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		member := s.Properties[name]
		p.row(named(prefix+name, slices.Contains(s.Required, name)), p.value(member))
		inner := p.resolve(member)
		if inner.Items != nil {
			inner, name = p.resolve(inner.Items), name+"[]"
		}
		if len(inner.Properties) > 0 && depth < 4 {
			p.rows(prefix+name+".", inner, depth+1)
		}
	}
}

// resolve follows a reference, also of a nullable member.
func (p *page) resolve(s *Schema) *Schema {
	for s != nil {
		switch name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); {
		case ok:
			return p.document.Components.Schemas[name]
		case len(s.AllOf) > 0 && s.AllOf[0].Ref != "":
			s = s.AllOf[0]
		case len(s.AnyOf) > 0 && s.AnyOf[0].Ref != "":
			s = s.AnyOf[0]
		default:
			return s
		}
	}
	return s
}

// value describes a schema in one line.
func (p *page) value(s *Schema) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch kind := s.Type.(type) {
	case string:
		add("%s", kind)
	case []string:
		add("%s", strings.Join(kind, " or "))
	}
	inner := p.resolve(s)
	if inner != s {
		add("%v", inner.Type)
	}
	if s.Nullable || len(s.AnyOf) > 1 && s.AnyOf[1].Type == "null" {
		add("or null")
	}
	if s.Items != nil {
		add("of %s", p.value(s.Items))
	}
	for _, bound := range []struct {
		text  string
		value *float64
	}{{"at least", s.Minimum}, {"at most", s.Maximum}} {
		if bound.value != nil {
			add("%s %v", bound.text, *bound.value)
		}
	}
	for _, bound := range []struct {
		text  string
		value *int64
	}{{"characters, at least", s.MinLength}, {"characters, at most", s.MaxLength}, {"items, at least", s.MinItems}, {"items, at most", s.MaxItems}} {
		if bound.value != nil {
			add("%s %d", bound.text, *bound.value)
		}
	}
	if s.Enum != nil {
		add("one of %s", strings.Trim(fmt.Sprint(s.Enum), "[]"))
	}
	if s.UniqueItems {
		add("without duplicates")
	}
	if s.Description != "" {
		add("%s", s.Description)
	}
	return strings.Join(parts, ", ")
}

func named(name string, required bool) string {
	if required {
		return name + " (required)"
	}
	return name
}

func (p *page) table(caption string, columns ...string) {
	p.printf(`<table><caption>%s</caption><thead><tr>`, caption)
	for _, c := range columns {
		p.printf(`<th scope="col">%s</th>`, c)
	}
	p.WriteString(`</tr></thead><tbody>`)
}

func (p *page) row(first string, cells ...string) {
	p.printf(`<tr><th scope="row"><code>%s</code></th>`, first)
	for _, c := range cells {
		p.printf(`<td>%s</td>`, c)
	}
	p.WriteString(`</tr>`)
}

func (p *page) endTable() { p.WriteString(`</tbody></table>`) }

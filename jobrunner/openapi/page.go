package openapi

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
)

// PageStyle is the style sheet within a page.
//
//go:embed page.css
var PageStyle string

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"lower": strings.ToLower}).Parse(pageText))

// Page renders the operations of an OpenAPI 3.0 document as an HTML page without scripts and external resources.
func Page(d Document) []byte {
	var text bytes.Buffer
	if err := pageTemplate.Execute(&text, page{d}); err != nil {
		panic(err) // never: the template fits every document
	}
	return text.Bytes()
}

// page is a document with the methods that the template calls.
type page struct{ Document }

func (page) Style() template.CSS { return template.CSS(PageStyle) } //nolint:gosec // the embedded style sheet

func (page) Methods() []string { return []string{"GET", "POST", "PUT", "PATCH", "DELETE"} }

func (p page) Response(r *Response) *Response {
	if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
		return p.Components.Responses[name]
	}
	return r
}

type members struct {
	Caption string
	Rows    []member
}

type member struct {
	Name     string
	Required bool
	Value    string
}

// Members returns the members of an object, or of the objects of a list.
func (p page) Members(caption string, s *Schema) members {
	s = p.resolve(s)
	if s != nil && s.Items != nil {
		caption, s = caption+", each item of the list", p.resolve(s.Items)
	}
	return members{caption, p.rows("", s, 0)}
}

func (p page) rows(prefix string, s *Schema, depth int) (rows []member) {
	if s == nil || depth > 4 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		inner := p.resolve(s.Properties[name])
		rows = append(rows, member{prefix + name, slices.Contains(s.Required, name), p.Value(s.Properties[name])})
		if inner.Items != nil {
			inner, name = p.resolve(inner.Items), name+"[]"
		}
		rows = append(rows, p.rows(prefix+name+".", inner, depth+1)...)
	}
	return rows
}

// resolve follows a reference.
func (p page) resolve(s *Schema) *Schema {
	if s != nil && s.Ref != "" {
		s = p.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

func (p page) Value(s *Schema) string {
	parts := []string{fmt.Sprint(p.resolve(s).Type)}
	if s.Nullable {
		parts = append(parts, "or null")
	}
	if s.Items != nil {
		parts = append(parts, "of "+p.Value(s.Items))
	}
	parts = append(parts, bounds("", s.Minimum, s.Maximum)...)
	parts = append(parts, bounds("characters, ", s.MinLength, s.MaxLength)...)
	parts = append(parts, bounds("items, ", s.MinItems, s.MaxItems)...)
	if s.Enum != nil {
		parts = append(parts, "one of "+strings.Trim(fmt.Sprint(s.Enum), "[]"))
	}
	if s.Description != "" {
		parts = append(parts, s.Description)
	}
	return strings.Join(parts, ", ")
}

func bounds[T any](unit string, minimum, maximum *T) (parts []string) {
	if minimum != nil {
		parts = append(parts, fmt.Sprintf("%sat least %v", unit, *minimum))
	}
	if maximum != nil {
		parts = append(parts, fmt.Sprintf("%sat most %v", unit, *maximum))
	}
	return parts
}

package project

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// form is an issue form of the code host, with all members that it knows.
type form struct {
	Name, Description, Title, Type string
	Labels, Assignees, Projects    []string
	Body                           []element
}

type element struct {
	Type       string
	ID         string
	Attributes struct {
		Label, Description, Placeholder, Value, Render string
		Options                                        []any
		Multiple                                       bool
		Default                                        *int
	}
	Validations struct{ Required bool }
}

var formID = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Each issue form is one that the code host shows: it drops a form with any fault silently.
func TestIssueForms(t *testing.T) {
	names := map[string]bool{}
	paths := files(t, func(path string) bool { return strings.HasPrefix(path, ".github/ISSUE_TEMPLATE/") })
	if len(paths) < 2 {
		t.Errorf("forms: %v", paths)
	}
	for _, path := range paths {
		if filepath.Base(path) == "config.yml" {
			var config struct {
				BlankIssuesEnabled bool `yaml:"blank_issues_enabled"`
				ContactLinks       []struct{ Name, URL, About string }
			}
			text, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalWithOptions([]byte(strings.ReplaceAll(string(text), "contact_links", "contactlinks")), &config, yaml.Strict()); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			for _, l := range config.ContactLinks {
				if l.Name == "" || l.About == "" || !strings.HasPrefix(l.URL, "https://") {
					t.Errorf("%s: %+v", path, l)
				}
			}
			continue
		}
		var f form
		read(t, path, &f)
		for _, problem := range checkForm(f) {
			t.Errorf("%s: %s", path, problem)
		}
		if names[f.Name] {
			t.Errorf("%s: another form is called %q", path, f.Name)
		}
		names[f.Name] = true
	}
}

// checkForm holds a form to the rules of the code host's documentation.
func checkForm(f form) (problems []string) {
	if f.Name == "" || f.Description == "" || len(f.Body) == 0 {
		problems = append(problems, "name, description and body are required")
	}
	ids, labels, inputs := map[string]bool{}, map[string]bool{}, 0
	for _, e := range f.Body {
		at := e.Type + " " + e.ID + ": "
		if e.Type == "markdown" {
			if e.Attributes.Value == "" || e.ID != "" || e.Validations.Required {
				problems = append(problems, at+"expected a value, and neither id nor validations")
			}
			continue
		}
		inputs++
		if !slices.Contains([]string{"input", "textarea", "dropdown", "checkboxes"}, e.Type) {
			problems = append(problems, at+"unknown type")
		}
		if e.ID != "" && (!formID.MatchString(e.ID) || ids[e.ID]) {
			problems = append(problems, at+"expected an id of letters, digits, - and _ that no other element has")
		}
		if e.Attributes.Label == "" || labels[e.Attributes.Label] {
			problems = append(problems, at+"expected a label that no other element has")
		}
		ids[e.ID], labels[e.Attributes.Label] = true, true
		if choice := e.Type == "dropdown" || e.Type == "checkboxes"; choice != (len(e.Attributes.Options) > 0) {
			problems = append(problems, at+"a dropdown and checkboxes have options, and nothing else has")
		}
		seen := map[any]bool{}
		for _, o := range e.Attributes.Options {
			text, isText := o.(string)
			if e.Type == "dropdown" && (!isText || seen[text] || strings.EqualFold(text, "none") || text == "") {
				problems = append(problems, at+"expected options that are different texts, without None")
			}
			seen[text] = true
		}
		if e.Attributes.Render != "" && e.Type != "textarea" || (e.Attributes.Multiple || e.Attributes.Default != nil) && e.Type != "dropdown" {
			problems = append(problems, at+"render belongs to a textarea, multiple and default to a dropdown")
		}
	}
	if inputs == 0 {
		problems = append(problems, "expected an element that is not markdown")
	}
	return problems
}

func TestFormRules(t *testing.T) {
	const good = "name: a\ndescription: b\nbody:\n- type: dropdown\n  id: c\n  attributes: {label: d, options: [e, f]}\n- type: textarea\n  id: g\n  attributes: {label: h, render: shell}\n"
	for _, c := range []struct{ from, to string }{
		{"name: a", "title: a"},
		{"id: g", "id: c"},
		{"id: g", "id: g g"},
		{"label: h", "label: d"},
		{"label: h, ", ""},
		{"options: [e, f]", "options: []"},
		{"options: [e, f]", "options: [e, e]"},
		{"options: [e, f]", "options: [e, None]"},
		{"options: [e, f]", "options: [e, true]"},
		{"type: textarea", "type: input"},
		{"type: textarea", "type: text"},
		{"", ""}, // unchanged
	} {
		var f form
		if err := yaml.UnmarshalWithOptions([]byte(strings.Replace(good, c.from, c.to, 1)), &f, yaml.Strict()); err != nil {
			t.Fatal(err)
		}
		if problems := checkForm(f); (len(problems) == 0) != (c.from == "") {
			t.Errorf("%q in place of %q: %q", c.to, c.from, problems)
		}
	}
}

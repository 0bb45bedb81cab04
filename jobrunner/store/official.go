package store

import (
	"errors"
	"slices"
)

// officialTemplates are built in. Anybody can use them, but nobody can change them.
var officialTemplates = []Template{
	official("official-echo", "Echo worker", "builtin/echo", func(t *Template) { t.Serverless = true }),
	official("official-conformance", "Worker that does what its input says", "builtin/conformance", func(t *Template) { t.Serverless = true }),
	official("official-pod", "Pod that writes to its log", "builtin/echo", func(t *Template) { t.Ports = []string{"8080/http"} }),
}

func official(id, name, image string, set func(*Template)) Template {
	t := Template{Head: Head{ID: id, Name: name}, Public: true, Category: "CPU"}
	t.Image, t.Disk = image, 5
	set(&t)
	return t
}

// OfficialTemplates returns the built-in templates.
func OfficialTemplates() []Template {
	out := make([]Template, len(officialTemplates))
	for i, t := range officialTemplates {
		t.Container = t.clone()
		out[i] = t
	}
	return out
}

// officialTemplate returns the built-in template with an id if err is ErrNotFound, and t and
// err otherwise.
func officialTemplate(id string, t Template, err error) (Template, error) {
	if errors.Is(err, ErrNotFound) {
		if i := slices.IndexFunc(officialTemplates, func(t Template) bool { return t.ID == id }); i >= 0 {
			return OfficialTemplates()[i], nil
		}
	}
	return t, err
}

// ErrOfficial rejects a change of a built-in template: 403.
var ErrOfficial = errors.New("the template comes with the deployment and can't be changed or deleted: create one of your own")

// IsOfficial reports whether a template is built in.
func IsOfficial(id string) bool {
	return slices.ContainsFunc(officialTemplates, func(t Template) bool { return t.ID == id })
}

package store

import (
	"errors"
	"slices"
)

// officialTemplates are those that come with the program: anybody may use and nobody
// may change them.
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

// OfficialTemplates are the templates that come with the program.
func OfficialTemplates() []Template {
	out := make([]Template, len(officialTemplates))
	for i, t := range officialTemplates {
		t.Container = t.clone()
		out[i] = t
	}
	return out
}

// officialTemplate is one of them where err says that there is no such template of
// a user.
func officialTemplate(id string, t Template, err error) (Template, error) {
	if errors.Is(err, ErrNotFound) {
		if i := slices.IndexFunc(officialTemplates, func(t Template) bool { return t.ID == id }); i >= 0 {
			return OfficialTemplates()[i], nil
		}
	}
	return t, err
}

// ErrOfficial refuses a change of a template that comes with the program: 403.
var ErrOfficial = errors.New("the template comes with the deployment, and is nobody's to change or delete: create one of your own")

// IsOfficial tells whether an id is that of a template that comes with the program.
func IsOfficial(id string) bool {
	return slices.ContainsFunc(officialTemplates, func(t Template) bool { return t.ID == id })
}

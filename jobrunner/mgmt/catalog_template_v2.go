package mgmt

import (
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// maxCatalogTemplates limits the list, which has no pages.
const maxCatalogTemplates = 100

type templatesV2 struct {
	Templates []templateV2 `json:"templates"`
}

func readCatalogTemplatesQuery(c *call) (source string, err error) {
	q := newQuery(c)
	source = q.enumValue("source", "official", "verified", "community")
	return source, q.err()
}

// listCatalogTemplates lists the official templates, which this program ships, or the public templates
// of users. None is verified. The list omits each template's registry auth, which only its owner may see.
func (s *server) listCatalogTemplates(c *call) (any, error) {
	source, err := readCatalogTemplatesQuery(c)
	if err != nil {
		return nil, err
	}
	out := []templateV2{}
	add := func(t store.Template) {
		if len(out) < maxCatalogTemplates {
			t.Registry = ""
			out = append(out, newTemplateV2(t))
		}
	}
	switch source {
	case "", "official":
		for _, t := range store.OfficialTemplates() {
			add(t)
		}
	case "community":
		all, err := s.store.Templates(c.ctx())
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			if t.Public {
				add(t)
			}
		}
	}
	return templatesV2{out}, nil
}

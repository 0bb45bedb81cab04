package mgmt

import (
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// maxCatalogTemplates limits the list, which has no pages.
const maxCatalogTemplates = 100

type templatesV2 struct {
	Templates []templateV2 `json:"templates"`
}

func readTemplateSource(q *query) string {
	return q.enumValue("source", "official", "verified", "community")
}

// listCatalogTemplates lists this program's official templates or the users' public templates. The
// list of verified templates is empty. Only a template's owner may see its registry auth, so the
// list omits it.
func (c *call) listCatalogTemplates(source string) (templatesV2, error) {
	var all []store.Template
	var err error
	switch source {
	case "", "official":
		all = store.OfficialTemplates()
	case "community":
		all, err = c.store.Templates(c.ctx())
	}
	out := templatesV2{[]templateV2{}}
	for _, t := range all {
		if t.Public && len(out.Templates) < maxCatalogTemplates {
			t.Registry = ""
			out.Templates = append(out.Templates, newTemplateV2(t))
		}
	}
	return out, err
}

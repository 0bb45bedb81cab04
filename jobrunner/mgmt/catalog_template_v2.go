package mgmt

import (
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// maxCatalogTemplates limits the list, which has no pages.
const maxCatalogTemplates = 100

func readTemplateSource(q *query) string {
	return q.enumValue("source", "official", "verified", "community")
}

// listCatalogTemplates lists this program's official templates or the users' public templates. The
// list of verified templates is empty. Only a template's owner may see its registry auth, so the
// list omits it.
func (c *call) listCatalogTemplates(source string) ([]templateV2, error) {
	var all []store.Template
	var err error
	switch source {
	case "", "official":
		all = store.OfficialTemplates()
	case "community":
		all, err = c.store.Templates(c.ctx())
	}
	out := []templateV2{}
	for _, t := range all {
		if t.Public && len(out) < maxCatalogTemplates {
			t.Registry = ""
			out = append(out, newTemplateV2(t))
		}
	}
	return out, err
}

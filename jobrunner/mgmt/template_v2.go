package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// templateBodyV2 is the body of a create or an update.
type templateBodyV2 struct {
	Name *string `json:"name"`
	containerBodyV2
	Mounts              *mountsV2 `json:"mounts"`
	Public              *bool     `json:"public"`
	Serverless          *bool     `json:"serverless"`
	Category            *string   `json:"category"`
	StartSSH            *bool     `json:"startSsh"`
	StartJupyter        *bool     `json:"startJupyter"`
	AllowedCUDAVersions *[]string `json:"allowedCudaVersions"`
}

// mountsV2 has the mounts in bodies and answers. An update without persistent changes nothing.
type mountsV2 struct {
	Persistent *persistentV2 `json:"persistent,omitempty"`
}

type persistentV2 struct {
	Size int64  `json:"size"`
	Path string `json:"path"`
}

func (b templateBodyV2) apply(t *store.Template) error {
	setIfPresent(&t.Name, b.Name)
	if b.Mounts != nil && b.Mounts.Persistent != nil {
		t.Volume = store.LocalVolume(*b.Mounts.Persistent)
	}
	setIfPresent(&t.Public, b.Public)
	setIfPresent(&t.Serverless, b.Serverless)
	setIfPresent(&t.Category, b.Category)
	setIfPresent(&t.StartSSH, b.StartSSH)
	setIfPresent(&t.StartJupyter, b.StartJupyter)
	setIfPresent(&t.AllowedCUDAVersions, b.AllowedCUDAVersions)
	return b.containerBodyV2.apply(&t.Container)
}

// templateV2 is a template in an answer.
type templateV2 struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	containerV2
	Mounts              mountsV2 `json:"mounts"`
	Public              bool     `json:"public"`
	Serverless          bool     `json:"serverless"`
	Category            string   `json:"category"`
	StartSSH            bool     `json:"startSsh"`
	StartJupyter        bool     `json:"startJupyter"`
	AllowedCUDAVersions []string `json:"allowedCudaVersions"`
}

func newTemplateV2(t store.Template) templateV2 {
	w := templateV2{
		ID: t.ID, Name: t.Name, containerV2: newContainerV2(t.Container),
		Public: t.Public, Serverless: t.Serverless, Category: t.Category,
		StartSSH: t.StartSSH, StartJupyter: t.StartJupyter, AllowedCUDAVersions: nonNilList(t.AllowedCUDAVersions),
	}
	if t.Volume.Size > 0 {
		persistent := persistentV2(t.Volume)
		w.Mounts.Persistent = &persistent
	}
	return w
}

func (c *call) getTemplateV2() (templateV2, error) {
	t, err := c.store.Template(c.ctx(), c.id)
	return newTemplateV2(t), err
}

func createTemplateV2(c *call, body templateBodyV2) (store.Template, error) {
	t := templateDefaultsV2()
	if err := body.apply(&t); err != nil {
		return t, err
	}
	return c.store.CreateTemplate(c.ctx(), t)
}

func updateTemplateV2(c *call, body templateBodyV2) (store.Template, error) {
	return c.store.UpdateTemplate(c.ctx(), c.id, body.apply)
}

type templatePageV2 struct {
	Templates  []templateV2 `json:"templates"`
	Pagination paginationV2 `json:"pagination"`
}

func (c *call) listTemplatesV2(p pageQuery) (templatePageV2, error) {
	part, next, err := store.ReadPage[store.Template](c.ctx(), c.store, p.Page)
	return templatePageV2{convertAll(part, newTemplateV2), p.pagination(next)}, err
}

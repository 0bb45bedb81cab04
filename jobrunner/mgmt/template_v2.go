package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// templateBodyV2 is the body of a create or an update.
type templateBodyV2 struct {
	Name *string `json:"name" rule:"must=create min=1"`
	containerBodyV2
	Mounts              *mountsV2 `json:"mounts"`
	Public              *bool     `json:"public"`
	Serverless          *bool     `json:"serverless"`
	Category            *string   `json:"category" rule:"oneof=CPU,NVIDIA,AMD"`
	StartSSH            *bool     `json:"startSsh"`
	StartJupyter        *bool     `json:"startJupyter"`
	AllowedCUDAVersions *[]string `json:"allowedCudaVersions" rule:"form=cuda"`
}

// mountsV2 is of bodies and of answers. An update without persistent changes
// nothing.
type mountsV2 struct {
	Persistent *persistentV2 `json:"persistent,omitempty"`
}

type persistentV2 struct {
	Size int64  `json:"size" rule:"must min=10"`
	Path string `json:"path" rule:"must form=path"`
}

func (b *templateBodyV2) check(p phase) []string {
	if p == creating && b.Image == nil {
		return []string{"missing property 'image'"}
	}
	return nil
}

func (b *templateBodyV2) apply(t *store.Template) {
	set(&t.Name, b.Name)
	b.containerBodyV2.apply(&t.Container)
	if b.Mounts != nil && b.Mounts.Persistent != nil {
		t.Volume = store.LocalVolume(*b.Mounts.Persistent)
	}
	set(&t.Public, b.Public)
	set(&t.Serverless, b.Serverless)
	set(&t.Category, b.Category)
	set(&t.StartSSH, b.StartSSH)
	set(&t.StartJupyter, b.StartJupyter)
	set(&t.AllowedCUDAVersions, b.AllowedCUDAVersions)
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
		StartSSH: t.StartSSH, StartJupyter: t.StartJupyter, AllowedCUDAVersions: list(t.AllowedCUDAVersions),
	}
	if t.Volume.Size > 0 {
		persistent := persistentV2(t.Volume)
		w.Mounts.Persistent = &persistent
	}
	return w
}

func createTemplateV2(s *server, c *call, body templateBodyV2) (store.Template, error) {
	t := templateDefaultsV2()
	body.apply(&t)
	return s.store.CreateTemplate(c.ctx(), t)
}

func updateTemplateV2(s *server, c *call, body templateBodyV2) (store.Template, error) {
	return s.store.UpdateTemplate(c.ctx(), c.id, func(t *store.Template) error { body.apply(t); return nil })
}

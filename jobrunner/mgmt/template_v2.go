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
	copyFields(t, b)
	if b.Mounts != nil && b.Mounts.Persistent != nil {
		t.Volume = store.LocalVolume(*b.Mounts.Persistent)
	}
	return b.setCommand(&t.Container)
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

func newTemplateV2(t store.Template) (w templateV2) {
	copyFields(&w, t)
	w.containerV2 = newContainerV2(t.Container)
	if t.Volume.Size > 0 {
		w.Mounts.Persistent = new(persistentV2(t.Volume))
	}
	return w
}

func (c *call) getTemplateV2() (templateV2, error) {
	t, err := c.store.Template(c.ctx(), c.id)
	return newTemplateV2(t), err
}

// templateBody is the body of a create or an update of either version.
type templateBody interface{ apply(t *store.Template) error }

// createTemplate creates a template of the defaults and a body.
func createTemplate[B templateBody](defaults func() store.Template) func(*call, B) (store.Template, error) {
	return func(c *call, body B) (store.Template, error) {
		t := defaults()
		if err := body.apply(&t); err != nil {
			return t, err
		}
		return c.store.CreateTemplate(c.ctx(), t)
	}
}

func updateTemplate[B templateBody](c *call, body B) (store.Template, error) {
	return c.store.UpdateTemplate(c.ctx(), c.id, body.apply)
}

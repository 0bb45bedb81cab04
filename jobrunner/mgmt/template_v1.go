package mgmt

import (
	"net/http"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// templateBodyV1 is the body of a create or an update.
type templateBodyV1 struct {
	Name                    *string            `json:"name" rule:"must=create min=1"`
	ImageName               *string            `json:"imageName" rule:"must=create min=1"`
	Category                *string            `json:"category" rule:"only=create oneof=NVIDIA,AMD,CPU"`
	ContainerDiskInGB       *int64             `json:"containerDiskInGb" rule:"min=1"`
	ContainerRegistryAuthID reference          `json:"containerRegistryAuthId"`
	DockerEntrypoint        *[]string          `json:"dockerEntrypoint"`
	DockerStartCmd          *[]string          `json:"dockerStartCmd"`
	Env                     *map[string]string `json:"env"`
	IsPublic                *bool              `json:"isPublic"`
	IsServerless            *bool              `json:"isServerless" rule:"only=create"`
	Ports                   *[]string          `json:"ports" rule:"form=port"`
	Readme                  *string            `json:"readme"`
	VolumeInGB              *int64             `json:"volumeInGb" rule:"min=0"`
	VolumeMountPath         *string            `json:"volumeMountPath" rule:"form=path"`
}

func (b templateBodyV1) apply(t *store.Template) {
	set(&t.Name, b.Name)
	set(&t.Image, b.ImageName)
	set(&t.Category, b.Category)
	set(&t.Disk, b.ContainerDiskInGB)
	if b.ContainerRegistryAuthID.Set {
		t.Registry = b.ContainerRegistryAuthID.Value
	}
	set(&t.Entrypoint, b.DockerEntrypoint)
	setArgs(&t.Container, b.DockerStartCmd)
	set(&t.Env, b.Env)
	set(&t.Public, b.IsPublic)
	set(&t.Serverless, b.IsServerless)
	set(&t.Ports, b.Ports)
	set(&t.Readme, b.Readme)
	set(&t.Volume.Size, b.VolumeInGB)
	set(&t.Volume.Path, b.VolumeMountPath)
}

// templateV1 is a template in an answer. Credits and running time are not
// counted on one's own machine, and no template is the operator's: these are
// answered as 0 and false, the flag under the name of the wire and the one of
// the service description.
type templateV1 struct {
	ID                      string            `json:"id"`
	Name                    string            `json:"name"`
	ImageName               string            `json:"imageName"`
	Category                string            `json:"category"`
	ContainerDiskInGB       int64             `json:"containerDiskInGb"`
	ContainerRegistryAuthID string            `json:"containerRegistryAuthId"`
	DockerEntrypoint        []string          `json:"dockerEntrypoint"`
	DockerStartCmd          []string          `json:"dockerStartCmd"`
	Env                     map[string]string `json:"env"`
	IsPublic                bool              `json:"isPublic"`
	IsServerless            bool              `json:"isServerless"`
	Ports                   []string          `json:"ports"`
	Readme                  string            `json:"readme"`
	VolumeInGB              int64             `json:"volumeInGb"`
	VolumeMountPath         string            `json:"volumeMountPath"`
	Earned                  float64           `json:"earned"`
	IsRunpod                bool              `json:"isRunpod"`
	IsPlatform              bool              `json:"isPlatform"`
	RuntimeInMin            int64             `json:"runtimeInMin"`
}

func newTemplateV1(t store.Template) templateV1 {
	return templateV1{
		ID: t.ID, Name: t.Name, ImageName: t.Image, Category: t.Category,
		ContainerDiskInGB: t.Disk, ContainerRegistryAuthID: t.Registry,
		DockerEntrypoint: list(t.Entrypoint), DockerStartCmd: splitArgs(t.Args),
		Env: dictionary(t.Env), IsPublic: t.Public, IsServerless: t.Serverless, Ports: list(t.Ports), Readme: t.Readme,
		VolumeInGB: t.Volume.Size, VolumeMountPath: t.Volume.Path,
	}
}

// includeFlags tells which of the parameters that widen an answer of version 1 are on.
// The operation knows all of them, and refuses one that is neither true nor false.
func includeFlags(c *call, names ...string) (map[string]bool, error) {
	on, query := map[string]bool{}, c.http.URL.Query()
	for _, name := range names {
		value := query.Get(name)
		if value == "" {
			continue
		}
		var err error
		if on[name], err = strconv.ParseBool(value); err != nil {
			return nil, httpanswer.Refuse(http.StatusBadRequest, "invalid parameter %s: expected true or false, got %q", name, short(value))
		}
	}
	return on, nil
}

// hiddenV1 finds the templates that lists and reads leave out: those that an
// endpoint is linked to, unless the call asks for them.
func (s *server) hiddenV1(c *call) (map[string]bool, error) {
	on, err := includeFlags(c, "includeEndpointBoundTemplates", "includePublicTemplates", "includeRunpodTemplates")
	if err != nil || on["includeEndpointBoundTemplates"] {
		return nil, err
	}
	return s.store.BoundTemplates(c.ctx())
}

func (s *server) listTemplatesV1(c *call) (any, error) {
	hidden, err := s.hiddenV1(c)
	if err != nil {
		return nil, err
	}
	all, err := s.store.Templates(c.ctx())
	out := []templateV1{}
	for _, t := range all {
		if !hidden[t.ID] {
			out = append(out, newTemplateV1(t))
		}
	}
	return out, err
}

func (s *server) getTemplateV1(c *call) (any, error) {
	hidden, err := s.hiddenV1(c)
	if err != nil {
		return nil, err
	}
	if hidden[c.id] {
		return nil, httpanswer.Refuse(http.StatusNotFound, "template %q is bound to an endpoint: ask with includeEndpointBoundTemplates=true", c.id)
	}
	t, err := s.store.Template(c.ctx(), c.id)
	return newTemplateV1(t), err
}

func createTemplateV1(s *server, c *call, body templateBodyV1) (store.Template, error) {
	t := templateDefaultsV1()
	body.apply(&t)
	return s.store.CreateTemplate(c.ctx(), t)
}

func updateTemplateV1(s *server, c *call, body templateBodyV1) (store.Template, error) {
	return s.store.UpdateTemplate(c.ctx(), c.id, func(t *store.Template) error { body.apply(t); return nil })
}

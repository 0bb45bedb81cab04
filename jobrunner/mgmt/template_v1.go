package mgmt

import (
	"net/http"
	"strconv"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// templateBodyV1 is the body of a create or an update.
type templateBodyV1 struct {
	Name                    *string            `json:"name"`
	ImageName               *string            `json:"imageName"`
	Category                *string            `json:"category"`
	ContainerDiskInGB       *int64             `json:"containerDiskInGb"`
	ContainerRegistryAuthID reference          `json:"containerRegistryAuthId"`
	DockerEntrypoint        *[]string          `json:"dockerEntrypoint"`
	DockerStartCmd          *[]string          `json:"dockerStartCmd"`
	Env                     *map[string]string `json:"env"`
	IsPublic                *bool              `json:"isPublic"`
	IsServerless            *bool              `json:"isServerless"`
	Ports                   *[]string          `json:"ports"`
	Readme                  *string            `json:"readme"`
	VolumeInGB              *int64             `json:"volumeInGb"`
	VolumeMountPath         *string            `json:"volumeMountPath"`
}

func (b templateBodyV1) apply(t *store.Template) {
	setIfPresent(&t.Name, b.Name)
	setIfPresent(&t.Image, b.ImageName)
	setIfPresent(&t.Category, b.Category)
	setIfPresent(&t.Disk, b.ContainerDiskInGB)
	if b.ContainerRegistryAuthID.Set {
		t.Registry = b.ContainerRegistryAuthID.Value
	}
	setCommandV1(&t.Container, b.DockerEntrypoint, b.DockerStartCmd)
	setIfPresent(&t.Env, b.Env)
	setIfPresent(&t.Public, b.IsPublic)
	setIfPresent(&t.Serverless, b.IsServerless)
	setIfPresent(&t.Ports, b.Ports)
	setIfPresent(&t.Readme, b.Readme)
	setIfPresent(&t.Volume.Size, b.VolumeInGB)
	setIfPresent(&t.Volume.Path, b.VolumeMountPath)
}

// setCommandV1 changes the start command. Args that version 2 wrote stay as they are if they mean the
// same.
func setCommandV1(c *store.Container, entrypoint, cmd *[]string) {
	before, _ := c.Command() // args that can't be split are one word
	command := before
	setIfPresent(&command.Entrypoint, entrypoint)
	setIfPresent(&command.Cmd, cmd)
	if !command.Equal(before) {
		c.SetArgs(command.String())
	}
}

// templateV1 is a template in an answer. The jobrunner counts neither credits nor running time, so
// both are 0. The flag of official templates, which come with the deployment, has two names: one from
// the document and one from the service description.
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
	official := store.IsOfficial(t.ID)
	command, _ := t.Command() // args that can't be split are one word
	return templateV1{
		ID: t.ID, Name: t.Name, ImageName: t.Image, Category: t.Category,
		ContainerDiskInGB: t.Disk, ContainerRegistryAuthID: t.Registry,
		DockerEntrypoint: nonNilList(command.Entrypoint), DockerStartCmd: nonNilList(command.Cmd),
		Env: nonNilMap(t.Env), IsPublic: t.Public, IsServerless: t.Serverless, Ports: nonNilList(t.Ports), Readme: t.Readme,
		VolumeInGB: t.Volume.Size, VolumeMountPath: t.Volume.Path,
		IsRunpod: official, IsPlatform: official,
	}
}

// flags are the names of include… parameters of an operation of version 1.
type flags []string

// read returns the flags that a call sets to true. It rejects values other than true and false.
func (f flags) read(q *query) map[string]bool {
	enabled := map[string]bool{}
	for _, name := range f {
		q.declare(openapi.Parameter{Name: name, In: "query", Schema: &openapi.Schema{Type: "boolean"}})
		if q.has(name) {
			value, err := strconv.ParseBool(q.values.Get(name))
			q.refuseIf(err != nil, "invalid parameter %s: expected true or false, got %q", name, truncate(q.values.Get(name)))
			enabled[name] = value
		}
	}
	return enabled
}

// The flags of lists and reads of templates.
const (
	includeBound    = "includeEndpointBoundTemplates"
	includeOfficial = "includeRunpodTemplates"
)

var templateIncludes = flags{includeBound, "includePublicTemplates", includeOfficial}

// hiddenTemplatesV1 returns the templates that lists and reads hide: those bound to an endpoint,
// unless the call requests them.
func (c *call) hiddenTemplatesV1(on map[string]bool) (map[string]bool, error) {
	if on[includeBound] {
		return nil, nil
	}
	return c.store.BoundTemplates(c.ctx())
}

func (c *call) listTemplatesV1(on map[string]bool) ([]templateV1, error) {
	hidden, err := c.hiddenTemplatesV1(on)
	if err != nil {
		return nil, err
	}
	all, err := c.store.Templates(c.ctx())
	if on[includeOfficial] {
		all = append(all, store.OfficialTemplates()...)
	}
	out := []templateV1{}
	for _, t := range all {
		if !hidden[t.ID] {
			out = append(out, newTemplateV1(t))
		}
	}
	return out, err
}

func (c *call) getTemplateV1(on map[string]bool) (w templateV1, err error) {
	hidden, err := c.hiddenTemplatesV1(on)
	if err != nil {
		return w, err
	}
	if hidden[c.id] {
		return w, httpanswer.Refuse(http.StatusNotFound, "template %q is bound to an endpoint: request it with includeEndpointBoundTemplates=true", c.id)
	}
	t, err := c.store.Template(c.ctx(), c.id)
	return newTemplateV1(t), err
}

func createTemplateV1(c *call, body templateBodyV1) (store.Template, error) {
	t := templateDefaultsV1()
	body.apply(&t)
	return c.store.CreateTemplate(c.ctx(), t)
}

func updateTemplateV1(c *call, body templateBodyV1) (store.Template, error) {
	return c.store.UpdateTemplate(c.ctx(), c.id, func(t *store.Template) error { body.apply(t); return nil })
}

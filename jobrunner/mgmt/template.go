package mgmt

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

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

// mountsV2 has the mounts in bodies and answers. An update without persistent leaves the mounts unchanged.
type mountsV2 struct {
	Persistent *persistentV2 `json:"persistent,omitempty"`
}

type persistentV2 store.LocalVolume

type templateBodyV1 struct {
	Name       *string `json:"name"`
	Category   *string `json:"category"`
	Public     *bool   `json:"isPublic"`
	Serverless *bool   `json:"isServerless"`
	Readme     *string `json:"readme"`
	containerBodyV1
}

// containerBodyV1 has the container settings and the volume in the body of a template or a pod.
type containerBodyV1 struct {
	Image            *string            `json:"imageName"`
	Disk             *int64             `json:"containerDiskInGb"`
	Registry         clearableText      `json:"containerRegistryAuthId"`
	DockerEntrypoint *[]string          `json:"dockerEntrypoint"`
	DockerStartCmd   *[]string          `json:"dockerStartCmd"`
	Env              *map[string]string `json:"env"`
	Ports            *[]string          `json:"ports"`
	VolumeInGB       *int64             `json:"volumeInGb"`
	VolumeMountPath  *string            `json:"volumeMountPath"`
}

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

// templateV1 is a template in an answer. The jobrunner counts neither credits nor running time, so
// both are 0. The flag of official templates, which come with the deployment, has two names: one from
// the document and one from the service description.
type templateV1 struct {
	ID               string            `json:"id"`
	Name             string            `json:"name"`
	Image            string            `json:"imageName"`
	Category         string            `json:"category"`
	Disk             int64             `json:"containerDiskInGb"`
	Registry         string            `json:"containerRegistryAuthId"`
	DockerEntrypoint []string          `json:"dockerEntrypoint"`
	DockerStartCmd   []string          `json:"dockerStartCmd"`
	Env              map[string]string `json:"env"`
	Public           bool              `json:"isPublic"`
	Serverless       bool              `json:"isServerless"`
	Ports            []string          `json:"ports"`
	Readme           string            `json:"readme"`
	VolumeInGB       int64             `json:"volumeInGb"`
	VolumeMountPath  string            `json:"volumeMountPath"`
	Earned           float64           `json:"earned"`
	IsRunpod         bool              `json:"isRunpod"`
	IsPlatform       bool              `json:"isPlatform"`
	RuntimeInMin     int64             `json:"runtimeInMin"`
}

func (b templateBodyV2) apply(t *store.Template) error {
	copyFields(t, b)
	if b.Mounts != nil && b.Mounts.Persistent != nil {
		t.Volume = store.LocalVolume(*b.Mounts.Persistent)
	}
	return b.setCommand(&t.Container)
}

func (b templateBodyV1) apply(t *store.Template) error { //nolint:unparam // a method of templateBody
	copyFields(t, b)
	b.applyTo(&t.Container, &t.Volume)
	return nil
}

// applyTo changes the start command and the volume. Args of version 2 that mean the same command stay as sent.
func (b containerBodyV1) applyTo(c *store.Container, v *store.LocalVolume) {
	setIfPresent(&v.Size, b.VolumeInGB)
	setIfPresent(&v.Path, b.VolumeMountPath)
	before, _ := c.Command() // args that can't be split are one word
	command := before
	setIfPresent(&command.Entrypoint, b.DockerEntrypoint)
	setIfPresent(&command.Cmd, b.DockerStartCmd)
	if !command.Equal(before) {
		c.SetArgs(command.String())
	}
}

func newTemplateV2(t store.Template) (w templateV2) {
	copyFields(&w, t)
	w.containerV2 = newContainerV2(t.Container)
	if t.Volume.Size > 0 {
		w.Mounts.Persistent = new(persistentV2(t.Volume))
	}
	return w
}

func newTemplateV1(t store.Template) templateV1 {
	official := store.IsOfficial(t.ID)
	command, _ := t.Command() // args that can't be split are one word
	w := templateV1{
		DockerEntrypoint: nonNilList(command.Entrypoint), DockerStartCmd: nonNilList(command.Cmd),
		VolumeInGB: t.Volume.Size, VolumeMountPath: t.Volume.Path, IsRunpod: official, IsPlatform: official,
	}
	copyFields(&w, t)
	return w
}

// templateBody is the body of a create or an update of either version.
type templateBody interface{ apply(t *store.Template) error }

func createTemplate[B templateBody](defaults func() store.Template) func(*call, B) (store.Template, error) {
	return func(c *call, body B) (store.Template, error) {
		t := defaults()
		if err := body.apply(&t); err != nil {
			return t, err
		}
		return store.Create(c.ctx(), c.Store, t)
	}
}

func updateTemplate[B templateBody](c *call, body B) (store.Template, error) {
	return c.Store.UpdateTemplate(c.ctx(), c.id, body.apply)
}

// flagNames are the names of include… parameters of an operation of version 1.
type flagNames []string

// read returns whether a call sets each flag to true.
func (f flagNames) read(q *query) map[string]bool {
	enabled := map[string]bool{}
	for _, name := range f {
		enabled[name] = q.flag(name)
	}
	return enabled
}

const (
	includeBound    = "includeEndpointBoundTemplates"
	includeOfficial = "includeRunpodTemplates"
)

var templateIncludes = flagNames{includeBound, "includePublicTemplates", includeOfficial}

// hiddenTemplatesV1 returns the templates of endpoints, which lists and reads hide unless requested.
func (c *call) hiddenTemplatesV1(flags map[string]bool) (map[string]bool, error) {
	if flags[includeBound] {
		return nil, nil
	}
	return c.Store.BoundTemplates(c.ctx())
}

func (c *call) listTemplatesV1(flags map[string]bool) ([]templateV1, error) {
	hidden, err := c.hiddenTemplatesV1(flags)
	if err != nil {
		return nil, err
	}
	all, err := store.List[store.Template](c.ctx(), c.Store)
	if flags[includeOfficial] {
		all = append(all, store.OfficialTemplates()...)
	}
	all = slices.DeleteFunc(all, func(t store.Template) bool { return hidden[t.ID] })
	return convertAll(all, newTemplateV1), err
}

func (c *call) getTemplateV1(flags map[string]bool) (w templateV1, err error) {
	hidden, err := c.hiddenTemplatesV1(flags)
	if err != nil {
		return w, err
	}
	if hidden[c.id] {
		return w, httpanswer.Refuse(http.StatusNotFound, "template %q is bound to an endpoint: request it with includeEndpointBoundTemplates=true", c.id)
	}
	t, err := store.Get[store.Template](c.ctx(), c.Store, c.id)
	return newTemplateV1(t), err
}

// containerBodyV2 has the container settings in the body of a template, a pod or an endpoint.
type containerBodyV2 struct {
	Image *string `json:"image"`
	commandBodyV2
	Disk     *int64             `json:"disk"`
	Env      *map[string]string `json:"env"`
	Ports    *[]string          `json:"ports"`
	Registry clearableText      `json:"registry"`
}

// sourceBodyV2 has the template and the container settings in the body of a pod or an endpoint.
type sourceBodyV2 struct {
	FromTemplate *string `json:"templateId"`
	containerBodyV2
}

// commandBodyV2 is the start command in a body, as one string or as lists.
type commandBodyV2 struct {
	ArgsText       *string   `json:"args"`
	EntrypointList *[]string `json:"entrypoint"`
	CmdList        *[]string `json:"cmd"`
}

// setCommand stores args as sent. Without args, a list that the body omits stays unchanged.
func (b commandBodyV2) setCommand(c *store.Container) error {
	if b.ArgsText != nil {
		c.SetArgs(*b.ArgsText)
		command, _ := c.Command()                                        // args that can't be split are one word
		if strings.Contains(strings.Join(command.Words(), ""), "\x00") { // in JSON form, args has only the escape of a NUL
			return store.Refusal("args has a NUL character, which a program can't get: remove it")
		}
	}
	if b.EntrypointList == nil && b.CmdList == nil {
		return nil
	}
	before, _ := c.Command() // args that can't be split are one word
	command := before
	setIfPresent(&command.Entrypoint, b.EntrypointList)
	setIfPresent(&command.Cmd, b.CmdList)
	switch {
	case b.ArgsText == nil:
		c.SetArgs(command.JSON())
	case !command.Equal(before):
		return store.Refusal("args and entrypoint or cmd differ: expected one of them, or the same start command in both")
	}
	return nil
}

func (b containerBodyV2) apply(c *store.Container) error {
	copyFields(c, b)
	return b.setCommand(c)
}

type containerV2 struct {
	Image      string            `json:"image"`
	Args       string            `json:"args"`
	Entrypoint []string          `json:"entrypoint"`
	Cmd        []string          `json:"cmd"`
	Disk       int64             `json:"disk"`
	Env        map[string]string `json:"env"`
	Ports      []string          `json:"ports"`
	Registry   *string           `json:"registry"` // null if there is no registry auth
}

func newContainerV2(c store.Container) (w containerV2) {
	copyFields(&w, c)
	command, _ := c.Command() // args that can't be split are one word
	w.Args, w.Entrypoint, w.Cmd = c.StoredArgs(), nonNilList(command.Entrypoint), nonNilList(command.Cmd)
	return w
}

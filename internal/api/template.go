package api

import (
	"maps"
	"net/url"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// Template is the container configuration of pods or serverless workers.
type Template struct {
	ID    string `json:"id,omitempty"`
	Name  string `json:"name"` // unique
	Image string `json:"image,omitempty"`
	Command
	Disk                int64             `json:"disk,omitempty"` // GB
	Env                 map[string]string `json:"env,omitempty"`
	Ports               []string          `json:"ports,omitempty"`    // "<port>/<http|tcp>"
	Registry            string            `json:"registry,omitempty"` // id of a registry auth; "" for none
	Mounts              TemplateMounts    `json:"mounts,omitzero"`
	Public              bool              `json:"public"`
	Serverless          bool              `json:"serverless"`
	Category            string            `json:"category,omitempty"`
	Readme              *string           `json:"-"`                             // v1 only
	StartSSH            *bool             `json:"startSsh,omitempty"`            // v2 only
	StartJupyter        *bool             `json:"startJupyter,omitempty"`        // v2 only
	AllowedCUDAVersions *[]string         `json:"allowedCudaVersions,omitempty"` // v2 only
}

// Container returns the settings that a pod or endpoint gets from the template.
func (t Template) Container() Container {
	return Container{Image: &t.Image, Command: t.Command, Disk: &t.Disk, Env: t.Env, Ports: &t.Ports, Registry: &t.Registry}
}

type TemplateMounts struct {
	Persistent *PersistentMount `json:"persistent,omitempty"`
}

// PersistentMount is storage on the machine of a pod, or such storage in a template.
type PersistentMount struct {
	Size int64  `json:"size"` // GB
	Path string `json:"path"`
}

// templates returns the part of the collection that both versions share.
func templates(d *deployment, cache *listCache) *Collection[Template] {
	return &Collection[Template]{
		deployment: d, cache: cache, kind: "template",
		uniqueNames:       true,
		fixedMembersEqual: templateFixedMembersEqual,
		normalize:         normalizeTemplates,
	}
}

func templateFixedMembersEqual(got, want Template) bool {
	return got.Serverless == want.Serverless &&
		(want.Category == "" || got.Category == want.Category) &&
		(got.Mounts.Persistent == nil) == (want.Mounts.Persistent == nil)
}

func normalizeTemplates(got, want Template) (Template, Template) {
	got.Ports, want.Ports = slices.Sorted(slices.Values(got.Ports)), slices.Sorted(slices.Values(want.Ports))
	if got.AllowedCUDAVersions != nil && want.AllowedCUDAVersions != nil {
		got.AllowedCUDAVersions = new(inOrderOf(*want.AllowedCUDAVersions, *got.AllowedCUDAVersions))
	}
	return got, want
}

func templatesV1(d *deployment, cache *listCache) *Collection[Template] {
	r := templates(d, cache)
	r.path = "/v1/templates"
	// Without this parameter, the list lacks templates that endpoints use.
	r.query = url.Values{"includeEndpointBoundTemplates": {"true"}}
	r.required = []string{"name", "imageName", "containerDiskInGb", "category", "isServerless"}
	r.decode = decodeAs(templateV1.neutral)
	r.create = func(want Template) (any, error) {
		w, err := newTemplateV1(want)
		w.Category, w.IsServerless = want.Category, &want.Serverless // fixed at create
		return w, err
	}
	r.update = templatePatchV1
	return r
}

type templateV1 struct {
	ID                      string            `json:"id,omitempty"`
	Name                    string            `json:"name"`
	ImageName               string            `json:"imageName,omitempty"`
	Category                string            `json:"category,omitempty"`
	ContainerDiskInGB       int64             `json:"containerDiskInGb,omitempty"`
	ContainerRegistryAuthID string            `json:"containerRegistryAuthId,omitempty"`
	DockerEntrypoint        []string          `json:"dockerEntrypoint,omitempty"`
	DockerStartCmd          []string          `json:"dockerStartCmd,omitempty"`
	Env                     map[string]string `json:"env,omitempty"`
	IsPublic                bool              `json:"isPublic"`
	IsServerless            *bool             `json:"isServerless,omitempty"`
	Ports                   []string          `json:"ports"` // always sent, like volumeInGb, because the server has other defaults
	Readme                  string            `json:"readme,omitempty"`
	VolumeInGB              int64             `json:"volumeInGb"`
	VolumeMountPath         *string           `json:"volumeMountPath,omitempty"`
}

// newTemplateV1 makes the updatable part of a request body.
func newTemplateV1(t Template) (templateV1, error) {
	command, err := t.Meaning()
	if err != nil {
		return templateV1{}, err
	}
	w := templateV1{
		Name:                    t.Name,
		ImageName:               t.Image,
		ContainerDiskInGB:       t.Disk,
		ContainerRegistryAuthID: t.Registry,
		DockerEntrypoint:        command.Entrypoint,
		DockerStartCmd:          command.Cmd,
		Env:                     t.Env,
		IsPublic:                t.Public,
		Ports:                   append([]string{}, t.Ports...),
		Readme:                  deref(t.Readme),
	}
	if mount := t.Mounts.Persistent; mount != nil {
		w.VolumeInGB, w.VolumeMountPath = mount.Size, &mount.Path
	}
	return w, nil
}

func templatePatchV1(have, want Template) (patch, error) {
	p, after, err := changedV1("template", newTemplateV1, have, want)
	if err != nil {
		return nil, err
	}
	return p, completeGroups(p, after, [][]string{{"volumeInGb", "volumeMountPath"}})
}

func (w templateV1) neutral() Template {
	t := Template{
		ID:         w.ID,
		Name:       w.Name,
		Image:      w.ImageName,
		Command:    Command{Entrypoint: &w.DockerEntrypoint, Cmd: &w.DockerStartCmd}.fromAnswer(),
		Disk:       w.ContainerDiskInGB,
		Env:        w.Env,
		Ports:      w.Ports,
		Registry:   w.ContainerRegistryAuthID,
		Public:     w.IsPublic,
		Serverless: deref(w.IsServerless),
		Category:   w.Category,
		Readme:     &w.Readme,
	}
	if w.VolumeInGB > 0 {
		t.Mounts.Persistent = &PersistentMount{Size: w.VolumeInGB, Path: deref(w.VolumeMountPath)}
	}
	return t
}

func templatesV2(d *deployment, cache *listCache) *Collection[Template] {
	r := templates(d, cache)
	r.path, r.member = "/v2/templates", "templates"
	r.required = []string{"name", "image", "args", "disk", "env", "ports", "public", "serverless", "category"}
	r.decode = decodeAs(func(t Template) Template {
		t.Command, t.AllowedCUDAVersions = t.fromAnswer(), new(deref(t.AllowedCUDAVersions)) // an absent member is empty
		return t
	})
	r.create = func(want Template) (any, error) { return newTemplateV2(want), nil }
	r.update = func(have, want Template) (patch, error) {
		command, err := members(want.forUpdate(have.Command))
		if err != nil {
			return nil, err
		}
		have.Command, want.Command = Command{}, Command{}
		p, err := changedMembers(clearingValues(contract.V2, "template"), new(newTemplateV2(have)), newTemplateV2(want))
		maps.Copy(p, command)
		return p, err
	}
	return r
}

func newTemplateV2(t Template) Template {
	t.ID, t.Command = "", t.forCreate()
	if len(deref(t.AllowedCUDAVersions)) == 0 {
		t.AllowedCUDAVersions = nil
	}
	return t
}

package api

import "net/url"

func templatesV1(d *deployment, cache *listCache) Collection[Template] {
	r := templates(d, cache)
	r.path, r.unknownIDIs400 = "/v1/templates", true
	// Without it, the list lacks templates that endpoints use.
	r.query = url.Values{"includeEndpointBoundTemplates": {"true"}}
	r.required = []string{"name", "imageName", "containerDiskInGb"}
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

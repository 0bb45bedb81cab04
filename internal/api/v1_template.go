package api

import "net/url"

func templatesV1(t *transport, s *shelf) Collection[Template] {
	return &rest[Template, templateV1]{
		transport: t, shelf: s, kind: "template", path: "/v1/templates", badIDIs400: true,
		// Without it, a template that an endpoint uses seems to be gone.
		query:      url.Values{"includeEndpointBoundTemplates": {"true"}},
		full:       []string{"name", "imageName", "containerDiskInGb"},
		id:         func(t Template) string { return t.ID },
		name:       func(t Template) string { return t.Name },
		secret:     func(t Template) []string { return envSecrets(t.Env) },
		unique:     true,
		fixed:      fixedOfTemplate,
		comparable: comparableTemplates,
		neutral:    templateV1.neutral,
		create:     func(want Template) (templateV1, error) { return newTemplateV1(want, false) },
		update:     templatePatchV1,
	}
}

type templateV1 struct {
	ID                      *string            `json:"id,omitempty"`
	Name                    *string            `json:"name,omitempty"`
	ImageName               *string            `json:"imageName,omitempty"`
	Category                *string            `json:"category,omitempty"`
	ContainerDiskInGB       *int64             `json:"containerDiskInGb,omitempty"`
	ContainerRegistryAuthID *string            `json:"containerRegistryAuthId,omitempty"`
	DockerEntrypoint        *[]string          `json:"dockerEntrypoint,omitempty"`
	DockerStartCmd          *[]string          `json:"dockerStartCmd,omitempty"`
	Env                     *map[string]string `json:"env,omitempty"`
	IsPublic                *bool              `json:"isPublic,omitempty"`
	IsServerless            *bool              `json:"isServerless,omitempty"`
	Ports                   *[]string          `json:"ports,omitempty"`
	Readme                  *string            `json:"readme,omitempty"`
	VolumeInGB              *int64             `json:"volumeInGb,omitempty"`
	VolumeMountPath         *string            `json:"volumeMountPath,omitempty"`
}

// newTemplateV1 makes a request body. Ports and volumeInGb are always said:
// the server would fill in its own. An update says what is empty, which clears
// it, and leaves out what is fixed at create.
func newTemplateV1(t Template, update bool) (templateV1, error) {
	words, err := SplitArgs(t.Args)
	if err != nil {
		return templateV1{}, err
	}
	w := templateV1{
		Name:                    &t.Name,
		ImageName:               filled(t.Image, false),
		ContainerDiskInGB:       filled(t.Disk, false),
		ContainerRegistryAuthID: filled(t.Registry, update),
		DockerEntrypoint:        filledList(value(t.Entrypoint), update),
		DockerStartCmd:          filledList(words, update),
		Env:                     filledMap(t.Env, update),
		IsPublic:                &t.Public,
		Ports:                   filledList(t.Ports, true),
		Readme:                  filled(value(t.Readme), update),
		VolumeInGB:              new(int64(0)),
	}
	if t.Persistent != nil {
		w.VolumeInGB, w.VolumeMountPath = &t.Persistent.Size, &t.Persistent.Path
	}
	if !update {
		w.Category, w.IsServerless = filled(t.Category, false), &t.Serverless
	}
	return w, nil
}

func templatePatchV1(have, want Template) (patch, error) {
	after, err := newTemplateV1(want, true)
	if err != nil {
		return nil, err
	}
	before, err := newTemplateV1(have, true)
	if err != nil {
		before = templateV1{} // what v1 can't express differs from whatever it can
	}
	p, err := changed(before, after)
	if err != nil {
		return nil, err
	}
	return p, together(p, after, [][]string{{"volumeInGb", "volumeMountPath"}})
}

func (w templateV1) neutral() Template {
	t := Template{
		ID:         value(w.ID),
		Name:       value(w.Name),
		Image:      value(w.ImageName),
		Args:       JoinArgs(value(w.DockerStartCmd)),
		Entrypoint: new(value(w.DockerEntrypoint)),
		Disk:       value(w.ContainerDiskInGB),
		Env:        value(w.Env),
		Ports:      value(w.Ports),
		Registry:   value(w.ContainerRegistryAuthID),
		Public:     value(w.IsPublic),
		Serverless: value(w.IsServerless),
		Category:   value(w.Category),
		Readme:     new(value(w.Readme)),
	}
	if size := value(w.VolumeInGB); size > 0 {
		t.Persistent = &PersistentMount{Size: size, Path: value(w.VolumeMountPath)}
	}
	return t
}

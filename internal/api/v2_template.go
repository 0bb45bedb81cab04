package api

import "encoding/json"

func templatesV2(t *transport, s *shelf) Collection[Template] {
	return &rest[Template, templateV2]{
		transport: t, shelf: s, kind: "template", path: "/v2/templates", member: "templates",
		full:       []string{"name", "image", "args", "disk", "env", "ports", "public", "serverless", "category"},
		id:         func(t Template) string { return t.ID },
		name:       func(t Template) string { return t.Name },
		secret:     func(t Template) []string { return envSecrets(t.Env) },
		unique:     true,
		fixed:      fixedOfTemplate,
		comparable: comparableTemplates,
		neutral:    templateV2.neutral,
		create:     func(want Template) (templateV2, error) { return newTemplateV2(want, false), nil },
		update: func(have, want Template) (patch, error) {
			return changed(newTemplateV2(have, true), newTemplateV2(want, true))
		},
	}
}

// containerV2 holds the settings that a template and an endpoint have alike.
type containerV2 struct {
	Image    *string            `json:"image,omitempty"`
	Args     *string            `json:"args,omitempty"`
	Disk     *int64             `json:"disk,omitempty"`
	Env      *map[string]string `json:"env,omitempty"`
	Ports    *[]string          `json:"ports,omitempty"`
	Registry *reference         `json:"registry,omitempty"`
}

// reference is an id that null clears.
type reference string

func (r reference) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(r))
}

type templateV2 struct {
	ID   *string `json:"id,omitempty"`
	Name *string `json:"name,omitempty"`
	containerV2
	Mounts              *templateMountsV2 `json:"mounts,omitempty"`
	Public              *bool             `json:"public,omitempty"`
	Serverless          *bool             `json:"serverless,omitempty"`
	Category            *string           `json:"category,omitempty"`
	StartSSH            *bool             `json:"startSsh,omitempty"`
	StartJupyter        *bool             `json:"startJupyter,omitempty"`
	AllowedCUDAVersions *[]string         `json:"allowedCudaVersions,omitempty"`
}

type templateMountsV2 struct {
	Persistent *persistentMountV2 `json:"persistent,omitempty"`
}

type persistentMountV2 struct {
	Size int64  `json:"size"`
	Path string `json:"path"`
}

// newTemplateV2 makes a request body. An update says what is empty, which
// clears it; mounts can't be cleared.
func newTemplateV2(t Template, update bool) templateV2 {
	w := templateV2{
		Name: &t.Name,
		containerV2: containerV2{
			Image:    filled(t.Image, false),
			Args:     filled(t.Args, update),
			Disk:     filled(t.Disk, false),
			Env:      filledMap(t.Env, update),
			Ports:    filledList(t.Ports, update),
			Registry: filled(reference(t.Registry), update),
		},
		Public:              &t.Public,
		Serverless:          &t.Serverless,
		Category:            filled(t.Category, false),
		StartSSH:            t.StartSSH,
		StartJupyter:        t.StartJupyter,
		AllowedCUDAVersions: filledList(value(t.AllowedCUDAVersions), update),
	}
	if t.Persistent != nil {
		w.Mounts = &templateMountsV2{&persistentMountV2{Size: t.Persistent.Size, Path: t.Persistent.Path}}
	}
	return w
}

func (w templateV2) neutral() Template {
	t := Template{
		ID:                  value(w.ID),
		Name:                value(w.Name),
		Image:               value(w.Image),
		Args:                value(w.Args),
		Disk:                value(w.Disk),
		Env:                 value(w.Env),
		Ports:               value(w.Ports),
		Registry:            string(value(w.Registry)),
		Public:              value(w.Public),
		Serverless:          value(w.Serverless),
		Category:            value(w.Category),
		StartSSH:            w.StartSSH,
		StartJupyter:        w.StartJupyter,
		AllowedCUDAVersions: new(value(w.AllowedCUDAVersions)),
	}
	if w.Mounts != nil && w.Mounts.Persistent != nil {
		t.Persistent = &PersistentMount{Size: w.Mounts.Persistent.Size, Path: w.Mounts.Persistent.Path}
	}
	return t
}

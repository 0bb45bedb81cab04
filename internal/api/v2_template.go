package api

func templatesV2(d *deployment, cache *listCache) Collection[Template] {
	return &restCollection[Template, Template]{
		deployment: d, cache: cache, kind: "template", path: "/v2/templates", member: "templates",
		required:    []string{"name", "image", "args", "disk", "env", "ports", "public", "serverless", "category"},
		id:          func(t Template) string { return t.ID },
		name:        func(t Template) string { return t.Name },
		secretsOf:   func(t Template) []string { return envSecrets(t.Env) },
		uniqueNames: true,
		sameFixed:   sameFixedOfTemplate,
		normalize:   normalizeTemplates,
		neutral: func(t Template) Template {
			t.AllowedCUDAVersions = new(deref(t.AllowedCUDAVersions)) // left out: empty
			return t
		},
		create: func(want Template) (any, error) { return newTemplateV2(want), nil },
		update: func(have, want Template) (patch, error) {
			return changed(new(newTemplateV2(have)), newTemplateV2(want))
		},
	}
}

// newTemplateV2 makes a request body.
func newTemplateV2(t Template) Template {
	t.ID = ""
	if len(deref(t.AllowedCUDAVersions)) == 0 {
		t.AllowedCUDAVersions = nil
	}
	return t
}
